"""MiniLM out of its folder and SmolLM2 out of a GGUF file, with their real weights."""

import json
import os
import pathlib
import re
import tempfile
import unittest

import gguf
import numpy
import packages
import torch
import transformers
from safetensors.torch import load_file

from compared import harmonics, main, read_csv, run

LENGTH = 32


BLOCK_NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
               "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj",
               "ffn_norm": "post_attention_layernorm", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
OTHER_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
HEADS, GROUPS = 9, 3


def smollm2_by_hand(path):
    """The model on weights that Python's gguf unpacks; this transformers cannot read Q4_1 itself."""
    config = transformers.LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
        num_attention_heads=HEADS, num_key_value_heads=GROUPS, max_position_embeddings=8192,
        rms_norm_eps=1e-5, rope_theta=100000.0, tie_word_embeddings=True)
    state = {}
    for tensor in gguf.GGUFReader(path).tensors:
        value = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
        value = value.reshape([int(axis) for axis in reversed(tensor.shape)])
        words = tensor.name.split(".")
        heads = {"attn_q": HEADS, "attn_k": GROUPS}.get(words[2] if len(words) > 2 else "")
        if heads:
            value = value.reshape(heads, -1, 2, value.shape[1]).swapaxes(1, 2).reshape(value.shape)
        name = (f"model.layers.{words[1]}.{BLOCK_NAMES[words[2]]}" if words[0] == "blk"
                else OTHER_NAMES[words[0]])
        state[name + ".weight"] = torch.tensor(value.copy())
    with transformers.modeling_utils.no_init_weights():
        model = transformers.LlamaForCausalLM(config)
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert missing == ["lm_head.weight"] and not unexpected, (missing, unexpected)
    model.tie_weights()
    return model.eval()


def sentences(count):
    """Sentences of unequal length out of this tree's guides."""
    guides = pathlib.Path(os.environ["HARMONICS_SOURCE_DIR"]) / "docs" / "guides"
    text = " ".join(page.read_text() for page in sorted(guides.glob("*.md")))
    text = re.sub(r"```.*?```|[#|`*]", " ", text, flags=re.S)
    found = [" ".join(line.split()) for line in re.split(r"(?<=[.!?])\s", text)]
    return [line for line in found if 15 < len(line) < 400][:count]


class RealWeightsTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        self.chance = numpy.random.default_rng(5)

    def minilm_inputs(self):
        rows = 8
        lengths = self.chance.integers(4, LENGTH + 1, (rows, 1))
        mask = (numpy.arange(LENGTH) < lengths).astype(numpy.int64)
        words = self.chance.integers(1000, 30000, (rows, LENGTH)) * mask
        return {"input_ids": words, "attention_mask": mask, "token_type_ids": numpy.zeros_like(mask)}

    def test_minilm(self):
        folder = packages.minilm()
        if folder is None:
            self.skipTest("the weights of MiniLM could not be fetched")
        inputs = self.minilm_inputs()
        model = transformers.AutoModel.from_pretrained(folder).eval()
        with torch.no_grad():
            theirs = model(**{name: torch.tensor(rows) for name, rows in inputs.items()})
        theirs = theirs["last_hidden_state"].numpy()
        attended = inputs["attention_mask"] == 1
        for weights in ("copy", "link"):
            harp = self.scratch / f"{weights}.harp"
            harmonics("import", folder, "-o", harp, "--weights", weights, "--length", LENGTH)
            ours = run(harp, inputs, "last_hidden_state", (LENGTH, 384), "--batch-size", len(attended))
            self.assertLessEqual(float(numpy.abs(ours - theirs)[attended].max()), 1e-6)
            for parts in (2, 3):
                cut = run(harp, inputs, "last_hidden_state", (LENGTH, 384), "--batch-size", len(attended),
                          "--parts", parts)
                self.assertTrue(numpy.array_equal(ours, cut))

    def test_minilm_reads_sentences(self):
        folder = packages.minilm()
        if folder is None:
            self.skipTest("the weights of MiniLM could not be fetched")
        lines, length, batch = sentences(200), 96, 8
        (self.scratch / "lines.txt").write_text("\n".join(lines) + "\n")
        harp, out = self.scratch / "minilm.harp", self.scratch / "out.csv"
        harmonics("import", folder, "-o", harp, "--length", length)
        source = f"text:{self.scratch / 'lines.txt'}?tokenizer={folder}&length={length}&column="
        binds = [word for name in ("input_ids", "attention_mask", "token_type_ids")
                 for word in ("--bind", f"{name}={source}{name}")]
        harmonics("run", harp, *binds, "--out", f"last_hidden_state=csv:{out}", "--threads", 1, "--batch-size", batch,
                  "--output", "quiet")
        ours = read_csv(out, (length, 384))
        self.assertEqual(len(ours), len(lines))
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        model = transformers.AutoModel.from_pretrained(folder).eval()
        for first in range(0, len(lines), batch):
            inputs = tokenizer(lines[first:first + batch], padding="max_length", max_length=length, truncation=True,
                               return_tensors="pt")
            with torch.no_grad():
                theirs = model(**inputs)["last_hidden_state"].numpy()
            attended = inputs["attention_mask"].numpy() == 1
            self.assertLessEqual(float(numpy.abs(ours[first:first + batch] - theirs)[attended].max()), 1e-6)

    def test_minilm_brings_its_tokenizer(self):
        folder = packages.minilm()
        if folder is None:
            self.skipTest("the weights of MiniLM could not be fetched")
        path = self.scratch / "lines.txt"
        path.write_text("\n".join(sentences(6)) + "\n")
        names = ("input_ids", "attention_mask", "token_type_ids")
        answers = []
        for weights in ("copy", "link"):
            harp = self.scratch / f"{weights}.harp"
            harmonics("import", folder, "-o", harp, "--length", 32, "--weights", weights)
            for settings in ("", f"?tokenizer={folder}&length=32&column="):
                out = self.scratch / "out.csv"
                binds = [word for name in names
                         for word in ("--bind", f"{name}=text:{path}{settings + name if settings else ''}")]
                harmonics("run", harp, *binds, "--out", f"last_hidden_state=csv:{out}", "--threads", 1,
                          "--parts", 2, "--output", "quiet")
                answers.append(out.read_text())
        self.assertEqual(len(set(answers)), 1)
        self.assertEqual(len(answers[0].splitlines()), 6)

    def test_minilm_goes_back(self):
        folder = packages.minilm()
        if folder is None:
            self.skipTest("the weights of MiniLM could not be fetched")
        harp = self.scratch / "minilm.harp"
        harmonics("import", folder, "-o", harp, "--length", LENGTH)
        out = self.scratch / "out"
        report = json.loads(harmonics("export", harp, out, "--format", "hf", "--output", "json"))
        model, info = transformers.AutoModel.from_pretrained(out, output_loading_info=True)
        self.assertEqual(info["missing_keys"], [])
        self.assertEqual(info["unexpected_keys"], [])
        self.assertEqual((out / "tokenizer.json").read_bytes(), (folder / "tokenizer.json").read_bytes())
        before, after = load_file(folder / "model.safetensors"), load_file(out / "model.safetensors")
        before.pop("embeddings.position_ids")
        self.assertEqual(sorted(before), sorted(after))
        self.assertEqual(report["tensors"], len(after))
        for name, value in after.items():
            self.assertTrue(torch.equal(value, before[name]), name)

    def test_minilm_is_tuned_and_goes_back(self):
        folder = packages.minilm()
        if folder is None:
            self.skipTest("the weights of MiniLM could not be fetched")
        lines, length, batch, out = sentences(48), 48, 8, self.scratch / "tuned"
        labels = [int(" you " in line or "your" in line) for line in lines]
        self.assertEqual(set(labels), {0, 1})
        texts, classes = self.scratch / "lines.jsonl", self.scratch / "labels.csv"
        texts.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
        classes.write_text("".join(f"{label}\n" for label in labels))
        harp, tuned, scores = (self.scratch / name for name in ("minilm.harp", "tuned.safetensors", "logits.csv"))
        report = json.loads(harmonics("import", folder, "-o", harp, "--length", length, "--classes", 2, "--output", "json"))
        self.assertEqual(report["architecture"], "BertForSequenceClassification")
        self.assertEqual(report["fresh"], ["classifier.bias", "classifier.weight"])
        source = f"text:{texts}?tokenizer={folder}&length={length}&pad=longest&column="
        binds = [word for name in ("input_ids", "attention_mask", "token_type_ids")
                 for word in ("--bind", f"{name}={source}{name}")]
        learnt = json.loads(harmonics(
            "train", harp, *binds, "--bind", f"labels=csv:{classes}", "--checkpoint", tuned, "--threads", 1, "--epochs", 3,
            "--batch-size", batch, "--optimizer", "adamw", "--lr", 1e-4, "--weight-decay", 0.01, "--decay", "weights",
            "--output", "json"))
        self.assertEqual(learnt["steps"], 18)
        harmonics("run", harp, "--weights", tuned, *binds, "--out", f"logits=csv:{scores}", "--threads", 1, "--batch-size",
                  batch, "--output", "quiet")
        ours = read_csv(scores, (2,))
        harmonics("export", harp, out, "--weights", tuned, "--format", "hf", "--output", "quiet")
        model, info = transformers.AutoModelForSequenceClassification.from_pretrained(out, output_loading_info=True)
        self.assertEqual(info["missing_keys"], [])
        self.assertEqual(info["unexpected_keys"], [])
        self.assertEqual(model.config.num_labels, 2)
        model.eval()
        untuned = transformers.AutoModel.from_pretrained(folder).embeddings.word_embeddings.weight
        self.assertFalse(torch.equal(model.bert.embeddings.word_embeddings.weight, untuned), "nothing was learnt")
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        for first in range(0, len(lines), batch):
            inputs = tokenizer(lines[first:first + batch], padding="longest", max_length=length, truncation=True,
                               return_tensors="pt")
            with torch.no_grad():
                theirs = model(**inputs)["logits"].numpy()
            self.assertLessEqual(float(numpy.abs(ours[first:first + batch] - theirs).max()), 1e-5)

    def test_smollm2(self):
        file = packages.smollm2()
        if file is None:
            self.skipTest("SmolLM2 could not be fetched")
        words = self.chance.integers(0, 49152, (2, 8))
        harp = self.scratch / "smollm.harp"
        harmonics("import", file, "-o", harp, "--weights", "link", "--length", 8)
        model = smollm2_by_hand(file)
        with torch.no_grad():
            theirs = model(torch.tensor(words)).logits.numpy()
        ours = run(harp, {"input_ids": words}, "logits", (8, 49152))
        self.assertLessEqual(float(numpy.abs(ours - theirs).max()), 1e-4 * float(numpy.abs(theirs).max()))
        self.assertTrue((ours.argmax(-1) == theirs.argmax(-1)).all())


if __name__ == "__main__":
    main(RealWeightsTest)
