"""`harmonics generate`: the same bits alone, in batches, in chunks, in parts and over processes, also when one dies."""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import unittest

from small_llama import write_small_llama

HARMONICS = pathlib.Path(os.environ["HARMONICS_BINARY_DIR"]) / "harmonics"
SOAK = bool(os.environ.get("HARMONICS_SOAK"))
COMBINATIONS = 200 if SOAK else 8
KILLS = 100 if SOAK else 2
SEED = int(os.environ.get("HARMONICS_SEED", "2401"))
TIMEOUT_S = 300


def words_of(*words):
    return [str(HARMONICS), "generate", *map(str, words)]


class GenerateTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.model = write_small_llama(cls.folder / "small")
        chance = random.Random(5)
        cls.prompts = cls.folder / "prompts.jsonl"
        texts = ["".join(chance.choice("abcdefgh XYZ.") for _ in range(chance.randint(1, 200))) for _ in range(16)]
        cls.prompts.write_text("".join(json.dumps(text) + "\n" for text in texts))
        cls.texts = texts

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def generate(self, *words, fails=False):
        done = subprocess.run(words_of(*words), capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode != 0, fails, done.stdout + done.stderr)
        return done.stderr if fails else done.stdout

    def answers(self, *words):
        """Tokens and the bits of their log-probabilities."""
        lines = self.generate(self.model, *words, "--output", "json").splitlines()
        return [(line["tokens"], [value.hex() for value in line["logprobs"]]) for line in map(json.loads, lines)]

    def drawn(self, *words):
        return self.answers("--prompts", self.prompts, "--max-tokens", 24, "--ignore-end", "--temperature", 0.8,
                            "--top-p", 0.95, "--top-k", 40, "--seed", 7, *words)

    def test_the_same_bits_however_it_is_computed(self):
        want = self.drawn("--sequences", 1, "--chunk", 512)
        self.assertEqual(len({tuple(tokens) for tokens, _ in want}), 16)
        chance = random.Random(SEED)
        for number in range(COMBINATIONS):
            flags = ["--sequences", chance.choice([1, 2, 8, 16]), "--chunk", chance.choice([16, 64, 512]),
                     "--parts", chance.choice([1, 2, 3]), "--threads", chance.choice([1, 2])]
            if number % 2:
                flags += ["--processes", "--transport", ["shm", "tcp", "grpc"][number // 2 % 3]]
            with self.subTest(flags=flags):
                self.assertEqual(self.drawn(*flags), want)

    def test_alone_as_among_others(self):
        want = self.drawn()
        alone = self.folder / "one.jsonl"
        for number in (0, 7, 15):
            alone.write_text(json.dumps(self.texts[number]) + "\n")
            got = self.answers("--prompts", alone, "--max-tokens", 24, "--ignore-end", "--temperature", 0.8, "--top-p",
                               0.95, "--top-k", 40, "--seed", 7)
            self.assertEqual(got, [want[number]])

    def children(self, pid):
        text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [int(word) for word in text.split()]

    def test_a_part_that_dies_is_replaced(self):
        words = ["--prompts", self.prompts, "--max-tokens", 150, "--ignore-end", "--sequences", 8]
        want = self.answers(*words)
        chance = random.Random(SEED)
        for _ in range(KILLS):
            after = chance.randrange(12)
            said = self.folder / "said"
            with open(said, "w") as errors_to:
                process = subprocess.Popen(
                    words_of(self.model, *words, "--output", "json", "--parts", 3, "--processes"), text=True,
                    stdout=subprocess.PIPE, stderr=errors_to)
            try:
                lines = [process.stdout.readline() for _ in range(after)]
                children = []
                while not children and process.poll() is None:
                    children = self.children(process.pid)
                if children:
                    os.kill(chance.choice(children), signal.SIGKILL)
                lines += process.stdout.readlines()
                process.wait(timeout=TIMEOUT_S)
            finally:
                process.kill()
                process.wait()
                process.stdout.close()
            errors = said.read_text()
            self.assertEqual(process.returncode, 0, errors)
            got = [json.loads(line) for line in lines]
            self.assertEqual([(line["tokens"], [value.hex() for value in line["logprobs"]]) for line in got], want)
            if after < 8:
                self.assertIn("are made anew", errors)

    def test_text_streams_and_ends(self):
        text = self.generate(self.model, "--prompt", "abc", "--max-tokens", 20, "--ignore-end")
        line = json.loads(self.generate(self.model, "--prompt", "abc", "--max-tokens", 20, "--ignore-end",
                                        "--output", "json"))
        self.assertEqual(text, line["text"] + "\n")
        self.assertEqual((line["end"], len(line["tokens"]), line["prompt_tokens"]), ("max tokens", 20, 3))
        self.assertGreaterEqual(line["seconds"], line["first_token_s"])
        stop = line["text"][5:8]
        ended = json.loads(self.generate(self.model, "--prompt", "abc", "--max-tokens", 20, "--ignore-end", "--stop",
                                         stop, "--output", "json"))
        self.assertEqual((ended["text"], ended["end"]), (line["text"][:line["text"].index(stop)], "stopped"))

    def test_chat_is_the_template(self):
        written = "<|start|>system: Be kind.\n<|start|>user: Hi\n<|start|>assistant: "
        want = self.generate(self.model, "--prompt", written, "--max-tokens", 12)
        self.assertEqual(self.generate(self.model, "--chat", "--system", "Be kind.", "--prompt", "Hi", "--max-tokens",
                                       12), want)
        file = self.folder / "chat.jsonl"
        file.write_text(json.dumps({"messages": [{"role": "system", "content": "Be kind."},
                                                 {"role": "user", "content": "Hi"}]}) + "\n")
        got = self.generate(self.model, "--prompts", file, "--max-tokens", 12)
        self.assertEqual(json.loads(got), want[:-1])

    def test_an_imported_model(self):
        harp = self.folder / "small.harp"
        subprocess.run([HARMONICS, "import", self.model, "-o", harp], check=True, capture_output=True)
        want = self.generate(self.model, "--prompt", "abc", "--max-tokens", 12)
        self.assertEqual(self.generate(harp, "--prompt", "abc", "--max-tokens", 12), want)
        self.assertEqual(self.generate(harp, "--prompt", "abc", "--max-tokens", 12, "--tokenizer", self.model,
                                       "--weights", self.folder / "small.safetensors", "--parts", 2, "--processes"),
                         want)
        self.assertIn("no chat template", self.generate(harp, "--prompt", "abc", "--chat", fails=True))

    def computed(self, *words, program=HARMONICS):
        """Its answers, what computed them, and what was said."""
        done = subprocess.run([program, *words_of(self.model, "--prompts", self.prompts, "--max-tokens", 24, "--ignore-end",
                                                  "--output", "json", *words)[1:]],
                              capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        (backend,) = {line["backend"] for line in lines}
        return [(line["tokens"], [value.hex() for value in line["logprobs"]]) for line in lines], backend, done.stderr

    def test_what_computes(self):
        doctor = json.loads(subprocess.run([HARMONICS, "doctor", "--output", "json"], check=True, capture_output=True).stdout)
        (part,) = [part for part in doctor["parts"] if part["name"] == "text-gpu"]
        gpu = part["built"] and doctor["torch"]["cuda_devices"] > 0
        self.assertIn("compute on a GPU" if gpu else "compute on the CPU", part["note"])
        want, backend, said = self.computed()
        self.assertEqual((backend, said), ("cpu", ""))
        for flags in ("gpu",), ("gpu", "--parts", 2), ("gpu", "--parts", 2, "--processes"), ("auto",), ("cpu", "--deterministic"):
            with self.subTest(flags=flags):
                got, backend, said = self.computed("--backend", *flags)
                self.assertEqual(backend, "gpu" if gpu and flags[0] != "cpu" else "cpu")
                # Once, whatever the number of processes.
                self.assertEqual(said.count("using the CPU instead"), int(flags[0] == "gpu" and not gpu), said)
                self.assertEqual([tokens for tokens, _ in got], [tokens for tokens, _ in want])
                if backend == "cpu":
                    self.assertEqual(got, want)
        same, _, _ = self.computed("--backend", "gpu", "--deterministic", "--sequences", 1)
        for flags in ("--sequences", 8), ("--chunk", 16), ("--parts", 3, "--processes"):
            self.assertEqual(self.computed("--backend", "gpu", "--deterministic", *flags)[0], same, flags)

    def test_a_gpu_needs_the_program_with_libtorch(self):
        for name in "harmonics", "harmonics-text":
            shutil.copy(HARMONICS.parent / name, self.folder / name)
        want, _, _ = self.computed()
        got, backend, said = self.computed("--backend", "gpu", program=self.folder / "harmonics")
        self.assertEqual((got, backend), (want, "cpu"))
        self.assertIn("no harmonics-text-torch lies beside this program", said)
        self.assertEqual(self.computed("--backend", "auto", program=self.folder / "harmonics"), (want, "cpu", ""))
        needed = subprocess.run(["ldd", HARMONICS.parent / "harmonics-text"], check=True, capture_output=True, text=True)
        self.assertNotIn("torch", needed.stdout)

    def test_says_what_is_wrong(self):
        self.assertIn("'fpga' is none of cpu|gpu|auto", self.generate(self.model, "--prompt", "a", "--backend", "fpga", fails=True))
        self.assertIn("the model takes 512", self.generate(self.model, "--prompt", "a" * 600, fails=True))
        self.assertIn("not a number from 0 to 100",
                      self.generate(self.model, "--prompt", "a", "--temperature", "hot", fails=True))
        self.assertIn("--system needs --chat", self.generate(self.model, "--prompt", "a", "--system", "b", fails=True))
        file = self.folder / "bad.jsonl"
        file.write_text('"fine"\n{"question": 1}\n')
        self.assertIn("line 2", self.generate(self.model, "--prompts", file, fails=True))
        self.assertIn("has no config.json", self.generate(self.folder, "--prompt", "a", fails=True))

    def test_a_small_cache_serves_one_after_another(self):
        words = ["--prompts", self.prompts, "--max-tokens", 200, "--ignore-end"]
        self.assertEqual(self.answers(*words, "--cache-mb", 1), self.answers(*words))


if __name__ == "__main__":
    unittest.main()
