"""`harmonics serve`: OpenAI's API over HTTP, in plain requests and by the unmodified `openai` package."""

import concurrent.futures
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import unittest

import packages
import serving
from small_llama import write_small_llama

HARMONICS = pathlib.Path(os.environ["HARMONICS_BINARY_DIR"]) / "harmonics"
CLIENTS = 16
CHAT = "/v1/chat/completions"


def events(body):
    """The objects of a stream, whose last word is [DONE]."""
    pieces = [piece[len("data: "):] for piece in body.decode().split("\n\n") if piece]
    assert pieces[-1] == "[DONE]", pieces[-1]
    return [json.loads(piece) for piece in pieces[:-1]]


class ServeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.model = write_small_llama(cls.folder / "small")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def serve(self, *flags, **options):
        service = serving.start([HARMONICS, "serve", self.model, "--listen", "127.0.0.1:0", *flags], **options)
        self.addCleanup(service.process.wait)
        self.addCleanup(service.process.kill)
        return service, service.port()

    def ask(self, port, body, path=CHAT, token=None):
        client = serving.Client(port, token)
        try:
            status, _, answer = client.ask("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            return status, answer
        finally:
            client.close()

    def body(self, number, **more):
        return {"model": "small", "messages": [{"role": "user", "content": f"Question {number}: " + "ab" * number}],
                "max_tokens": 10 + number, "temperature": 0.9, "seed": number, **more}

    def text(self, port, body):
        status, answer = self.ask(port, body)
        self.assertEqual(status, 200, answer)
        return json.loads(answer)["choices"][0]["message"]["content"]

    def test_answers_as_generate_does_and_streams_the_same(self):
        service, port = self.serve("--name", "small", "--queue", 64)
        number = next(n for n in range(1, 30) if len(self.text(port, self.body(n, temperature=0))) > 6)
        body = self.body(number, temperature=0)
        status, answer = self.ask(port, body)
        self.assertEqual(status, 200, answer)
        whole = json.loads(answer)
        want = subprocess.run([HARMONICS, "generate", self.model, "--chat", "--prompt",
                               f"Question {number}: " + "ab" * number, "--max-tokens", str(10 + number), "--output",
                               "json"], capture_output=True, text=True, check=True)
        line = json.loads(want.stdout)
        choice = whole["choices"][0]
        self.assertEqual(choice["message"], {"role": "assistant", "content": line["text"]})
        self.assertEqual(choice["finish_reason"], "length" if line["end"] == "max tokens" else "stop")
        self.assertEqual(whole["usage"]["completion_tokens"], len(line["tokens"]))
        self.assertEqual(whole["usage"]["prompt_tokens"], line["prompt_tokens"])
        status, answer = self.ask(port, {**body, "stream": True, "stream_options": {"include_usage": True}})
        pieces = events(answer)
        self.assertEqual(pieces[0]["choices"][0]["delta"]["role"], "assistant")
        self.assertEqual("".join(piece["choices"][0]["delta"].get("content", "") for piece in pieces[:-1]),
                         line["text"])
        self.assertEqual(pieces[-1]["usage"], whole["usage"])
        self.assertEqual(pieces[-2]["choices"][0]["finish_reason"], choice["finish_reason"])
        status, answer = self.ask(port, {"prompt": ["abc", [1, 2, 3]], "max_tokens": 4, "logprobs": 2, "n": 2,
                                         "temperature": 1.0, "seed": 1}, "/v1/completions")
        choices = json.loads(answer)["choices"]
        self.assertEqual([choice["index"] for choice in choices], [0, 1, 2, 3])
        self.assertTrue(all(len(choice["logprobs"]["top_logprobs"][0]) == 2 for choice in choices), choices)
        stop = line["text"][4:6]
        self.assertEqual(self.text(port, {**body, "stop": [stop]}), line["text"][:line["text"].index(stop)])
        client = serving.Client(port)
        self.assertEqual(json.loads(client.ask("GET", "/v1/models")[2])["data"][0]["id"], "small")
        self.assertEqual(client.ask("GET", "/health")[0], 200)
        metrics = client.ask("GET", "/metrics")[2].decode()
        self.assertRegex(metrics, r"harmonics_text_made_tokens_total [1-9]")
        self.assertRegex(metrics, r'harmonics_text_first_token_seconds_bucket{le="\+Inf"} [1-9]')
        self.assertRegex(metrics, r"harmonics_text_next_token_seconds_count [1-9]")
        client.close()
        service.process.send_signal(signal.SIGTERM)
        self.assertEqual(service.end()[0], 0)

    def test_many_clients_each_as_if_alone(self):
        _, port = self.serve("--sequences", 8, "--chunk", 16, "--parts", 2, "--processes", "--transport", "tcp",
                             "--threads", 1, "--cache-mb", 64)
        want = [self.text(port, self.body(number)) for number in range(CLIENTS)]
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            got = list(pool.map(lambda number: self.text(port, self.body(number)), range(CLIENTS)))
        self.assertEqual(got, want)

    def test_what_is_wrong_gets_a_clear_status(self):
        secret = self.folder / "secret"
        secret.write_text("0123456789abcdef0123456789abcdef\n")
        secret.chmod(0o600)
        _, port = self.serve("--token-file", secret, "--max-tokens", 50)
        token = "0123456789abcdef0123456789abcdef"
        self.assertEqual(self.ask(port, self.body(1))[0], 401)
        self.assertEqual(self.ask(port, self.body(1), token="wrong")[0], 401)
        for body, what in [({"messages": []}, "messages"), ({**self.body(1), "model": "other"}, "no model 'other'"),
                           ({**self.body(1), "presence_penalty": 2}, "presence_penalty"),
                           ({"messages": [{"role": "user", "content": "x" * 1_000_000}]}, "context is 512")]:
            status, answer = self.ask(port, body, token=token)
            self.assertIn(status, (400, 404))
            self.assertIn(what, json.loads(answer)["error"]["message"])
        self.assertEqual(self.ask(port, {}, "/v1/nothing", token)[0], 405)
        self.assertEqual(self.ask(port, self.body(1), token=token)[0], 200)

    def running(self, port):
        client = serving.Client(port)
        text = client.ask("GET", "/metrics")[2].decode()
        client.close()
        return {name: float(value) for name, value in re.findall(r"^harmonics_text_(\w+) (\S+)$", text, re.M)}

    def test_who_leaves_ends_only_its_own_answer(self):
        _, port = self.serve("--max-tokens", 500)
        body = json.dumps({**self.body(1), "max_tokens": 480, "stream": True}).encode()
        request = (f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body
        want = self.text(port, self.body(5))
        leaving = []
        for _ in range(6):
            one = socket.create_connection(("127.0.0.1", port), timeout=serving.TIMEOUT_S)
            one.sendall(request)
            self.assertIn(b"200 OK", one.recv(100))
            leaving.append(one)
        for one in leaving:
            one.close()
        self.assertEqual(self.text(port, self.body(5)), want)
        while self.running(port)["running"] > 0:
            pass
        figures = self.running(port)
        self.assertEqual(figures["cache_reserved_tokens"], 0)

    def test_who_leaves_a_whole_answer_frees_its_sequence(self):
        _, port = self.serve("--max-tokens", 500, "--sequences", 2)
        bodies = ({**self.body(number), "max_tokens": 470} for number in range(1, 60))
        long = next(body for body in bodies if json.loads(self.ask(port, body)[1])["usage"]["completion_tokens"] > 300)
        before = self.running(port)["made_tokens_total"]
        body = json.dumps(long).encode()
        request = (f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body
        leaving = []
        for _ in range(20):  # two run, the others wait
            one = socket.create_connection(("127.0.0.1", port), timeout=serving.TIMEOUT_S)
            one.sendall(request)
            leaving.append(one)
        while self.running(port)["running"] < 2:
            pass
        for one in leaving:
            one.close()
        while self.running(port)["running"] + self.running(port)["waiting"] > 0:
            pass
        figures = self.running(port)
        self.assertGreaterEqual(figures["left_total"], 10)
        self.assertLess(figures["made_tokens_total"] - before, 20 * 300)
        self.assertEqual(figures["cache_reserved_tokens"], 0)
        self.assertEqual(self.ask(port, self.body(2))[0], 200)

    def test_clients_with_keys_take_turns(self):
        keys = {"ana": "0123456789abcdef0123", "bo": "fedcba98765432100123"}
        file = self.folder / "keys"
        file.write_text("# who may ask\n" + "".join(f"{name} {key}\n" for name, key in keys.items()))
        file.chmod(0o600)
        _, port = self.serve("--keys-file", file, "--sequences", 1, "--queue", 64, "--max-tokens", 500)
        self.assertEqual(self.ask(port, self.body(1))[0], 401)
        # Long enough that those who ask come faster than answers do.
        bodies = ({**self.body(number), "max_tokens": 470} for number in range(1, 60))
        long = next(body for body in bodies if json.loads(
            self.ask(port, body, token=keys["ana"])[1])["usage"]["completion_tokens"] > 300)
        with concurrent.futures.ThreadPoolExecutor(64) as pool:
            # More than her share of what may wait is refused, and none of it is his.
            many = [pool.submit(self.ask, port, long, CHAT, keys["ana"]) for _ in range(50)]
            while self.running(port)["waiting"] < 20:
                pass
            self.assertEqual(self.ask(port, {**self.body(2), "max_tokens": 5}, token=keys["bo"])[0], 200)
            self.assertLess(sum(one.done() and one.result()[0] == 200 for one in many), 20)
            statuses = [one.result()[0] for one in many]
        self.assertEqual(set(statuses), {200, 503})
        self.assertGreaterEqual(statuses.count(200), 32)
        file.chmod(0o644)
        refused = subprocess.run([HARMONICS, "serve", self.model, "--keys-file", file], capture_output=True, text=True,
                                 timeout=serving.TIMEOUT_S)
        self.assertNotEqual(refused.returncode, 0)

    def test_too_many_are_refused(self):
        _, port = self.serve("--sequences", 1, "--queue", 1, "--max-tokens", 500)
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            answers = list(pool.map(lambda _: self.ask(port, {**self.body(1), "max_tokens": 400}), range(CLIENTS)))
        statuses = [status for status, _ in answers]
        self.assertLessEqual(set(statuses), {200, 503})
        self.assertIn(503, statuses)
        self.assertIn(200, statuses)
        self.assertEqual(self.ask(port, self.body(1))[0], 200)

    def test_the_openai_package(self):
        python = packages.interpreter("openai", ["openai"], "openai")
        if python is None:
            self.skipTest("the package openai could not be fetched")
        _, port = self.serve("--tokenizer", self.model)
        peer = pathlib.Path(__file__).resolve().parent / "openai_peer.py"
        done = subprocess.run([python, peer, str(port)], capture_output=True, text=True, timeout=serving.TIMEOUT_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_tls(self):
        certificate, key = self.folder / "cert.pem", self.folder / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                        "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], check=True,
                       capture_output=True)
        key.chmod(0o600)
        service = serving.start([HARMONICS, "serve", self.model, "--listen", "127.0.0.1:0", "--tls-certificate",
                                 certificate, "--tls-key", key])
        self.addCleanup(service.process.wait)
        self.addCleanup(service.process.kill)
        import ssl
        context = ssl.create_default_context(cafile=str(certificate))
        client = serving.Client(service.port("https"), context=context)
        status, _, answer = client.ask("POST", CHAT, json.dumps({**self.body(1), "stream": True}))
        client.close()
        self.assertEqual(status, 200)
        self.assertTrue(events(answer))
        refused = subprocess.run([HARMONICS, "serve", self.model, "--listen", "127.0.0.1:0", "--tls-authority",
                                  certificate], capture_output=True, text=True, timeout=serving.TIMEOUT_S)
        self.assertIn("--tls-certificate", refused.stderr)


if __name__ == "__main__":
    unittest.main()
