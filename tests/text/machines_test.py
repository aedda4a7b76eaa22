"""A language model over machines, here three processes on loopback that know of one another by a plan and a file of
addresses: the same bits, parts that die and come back, secrets and TLS, and what is refused."""

import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["HARMONICS_SOURCE_DIR"]) / "tests" / "cli"))
import serving
from rough_link import RoughLink
from small_llama import write_small_llama

HARMONICS = pathlib.Path(os.environ["HARMONICS_BINARY_DIR"]) / "harmonics"
TIMEOUT_S = 120
HOSTS = ("desk", "shelf", "cellar")
# Kills, stops and starts of parts while texts stream.
LOSSES = 100 if os.environ.get("HARMONICS_SOAK") else 2
SEED = int(os.environ.get("HARMONICS_SEED", "2402"))


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class MachinesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.model = write_small_llama(cls.folder / "small")
        cls.plan = cls.folder / "plan.yml"
        cls.plan.write_text("- desk: [1, 2]\n- shelf: [3, 4]\n- cellar: [5, 6]\n")
        cls.secret = cls.folder / "secret"
        cls.secret.write_text("0123456789abcdef0123456789abcdef\n")
        cls.secret.chmod(0o600)
        chance = random.Random(5)
        cls.prompts = cls.folder / "prompts.jsonl"
        cls.prompts.write_text("".join(json.dumps("".join(chance.choice("abcdefgh XYZ.") for _ in range(
            chance.randint(1, 200)))) + "\n" for _ in range(8)))
        # Two times as many as are under way at once: when the first answer is there, half have not begun.
        cls.many = cls.folder / "many.jsonl"
        cls.many.write_text(2 * cls.prompts.read_text())

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def setUp(self):
        self.addresses = dict(zip(HOSTS, free_ports(3)))
        self.hosts = self.folder / f"hosts-{self._testMethodName}.yml"
        self.write_hosts(self.hosts, self.addresses)

    def write_hosts(self, file, addresses):
        file.write_text("".join(f"{host}: 127.0.0.1:{port}\n" for host, port in addresses.items()))
        return file

    def stage(self, part, *flags, hosts=None):
        process = subprocess.Popen(
            [HARMONICS, "stage", self.model, "--generate", "--plan", self.plan, "--hosts", hosts or self.hosts, "--part",
             str(part), *map(str, flags)], stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertIn(f"part {part} (", process.stderr.readline())
        return process

    def stages(self, *flags):
        flags = flags or ("--token-file", self.secret)
        return [self.stage(part, *flags) for part in range(3)]

    def words(self, *flags, tokens=60, prompts=None):
        return [str(word) for word in (HARMONICS, "generate", self.model, "--prompts", prompts or self.prompts,
                                       "--max-tokens", tokens, "--ignore-end", "--output", "json", *flags)]

    def remote(self, *flags):
        return ("--plan", self.plan, "--hosts", self.hosts, *(flags or ("--stage-token-file", self.secret)))

    def generate(self, *flags, fails=False, tokens=60, prompts=None):
        done = subprocess.run(self.words(*flags, tokens=tokens, prompts=prompts), capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode != 0, fails, done.stdout + done.stderr)
        return done.stderr if fails else self.answers(done.stdout.splitlines())

    def answers(self, lines):
        return [(line["tokens"], [value.hex() for value in line["logprobs"]]) for line in map(json.loads, lines)]

    def test_the_same_bits_for_one_after_another(self):
        want = self.generate()
        self.assertEqual(self.generate("--plan", self.plan), want)
        self.assertEqual(self.generate("--plan", self.plan, "--processes", "--transport", "tcp"), want)
        self.stages("--token-file", self.secret, "--cache-mb", "16", "--threads", "1", "--run", "mine")
        for _ in range(2):
            self.assertEqual(self.generate(*self.remote("--stage-token-file", self.secret, "--run", "mine")), want)
        # Whoever is killed leaves parts that serve the next.
        with subprocess.Popen(self.words(*self.remote("--stage-token-file", self.secret, "--run", "mine")),
                              stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            process.kill()
        self.assertEqual(self.generate(*self.remote("--stage-token-file", self.secret, "--run", "mine")), want)

    def test_each_part_says_what_computes_it(self):
        want = self.generate()
        doctor = json.loads(subprocess.run([HARMONICS, "doctor", "--output", "json"], check=True, capture_output=True).stdout)
        built = any(part["name"] == "text-gpu" and part["built"] for part in doctor["parts"])
        gpu = built and doctor["torch"]["cuda_devices"] > 0
        for part, backend in enumerate(("gpu", "auto", "cpu")):
            process = subprocess.Popen(
                [HARMONICS, "stage", self.model, "--generate", "--plan", self.plan, "--hosts", self.hosts, "--part", str(part),
                 "--token-file", self.secret, "--backend", backend, "--deterministic"], stderr=subprocess.PIPE, text=True)
            self.addCleanup(process.stderr.close)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            if backend == "gpu" and not gpu:
                self.assertIn("using the CPU instead", process.stderr.readline())
            self.assertIn(", gpu) waits" if gpu and backend != "cpu" else ", cpu) waits", process.stderr.readline())
        got = self.generate(*self.remote())
        self.assertEqual([tokens for tokens, _ in got], [tokens for tokens, _ in want])
        if not gpu:
            self.assertEqual(got, want)

    def streamed(self, disturb, *flags):
        """What comes while `disturb` is called, after a few answers; and what was said."""
        with open(self.folder / "said", "w+") as said:
            process = subprocess.Popen(self.words("--sequences", 8, *flags, tokens=250, prompts=self.many), text=True,
                                       stdout=subprocess.PIPE, stderr=said)
            try:
                lines = [process.stdout.readline()]
                disturb(self.folder / "said", process)
                lines += process.stdout.readlines()
                process.wait(timeout=TIMEOUT_S)
            finally:
                process.kill()
                process.wait()
                process.stdout.close()
            said.seek(0)
            errors = said.read()
        self.assertEqual(process.returncode, 0, errors)
        return self.answers(lines), errors

    def until_lost(self, said, process):
        """Waits for a part that stands still to count as lost, which it does while texts are under way."""
        end = time.monotonic() + TIMEOUT_S
        while "are made anew" not in said.read_text():
            self.assertLess(time.monotonic(), end, said.read_text())
            try:
                process.wait(timeout=0.05)
                self.fail(f"it ended without the part that stood still: {said.read_text()}")
            except subprocess.TimeoutExpired:
                pass

    def test_a_part_that_is_lost_and_comes_back(self):
        want = self.generate(tokens=250, prompts=self.many)
        parts = self.stages()
        chance = random.Random(SEED)
        for number in range(LOSSES):
            lost = chance.randrange(3)
            stalls = number % 2 == 1

            def disturb(said, process):
                parts[lost].send_signal(signal.SIGSTOP if stalls else signal.SIGKILL)
                if stalls:
                    self.until_lost(said, process)
                    parts[lost].send_signal(signal.SIGCONT)
                    return
                parts[lost].wait()
                parts[lost] = self.stage(lost, "--token-file", self.secret)

            with self.subTest(seed=SEED, round=number, part=lost, stalls=stalls):
                got, errors = self.streamed(disturb, *self.remote("--stage-token-file", self.secret, "--deadline", 2))
                self.assertEqual(got, want)
                # So that tokens are computed again once at most.
                self.assertLessEqual(errors.count("are made anew"), 1, errors)

    def test_connections_that_are_cut_and_stalled(self):
        want = self.generate(tokens=250, prompts=self.many)
        chance = random.Random(SEED)
        dealt, number = 0, 0
        while dealt < (LOSSES if LOSSES > 2 else 3):
            rough = [RoughLink(self.addresses[host], "tcp", chance, 3) for host in ("desk", "shelf", "cellar", "cellar")]
            try:
                seen = [{**self.addresses, "shelf": rough[1].port}, {**self.addresses, "cellar": rough[2].port},
                        self.addresses, {**self.addresses, "desk": rough[0].port, "cellar": rough[3].port}]
                files = [self.write_hosts(self.folder / f"seen-{i}.yml", each) for i, each in enumerate(seen)]
                parts = [self.stage(part, "--token-file", self.secret, hosts=files[part]) for part in range(3)]
                got, errors = self.streamed(lambda said, process: None, "--plan", self.plan, "--hosts", files[3],
                                            "--stage-token-file", self.secret)
                self.assertEqual((got, errors), (want, ""))  # nothing was lost, nothing computed again
                for part in parts:
                    part.kill()
                    part.wait()
            finally:
                for one in rough:
                    one.close()
            dealt += sum(len(one.dealt) for one in rough)
            number += 1
            self.assertLess(number, 10 + LOSSES, "too few faults are dealt")
        print(f"{number} generations, {dealt} faults")

    def test_served_over_machines_with_tls(self):
        certificate, key = self.folder / "cert.pem", self.folder / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                        "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], check=True,
                       capture_output=True)
        key.chmod(0o600)
        self.stages("--tls-certificate", certificate, "--tls-key", key, "--tls-authority", certificate)
        shown = ("--stage-tls-certificate", certificate, "--stage-tls-key", key, "--stage-tls-authority", certificate)
        self.assertEqual(self.generate(*self.remote(*shown)), self.generate())
        body = json.dumps({"prompt": "abc", "max_tokens": 12, "temperature": 0})
        answers = []
        for flags in ((), self.remote(*shown)):
            service = serving.start([HARMONICS, "serve", self.model, "--listen", "127.0.0.1:0", *flags])
            self.addCleanup(service.process.wait)
            self.addCleanup(service.process.kill)
            client = serving.Client(service.port())
            status, _, answer = client.ask("POST", "/v1/completions", body)
            client.close()
            self.assertEqual(status, 200, answer)
            answers.append(json.loads(answer)["choices"][0]["text"])
            service.process.send_signal(signal.SIGTERM)
            self.assertEqual(service.end()[0], 0)
        self.assertEqual(answers[0], answers[1])

    def refused(self, *words):
        done = subprocess.run([HARMONICS, *map(str, words)], capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def test_what_is_refused(self):
        self.assertIn("did not all answer within 1 s", self.generate(*self.remote(
            "--stage-token-file", self.secret, "--first-contact", 1, "--deadline", 5), fails=True))
        self.stages()
        other = self.folder / "other.yml"
        other.write_text("- desk: [1, 1]\n- shelf: [2, 5]\n- cellar: [6, 6]\n")
        self.assertIn("the same model, plan and --run", self.generate(
            "--plan", other, "--hosts", self.hosts, "--stage-token-file", self.secret, fails=True))
        wrong = self.folder / "wrong"
        wrong.write_text("f" * 8 + "edcba9876543210" * 2)
        wrong.chmod(0o600)
        self.assertIn("token", self.generate(*self.remote("--stage-token-file", wrong, "--first-contact", 3), fails=True))
        copies = self.folder / "copies.yml"
        copies.write_text("- desk: [1, 3]\n- shelf: [1, 3]\n- cellar: [4, 6]\n")
        self.assertIn("one host for each stage", self.generate("--plan", copies, fails=True))
        lines = self.hosts.read_text().splitlines()[:2]
        some = self.folder / "some.yml"
        some.write_text("\n".join(lines) + "\n")
        self.assertIn("no address for host 'cellar'", self.generate("--plan", self.plan, "--hosts", some, fails=True))
        stage = ("stage", self.model, "--generate", "--part", 3)
        self.assertIn("needs --plan FILE and --hosts FILE", self.refused(*stage))
        self.assertIn("parts 0 to 2", self.refused(*stage, "--plan", self.plan, "--hosts", self.hosts))
        self.assertIn("--epochs", self.refused(*stage, "--plan", self.plan, "--hosts", self.hosts, "--epochs", 2))
        self.assertIn("needs --generate", self.refused("stage", "x.harp", "--part", 0, "--cache-mb", 3))
        self.assertIn("needs --generate", self.refused("stage", "x.harp", "--part", 0, "--deterministic"))
        self.assertIn("cpu, gpu or auto", self.refused(*stage, "--plan", self.plan, "--hosts", self.hosts, "--backend", "fpga"))
        for flag in ("--backend", "gpu"), ("--deterministic",):
            self.assertIn("excludes", self.generate(*self.remote(), *flag, fails=True))


if __name__ == "__main__":
    unittest.main()
