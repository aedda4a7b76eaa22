"""Twenty steps of AdamW beside those of transformers, from the same start on the same batches."""

import json
import pathlib
import tempfile
import unittest

import numpy
import torch
import transformers

from compared import Compared, harmonics, main

STEPS, BATCH, LENGTH, WORDS, CLASSES = 20, 8, 16, 96, 10
SETTINGS = {"lr": 3e-3, "weight_decay": 0.05, "beta1": 0.85, "beta2": 0.97, "epsilon": 1e-7}


def vit():
    return transformers.ViTForImageClassification(transformers.ViTConfig(
        hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, image_size=32, patch_size=8,
        num_labels=CLASSES, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=WORDS, n_positions=LENGTH, n_embd=48, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0))


def optimizer_of(model, spares):
    """AdamW as transformers' own trainer sets it up; `spares`: biases and norms do not decay."""
    decays = [value for name, value in model.named_parameters()
              if not spares or not (name.endswith("bias") or "layernorm" in name or "ln_" in name)]
    others = [value for value in model.parameters() if all(value is not one for one in decays)]
    return torch.optim.AdamW(
        [{"params": decays}, {"params": others, "weight_decay": 0.0}], lr=SETTINGS["lr"],
        betas=(SETTINGS["beta1"], SETTINGS["beta2"]), eps=SETTINGS["epsilon"],
        weight_decay=SETTINGS["weight_decay"])


class TrainingTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        torch.manual_seed(11)
        self.chance = numpy.random.default_rng(11)

    def data_of(self, model):
        if isinstance(model, transformers.GPT2LMHeadModel):
            words = self.chance.integers(0, WORDS, (STEPS * BATCH, LENGTH))
            return {"input_ids": words, "labels": words}
        pixels = self.chance.normal(size=(STEPS * BATCH, 3, 32, 32)).astype(numpy.float32)
        return {"pixel_values": pixels, "labels": self.chance.integers(0, CLASSES, (STEPS * BATCH,))}

    def theirs(self, model, data, spares):
        model.train()
        optimizer = optimizer_of(model, spares)
        losses = []
        for first in range(0, STEPS * BATCH, BATCH):
            batch = {name: torch.tensor(rows[first:first + BATCH]) for name, rows in data.items()}
            optimizer.zero_grad()
            loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    def train(self, harp, data, *flags):
        """What `train` prints for these rows, which come in this order: the digest of the weights."""
        words = ["train", harp, "--threads", 1, "--output", "quiet", "--no-shuffle", "--epochs", 1, "--batch-size",
                 BATCH, "--optimizer", "adamw"]
        for name, value in SETTINGS.items():
            words += ["--" + name.replace("_", "-"), value]
        for name, rows in data.items():
            numpy.save(self.scratch / f"{name}.npy", rows.reshape(len(rows), -1) if name == "labels" else rows)
            words += ["--bind", f"{name}=npy:{self.scratch / name}.npy"]
        return harmonics(*words, *flags)

    def ours(self, harp, data, spares):
        metrics = self.scratch / "metrics.jsonl"
        self.train(harp, data, "--metrics", metrics, "--decay", "weights" if spares else "all")
        steps = [json.loads(line) for line in metrics.read_text().splitlines()]
        return [step["loss"] for step in steps if "step" in step]

    def compare(self, model, spares):
        both = Compared(model, self.scratch, type(model).__name__)
        both.imported()
        data = self.data_of(model)
        ours, theirs = self.ours(both.harp, data, spares), self.theirs(model, data, spares)
        self.assertEqual(len(ours), STEPS)
        self.assertGreater(abs(theirs[0] - theirs[-1]), 1e-3, "nothing was learnt: the comparison says nothing")
        for step, (here, there) in enumerate(zip(ours, theirs)):
            self.assertLessEqual(abs(here - there) / abs(there), 1e-5, f"step {step + 1}: {here} and {there}")

    def compare_cut(self, model):
        """Two and three processes over TCP learn the weights that one learns, bit for bit."""
        both = Compared(model, self.scratch, type(model).__name__)
        both.imported()
        data = {name: rows[:4 * BATCH] for name, rows in self.data_of(model).items()}
        whole = self.train(both.harp, data, "--micro-batches", 2)
        self.assertRegex(whole, r"^[0-9a-f]{64}\n$")
        for parts in (2, 3):
            cut = self.train(both.harp, data, "--micro-batches", 2, "--parts", parts, "--processes", "--transport", "tcp")
            self.assertEqual(whole, cut, f"{parts} processes")
        keys, chain = self.scratch / "keys", self.scratch / "run.chain"
        harmonics("keys", "new", "alice", "--keys", keys)
        signed = self.train(both.harp, data, "--micro-batches", 2, "--parts", 3, "--secure", "--keys", keys, "--proof", chain)
        self.assertEqual(whole, signed, "signed")
        harmonics("verify", chain, "--keys", keys)

    def test_vit_in_processes(self):
        self.compare_cut(vit())

    def test_gpt2_in_processes(self):
        self.compare_cut(gpt2())

    def test_vit(self):
        self.compare(vit(), spares=False)

    def test_vit_with_biases_and_norms_spared(self):
        self.compare(vit(), spares=True)

    def test_gpt2(self):
        self.compare(gpt2(), spares=False)

    def test_gpt2_with_biases_and_norms_spared(self):
        self.compare(gpt2(), spares=True)


if __name__ == "__main__":
    main(TrainingTest)
