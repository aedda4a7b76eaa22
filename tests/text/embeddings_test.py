"""`harmonics serve` with an encoder: /v1/embeddings in plain requests and by the unmodified `openai` package."""

import base64
import concurrent.futures
import json
import os
import pathlib
import struct
import subprocess
import tempfile
import unittest

import packages
import serving
from small_bert import WIDTH, write_small_bert

HARMONICS = pathlib.Path(os.environ["HARMONICS_BINARY_DIR"]) / "harmonics"
PATH = "/v1/embeddings"
OPENAI = """
import openai, sys
client = openai.OpenAI(base_url=f"http://127.0.0.1:{sys.argv[1]}/v1", api_key="none")
made = client.embeddings.create(model="small", input=["hello", "what is the moon?"])
assert [each.index for each in made.data] == [0, 1] and len(made.data[0].embedding) == 32
print(made.usage.total_tokens, *made.data[1].embedding)
"""


class EmbeddingsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.model = write_small_bert(cls.folder / "small")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def serve(self, *flags, model=None):
        service = serving.start([HARMONICS, "serve", model or self.model, "--listen", "127.0.0.1:0", *flags])
        self.addCleanup(service.process.wait)
        self.addCleanup(service.process.kill)
        return service.port()

    def ask(self, port, body, path=PATH):
        client = serving.Client(port)
        try:
            status, _, answer = client.ask("POST", path, json.dumps(body))
            return status, json.loads(answer)
        finally:
            client.close()

    def vectors(self, port, texts):
        status, answer = self.ask(port, {"input": texts})
        self.assertEqual(status, 200, answer)
        return [each["embedding"] for each in answer["data"]]

    def test_each_text_as_if_alone(self):
        port = self.serve()
        texts = ["hello " * n + "ab." for n in range(12)]
        alone = [self.vectors(port, text)[0] for text in texts]
        self.assertEqual(self.vectors(port, texts), alone)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.assertEqual(list(pool.map(lambda text: self.vectors(port, [text])[0], texts)), alone)
        for vector in alone:
            self.assertEqual(len(vector), WIDTH)
            self.assertAlmostEqual(sum(value * value for value in vector), 1, delta=1e-5)
        self.assertNotEqual(alone[0], alone[1])
        # Cut as the folder says, at 48 tokens.
        self.assertEqual(self.vectors(port, "a" * 90), self.vectors(port, "a" * 60))
        status, answer = self.ask(port, {"input": "hello", "encoding_format": "base64", "model": "small"})
        self.assertEqual(status, 200)
        packed = base64.b64decode(answer["data"][0]["embedding"])
        self.assertEqual(list(struct.unpack(f"<{WIDTH}f", packed)), self.vectors(port, "hello")[0])
        client = serving.Client(port)
        figures = client.ask("GET", "/metrics")[2].decode()
        client.close()
        self.assertIn("harmonics_embedding_texts_total", figures)

    def test_what_is_wrong_gets_a_clear_status(self):
        port = self.serve()
        for body, status, what in [({}, 400, "'input' is missing"), ({"input": []}, 400, "empty list"),
                                   ({"input": [[999]]}, 400, "id 999"), ({"input": [[1] * 60]}, 400, "60 tokens"),
                                   ({"input": "a", "dimensions": 5}, 400, "vectors of 32"),
                                   ({"input": "a", "colour": 5}, 400, "'colour'"),
                                   ({"input": "a", "model": "other"}, 404, "no model 'other'"),
                                   ({"input": ["a"] * 3000}, 400, "at most 2048")]:
            got, answer = self.ask(port, body)
            self.assertEqual(got, status, answer)
            self.assertIn(what, answer["error"]["message"])
        self.assertEqual(self.ask(port, {"prompt": "a"}, "/v1/completions")[0], 404)
        refused = subprocess.run([HARMONICS, "serve", self.model, "--parts", "2"], capture_output=True, text=True,
                                 timeout=serving.TIMEOUT_S)
        self.assertIn("is an encoder", refused.stderr)
        pooling = self.model / "1_Pooling" / "config.json"
        kept = pooling.read_text()
        self.addCleanup(pooling.write_text, kept)
        pooling.write_text(json.dumps({"pooling_mode_weightedmean_tokens": True}))
        refused = subprocess.run([HARMONICS, "serve", self.model], capture_output=True, text=True,
                                 timeout=serving.TIMEOUT_S)
        self.assertIn("kinds of pooling", refused.stderr)

    def test_the_openai_package(self):
        python = packages.interpreter("openai", ["openai"], "openai")
        if python is None:
            self.skipTest("the package openai could not be fetched")
        port = self.serve("--name", "small")
        done = subprocess.run([python, "-c", OPENAI, str(port)], capture_output=True, text=True,
                              timeout=serving.TIMEOUT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([float(word) for word in done.stdout.split()[1:]], self.vectors(port, "what is the moon?")[0])


if __name__ == "__main__":
    unittest.main()
