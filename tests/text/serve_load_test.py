"""`harmonics serve` under mixed load at four fifths of what it can do: whole and streamed answers, clients who leave, who
read slowly, who ask for too much or have the wrong key. Every answer is the one that its question gets alone, and memory,
threads and descriptors do not grow.

Five seconds in ctest; HARMONICS_SOAK=1 takes half an hour.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import random
import socket
import tempfile
import threading
import time
import unittest

import serving
from small_llama import write_small_llama

HARMONICS = pathlib.Path(os.environ["HARMONICS_BINARY_DIR"]) / "harmonics"
SECONDS = 1800 if os.environ.get("HARMONICS_SOAK") == "1" else 5
SEED = int(os.environ.get("HARMONICS_SEED", random.randrange(1 << 32)))
CLIENTS = 16
QUESTIONS = 24
SHARE_OF_CAPACITY = 0.8
CHAT = "/v1/chat/completions"
KEY = "0123456789abcdef0123456789abcdef"
# What a client does, and how often.
KINDS = {"whole": 50, "stream": 34, "leaves": 7, "slow": 3, "wrong key": 3, "too long": 2, "1 MB": 1}
# A service that has warmed up may still touch pages of its cache that it had not yet.
MOST_GROWTH_KB = 4096


def question(number, **more):
    return {"model": "small", "messages": [{"role": "user", "content": f"Question {number}: " + "ab" * number}],
            "max_tokens": 10 + number, "temperature": 0.9, "seed": number, **more}


def text_of_stream(body):
    pieces = [json.loads(piece[len("data: "):]) for piece in body.decode().split("\n\n")[:-1]
              if piece != "data: [DONE]"]
    return "".join(choice["delta"].get("content", "") for piece in pieces for choice in piece["choices"])


class Load:
    """Clients of a service who do what `KINDS` says, at a rate or one after the other; counts what came of it."""

    def __init__(self, port, wanted):
        self.port, self.wanted = port, wanted
        self.seen = collections.Counter()
        self.wrong = []
        self.over = threading.Event()  # a wrong answer ends the load
        self.lock = threading.Lock()

    def post(self, body, key=KEY):
        client = serving.Client(self.port, key)
        try:
            status, _, answer = client.ask("POST", CHAT, json.dumps(body), {"Content-Type": "application/json"})
            return status, answer
        finally:
            client.close()

    def streamed(self, number, pause_s):
        """The answer as a stream, read a little at a time with pauses in between; None for a connection that is left."""
        body = json.dumps(question(number, stream=True)).encode()
        request = (f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nContent-Length: {len(body)}\r\n"
                   "Connection: close\r\n\r\n").encode() + body
        with socket.create_connection(("127.0.0.1", self.port), timeout=serving.TIMEOUT_S) as one:
            one.sendall(request)
            one.recv(64)
            if pause_s is None:
                return
            while one.recv(256):
                self.over.wait(pause_s)

    def act(self, kind, number):
        status, answer = 0, b""
        if kind == "whole":
            status, answer = self.post(question(number))
            answer = json.loads(answer)["choices"][0]["message"]["content"] if status == 200 else answer
        elif kind == "stream":
            status, answer = self.post(question(number, stream=True))
            answer = text_of_stream(answer) if status == 200 else answer
        elif kind in ("leaves", "slow"):
            self.streamed(number, None if kind == "leaves" else 0.02)
        elif kind == "wrong key":
            status, answer = self.post(question(number), "wrong")
        else:
            status, answer = self.post({"messages": [{"role": "user", "content": "x" * (1_000_000 if kind == "1 MB" else 5_000)}]})
        with self.lock:
            self.seen[kind, status] += 1
            answered = kind in ("whole", "stream") and status == 200
            if answered and answer != self.wanted[number] and len(self.wrong) < 5:
                self.wrong.append((number, kind, answer))
                self.over.set()

    def draw(self, chance):
        kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
        return kind, chance.randrange(QUESTIONS)

    def capacity(self, seconds):
        """Requests a second of clients who ask again as soon as they have an answer."""
        end = time.monotonic() + seconds

        def ask(seed):
            chance, done = random.Random(seed), 0
            while time.monotonic() < end:
                self.act(*self.draw(chance))
                done += 1
            return done

        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            return sum(pool.map(ask, range(CLIENTS))) / seconds

    def run(self, rate, seconds, look):
        """Requests that come at random moments, `rate` a second; `look` is called every few seconds."""
        chance = random.Random(SEED)
        begin = next_look = at = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(4 * CLIENTS) as pool:
            pending = set()
            while at < begin + seconds and not self.over.is_set():
                at += chance.expovariate(rate)
                self.over.wait(max(0, at - time.monotonic()))
                if time.monotonic() >= next_look:
                    look()
                    next_look = time.monotonic() + min(10, seconds / 10)
                done = {one for one in pending if one.done()}
                for one in done:
                    one.result()
                pending = pending - done
                if len(pending) < 4 * CLIENTS:  # more would only wait in this program
                    pending.add(pool.submit(self.act, *self.draw(chance)))
            for one in pending:
                one.result()


class ServeLoadTest(unittest.TestCase):
    def figures(self, process):
        with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        return {"kB": int(lines["VmRSS"].split()[0]), "threads": int(lines["Threads"]),
                "descriptors": len(os.listdir(f"/proc/{process.pid}/fd"))}

    def test_mixed_load_at_four_fifths_of_the_capacity(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            secret = folder / "secret"
            secret.write_text(KEY + "\n")
            secret.chmod(0o600)
            model = write_small_llama(folder / "small")
            service = serving.start([HARMONICS, "serve", model, "--listen", "127.0.0.1:0", "--name", "small", "--token-file",
                                     secret, "--sequences", 8, "--queue", 64, "--threads", 1, "--cache-mb", 16])
            self.addCleanup(service.process.wait)
            self.addCleanup(service.process.kill)
            self.load(service)

    def load(self, service):
        load = Load(service.port(), {})
        for number in range(QUESTIONS):
            status, answer = load.post(question(number))
            self.assertEqual(status, 200, answer)
            load.wanted[number] = json.loads(answer)["choices"][0]["message"]["content"]
        rate = SHARE_OF_CAPACITY * load.capacity(max(2, SECONDS / 60))
        looks = []
        load.run(rate, SECONDS, lambda: looks.append(self.figures(service.process)))
        told = f"seed {SEED}, {rate:.0f} requests a second: {dict(load.seen)}; first {looks[0]}, last {looks[-1]}"
        print(told)
        self.assertEqual(load.wrong, [], told)
        refused = {"wrong key": {401}, "too long": {400}, "1 MB": {400}, "leaves": {0}, "slow": {0}}
        for kind, status in load.seen:
            self.assertIn(status, refused.get(kind, {200, 503}), told)
        answered = sum(load.seen[kind, 200] for kind in ("whole", "stream"))
        too_much = sum(load.seen[kind, 503] for kind in ("whole", "stream"))
        self.assertLess(too_much, 0.01 * answered + 1, told)
        half = len(looks) // 2
        for what, most in (("kB", MOST_GROWTH_KB), ("threads", 4), ("descriptors", 4 * CLIENTS)):
            before, after = max(one[what] for one in looks[:half]), max(one[what] for one in looks[half:])
            self.assertLessEqual(after, before + most, f"{what} grew; {told}")


if __name__ == "__main__":
    unittest.main()
