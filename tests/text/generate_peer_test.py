"""What `harmonics generate` writes, token by token beside transformers: the real SmolLM2, and small random models."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy
import packages
import torch
import transformers

from compared import HARMONICS, harmonics, main
from real_weights_test import smollm2_by_hand

# All of them with HARMONICS_SOAK set.
SOAK = bool(os.environ.get("HARMONICS_SOAK"))
PROMPTS = [
    "The capital of France is", "Once upon a time", "def fibonacci(n):", "The three laws of thermodynamics are",
    "Water boils at", "In 1969, Neil Armstrong", "A recipe for bread:", "The largest planet", "To be or not to be",
    "Photosynthesis is the process by which", "Dear Sir or Madam,", "1, 1, 2, 3, 5, 8,", "The meaning of life",
    "SELECT name FROM", "My favourite season is", "The stock market fell because", "Ein Satz auf Deutsch:",
    "Chapter 1\n\nIt was", "The difference between a cat and a dog is", "Music, she said, is",
]
CASES, TOKENS = (20, 256) if SOAK else (3, 24)
TIE = 1e-5


def generated_lines(*words):
    done = subprocess.run([HARMONICS, "generate", *map(str, words), "--ignore-end", "--output", "json"],
                          capture_output=True, text=True, timeout=3000 if SOAK else 300)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


class GeneratePeerTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)

    def generated(self, model, prompts, tokens, *flags):
        """An answer for each list of ids."""
        file = self.scratch / "prompts.jsonl"
        file.write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in prompts))
        return generated_lines(model, "--prompts", file, "--max-tokens", tokens, *flags)

    def check_greedy(self, model, prompts, answers, close=2e-4):
        """Each token is what `model` finds most likely after all before it: so its own greedy search goes the same
        way, unless two tokens are as good as equal. `close`: how near logarithms of probabilities are."""
        ties, furthest = 0, 0
        for ids, answer in zip(prompts, answers):
            tokens = answer["tokens"]
            with torch.no_grad():
                logits = model(torch.tensor([ids + tokens])).logits[0, len(ids) - 1:-1]
            logprobs = torch.log_softmax(logits.double(), -1)
            for place, token in enumerate(tokens):
                best = int(logits[place].argmax())
                if best != token:
                    distance = float(logits[place, best] - logits[place, token])
                    self.assertLess(distance, TIE, f"prompt {ids}, token {place}: {token}, not {best}")
                    ties += 1
                    break
                distance = abs(answer["logprobs"][place] - float(logprobs[place, token]))
                self.assertLess(distance, close, f"prompt {ids}, token {place}")
                furthest = max(furthest, distance)
        print(f"log-probabilities within {furthest:.1e}")
        return ties

    def test_smollm2(self):
        file = packages.smollm2()
        if file is None:
            self.skipTest("SmolLM2 could not be fetched")
        prompts = [json.loads(harmonics("tokens", "--tokenizer", self.tokenizer(file), "--text", text,
                                        "--output", "json"))["input_ids"] for text in PROMPTS[:CASES]]
        texts = self.scratch / "texts.jsonl"
        texts.write_text("".join(json.dumps(text) + "\n" for text in PROMPTS[:CASES]))
        answers = generated_lines(file, "--prompts", texts, "--max-tokens", TOKENS)
        self.assertEqual([len(answer["tokens"]) for answer in answers], [TOKENS] * CASES)
        self.assertEqual([answer["prompt_tokens"] for answer in answers], [len(ids) for ids in prompts])
        ties = self.check_greedy(smollm2_by_hand(file), prompts, answers)
        print(f"{CASES} prompts of {TOKENS} tokens: equal, but for {ties} that part at a tie below {TIE}")

    def tokenizer(self, file):
        """The vocabulary of the GGUF file, as Python's gguf reads it, in a tokenizer.json of its own."""
        import gguf
        fields = gguf.GGUFReader(file).fields
        text = lambda field, i: bytes(field.parts[field.data[i]]).decode()
        listed = lambda name: [text(fields[name], i) for i in range(len(fields[name].data))]
        kinds = fields["tokenizer.ggml.token_type"]
        tokens = listed("tokenizer.ggml.tokens")
        special = [i for i in range(len(tokens)) if kinds.parts[kinds.data[i]][0] == 3]
        step = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        file = self.scratch / "tokenizer.json"
        file.write_text(json.dumps({
            "version": "1.0", "truncation": None, "padding": None, "normalizer": None,
            "added_tokens": [{"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False,
                              "normalized": False, "special": True} for i in special],
            "pre_tokenizer": {"type": "Sequence",
                              "pretokenizers": [{"type": "Digits", "individual_digits": True}, step]},
            "post_processor": step, "decoder": step,
            "model": {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)},
                      "merges": listed("tokenizer.ggml.merges")}}))
        return file

    def test_embeddings_of_minilm(self):
        """As sentence-transformers makes them of the same folder: the mean of the tokens, of length 1."""
        model = packages.minilm()
        if model is None:
            self.skipTest("MiniLM could not be fetched")
        import urllib.request
        import serving
        service = serving.start([HARMONICS, "serve", model, "--name", "minilm", "--listen", "127.0.0.1:0"])
        self.addCleanup(service.process.wait)
        self.addCleanup(service.process.kill)
        texts = [*PROMPTS[:12], "A long one. " * 80]
        request = urllib.request.Request(f"http://127.0.0.1:{service.port()}/v1/embeddings",
                                         json.dumps({"input": texts}).encode())
        with urllib.request.urlopen(request, timeout=120) as answer:
            made = [each["embedding"] for each in json.load(answer)["data"]]
        tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        peer = transformers.AutoModel.from_pretrained(model).eval()
        for text, vector in zip(texts, made):
            with torch.no_grad():
                hidden = peer(**tokenizer(text, truncation=True, max_length=256, return_tensors="pt")).last_hidden_state[0]
            want = torch.nn.functional.normalize(hidden.mean(0), dim=0)
            self.assertLess(float((torch.tensor(vector) - want).abs().max()), 1e-5, text)

    def random_models(self):
        torch.manual_seed(3)
        shapes = {"vocab_size": 160, "hidden_size": 48, "intermediate_size": 72, "num_hidden_layers": 3,
                  "num_attention_heads": 4, "max_position_embeddings": 96}
        yield "llama", transformers.LlamaForCausalLM(transformers.LlamaConfig(
            **shapes, num_key_value_heads=2, rope_scaling={"rope_type": "linear", "factor": 2.0}, tie_word_embeddings=True))
        yield "mistral", transformers.MistralForCausalLM(transformers.MistralConfig(
            **shapes, num_key_value_heads=2, sliding_window=9, attn_implementation="eager"))
        yield "qwen2", transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**shapes, num_key_value_heads=1))
        yield "gpt2", transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=160, n_embd=48, n_layer=3, n_head=4, n_positions=96))

    def test_random_models(self):
        chance = numpy.random.default_rng(11)
        for name, model in self.random_models():
            with self.subTest(name):
                for parameter in model.parameters():  # logits that differ
                    parameter.data.mul_(3 if parameter.dim() > 1 else 1)
                model.eval()
                folder = self.scratch / name
                model.save_pretrained(folder, safe_serialization=True)
                prompts = [chance.integers(0, 160, size).tolist() for size in (1, 7, 40)]
                vocabulary = self.scratch / "small.json"
                vocabulary.write_text(json.dumps({"model": {"type": "BPE", "vocab": {
                    chr(256 + i): i for i in range(160)}, "merges": []}}))
                answers = self.generated(folder, prompts, 30, "--tokenizer", vocabulary, "--chunk", 16)
                # Theirs has no cache, and numbers that round a thousand million times finer.
                self.check_greedy(model.double(), prompts, answers, close=1e-5)


if __name__ == "__main__":
    main(GeneratePeerTest)
