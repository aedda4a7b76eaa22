"""`harmonics profile --mode generation`, `harmonics plan --goal tokens`, and texts made by that plan: the same as without."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from small_llama import BLOCKS, VOCABULARY, WIDTH, write_small_llama

HARMONICS = pathlib.Path(os.environ["HARMONICS_BINARY_DIR"]) / "harmonics"
TIMEOUT_S = 300


class PlanTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.model = write_small_llama(cls.folder / "small")
        cls.profile("desk-type", 1000)
        cls.profile("shelf-type", 1000)
        (cls.folder / "devices.yml").write_text("desk-type: [desk]\nshelf-type: [shelf, cellar]\n")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def run_words(cls, *words):
        return subprocess.run([HARMONICS, *map(str, words)], cwd=cls.folder, capture_output=True, text=True,
                              timeout=TIMEOUT_S)

    @classmethod
    def profile(cls, device, memory, *more):
        done = cls.run_words("profile", cls.model, "--mode", "generation", "--type", device, "--mem-mb", memory,
                             "--bw-mbps", 1000, "--sequences", "1,4", "--context", 128, "--chunk", 32, "--repeats", 2,
                             "--output", "json", *more)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def plan(self, *more, context=200, sequences=4, code=0):
        done = self.run_words("plan", self.model, "--context", context, "--sequences", sequences, *more)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def tokens(self, *more):
        done = self.run_words("generate", self.model, "--prompt", "abc", "--max-tokens", 20, "--ignore-end", "--output",
                              "json", *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["tokens"]

    def test_a_profile_has_each_layer_of_each_step(self):
        report = self.profile("other", 500)
        self.assertEqual([(one["sequences"], one["tokens"]) for one in report["steps"]],
                         [(1, 1), (1, 1), (4, 1), (4, 1), (1, 32), (1, 32)])
        # The table of tokens, blocks, the head.
        for one in report["steps"]:
            self.assertEqual(len(one["time_s"]), BLOCKS + 2)
            self.assertGreater(min(one["time_s"]), 0)
        # Two groups of heads with eight keys and eight values of four bytes.
        self.assertEqual(report["cache_bytes"], [0] + BLOCKS * [2 * 2 * 8 * 4] + [0])
        self.assertAlmostEqual(report["weights_mb"][0], VOCABULARY * WIDTH * 4 / 2**20)
        text = (self.folder / "device_types.yml").read_text()
        self.assertIn("generation_profiles:", text)
        self.assertIn("cache_bytes:", (self.folder / "models.yml").read_text())
        # Measured again, the same rows are replaced.
        self.profile("other", 500)
        self.assertEqual((self.folder / "device_types.yml").read_text().count("sequences:"), text.count("sequences:"))

    def test_texts_by_a_plan_are_those_without(self):
        want = self.tokens()
        for goal in ("tokens", "first-token", "both"):
            with self.subTest(goal=goal):
                report = json.loads(self.plan("--goal", goal, "--output", "json"))
                self.assertTrue(report["proven"])
                self.assertEqual(report["goal"], goal)
                file = self.folder / f"{goal}.json"
                file.write_text(json.dumps(report))
                self.assertEqual(self.tokens("--plan", file), want)
                self.assertEqual(self.tokens("--plan", file, "--processes"), want)

    def test_more_steps_in_flight_than_parts(self):
        report = json.loads(self.plan("--goal", "tokens", "--output", "json"))
        report["stages"] = [{"hosts": hosts, "layers": layers, "period_s": 1} for hosts, layers in (
            (["desk"], [1, 2]), (["shelf"], [3, BLOCKS + 2]))]
        prompts = self.folder / "prompts.jsonl"
        prompts.write_text("".join(json.dumps(c * (3 + 17 * i)) + "\n" for i, c in enumerate("abcdefghijkl")))
        words = ("generate", self.model, "--prompts", prompts, "--max-tokens", 12, "--ignore-end", "--chunk", 8)
        want = self.run_words(*words).stdout
        self.assertEqual(len(want.splitlines()), 12)
        for in_flight in (1, 12, 1000):
            report["in_flight"] = in_flight
            file = self.folder / "flights.json"
            file.write_text(json.dumps(report))
            done = self.run_words(*words, "--plan", file, "--processes")
            self.assertEqual(done.stdout, want, done.stderr)

    def test_where_no_host_has_the_memory_alone_several_share_the_layers(self):
        words = ("--dev-types-file", "small.yml", "--goal", "tokens")
        text = (self.folder / "device_types.yml").read_text()
        # Caches of 32 sequences of 512 tokens take 2 MB in each of the four blocks.
        (self.folder / "small.yml").write_text(text.replace("mem_MB: 1000", "mem_MB: 5"))
        report = json.loads(self.plan(*words, "--output", "json", context=512, sequences=32))
        self.assertEqual([len(stage["hosts"]) for stage in report["stages"]], len(report["stages"]) * [1])
        self.assertGreater(len(report["stages"]), 1)
        for stage in report["stages"]:
            self.assertLess(stage["memory_mb"], stage["capacity_mb"])
        file = self.folder / "spread.json"
        file.write_text(json.dumps(report))
        self.assertEqual(self.tokens("--plan", file, "--processes"), self.tokens())
        plan = self.folder / "spread.yml"
        plan.write_text(self.plan(*words, "--output", "quiet", context=512, sequences=32))
        self.assertEqual(self.tokens("--plan", plan, "--processes"), self.tokens())
        reason = self.plan(*words, context=512, sequences=1000, code=3)
        self.assertRegex(reason, "no feasible plan: .*there is room for [0-9]+ such sequences")

    def test_words(self):
        text = self.plan("--goal", "tokens", "--explain")
        self.assertIn("tokens/s: each sequence gets one every", text)
        self.assertIn("proven optimal", text)
        self.assertIn("Tokens: ", text)
        self.assertIn("With 8 sequences: ", text)

    def test_bad_input(self):
        for words, sentence in (
                (("--goal", "words"), "--goal"), (("--goal", "latency"), "needs --goal tokens"),
                (("--goal", "tokens", "--front"), "do not go together"),
                (("--goal", "tokens", "--out-dir", "parts"), "do not go together"),
                (("--goal", "tokens", "--tolerance", 0.2), "needs --goal both")):
            with self.subTest(words=words):
                self.assertIn(sentence, self.plan(*words, code=2))
        self.assertIn("is not in 1..200", self.plan("--goal", "tokens", "--prompt", 201, code=1))
        self.assertIn("takes up to 512 tokens", self.plan("--goal", "tokens", context=513, code=1))
        self.assertIn("was not measured for generation",
                      self.plan("--goal", "tokens", "--model-name", "other", code=1))
        (self.folder / "nobody.yml").write_text("other-type: [desk]\n")
        types = (self.folder / "device_types.yml").read_text()
        (self.folder / "two.yml").write_text(types + "other-type: {bw_Mbps: 1, mem_MB: 1, model_profiles: {}}\n")
        self.assertIn("measured on no device type", self.plan(
            "--goal", "tokens", "--dev-file", "nobody.yml", "--dev-types-file", "two.yml", code=1))
        for words, sentence in ((("--batch-size", 8), "has no meaning with --mode generation"),
                                (("--sequences", "0"), "whole number")):
            done = self.run_words("profile", self.model, "--mode", "generation", *words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(sentence, done.stderr)
        done = self.run_words("profile", self.model, "--mode", "generation", "--context", 100000)
        self.assertEqual(done.returncode, 1)
        self.assertIn("this model takes up to 512", done.stderr)
        done = self.run_words("profile", self.model, "--context", 100)
        self.assertIn("needs --mode generation", done.stderr)


if __name__ == "__main__":
    unittest.main()
