"""Random models of every family: logits as transformers computes them, the same answers when cut."""

import pathlib
import tempfile
import unittest

import numpy
import torch
import transformers

from compared import Compared, harmonics, main, relative

ROWS, LENGTH, WORDS = 1000, 8, 96
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
TEXT = dict(SMALL, vocab_size=WORDS, max_position_embeddings=LENGTH)
PICTURE = dict(SMALL, image_size=16, patch_size=8, num_labels=10)
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 4}


class FamiliesTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        torch.manual_seed(3)
        self.chance = numpy.random.default_rng(3)

    def words(self, rows=ROWS, least=0):
        return self.chance.integers(least, WORDS, (rows, LENGTH))

    def compare(self, model, inputs, output, shape):
        """Within 1e-5 of transformers, the same largest entry in each row, equal when cut."""
        # Biases and norms begin as zeros and ones, which would hide a wrong name.
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.05 * torch.randn_like(parameter))
        both = Compared(model, self.scratch.name, type(model).__name__)
        both.imported()
        theirs = both.theirs(inputs, output).reshape(-1, *shape)
        ours = both.ours(inputs, output, shape, "--batch-size", len(theirs))
        self.assertLessEqual(relative(ours, theirs), 1e-5)
        agree = (ours.argmax(-1) == theirs.argmax(-1)).mean()
        self.assertEqual(agree, 1.0)
        few = {name: rows[:4] for name, rows in inputs.items()}
        whole = both.ours(few, output, shape)
        for parts in (2, 3):
            cut = both.ours(few, output, shape, "--parts", parts)
            self.assertTrue(numpy.array_equal(whole, cut), parts)
        return both

    def text_inputs(self, **more):
        mask = (numpy.arange(LENGTH) < self.chance.integers(1, LENGTH + 1, (ROWS, 1))).astype(numpy.int64)
        return {"input_ids": self.words(least=2), "attention_mask": mask, **more}

    def test_bert(self):
        types = self.chance.integers(0, 2, (ROWS, LENGTH))
        model = transformers.BertForSequenceClassification(transformers.BertConfig(**TEXT, num_labels=5))
        self.compare(model, self.text_inputs(token_type_ids=types), "logits", (5,))

    def test_roberta(self):
        config = transformers.RobertaConfig(**dict(TEXT, max_position_embeddings=LENGTH + 2), num_labels=5,
                                            type_vocab_size=1)
        types = numpy.zeros((ROWS, LENGTH), dtype=numpy.int64)
        model = transformers.RobertaForSequenceClassification(config)
        inputs = self.text_inputs(token_type_ids=types)
        inputs["input_ids"] = numpy.where(inputs["attention_mask"] == 1, inputs["input_ids"], 1)
        self.compare(model, inputs, "logits", (5,))

    def test_distilbert(self):
        config = transformers.DistilBertConfig(vocab_size=WORDS, max_position_embeddings=LENGTH, n_layers=2,
                                               n_heads=4, dim=32, hidden_dim=48, num_labels=5)
        model = transformers.DistilBertForSequenceClassification(config)
        self.compare(model, self.text_inputs(), "logits", (5,))

    def test_vit(self):
        pixels = self.chance.normal(size=(ROWS, 3, 16, 16)).astype(numpy.float32)
        model = transformers.ViTForImageClassification(transformers.ViTConfig(**PICTURE))
        both = self.compare(model, {"pixel_values": pixels}, "logits", (10,))
        shown = harmonics("graph", "show", both.harp)
        self.assertIn("encoder.layer.0.attention", shown)

    def test_deit(self):
        pixels = self.chance.normal(size=(ROWS, 3, 16, 16)).astype(numpy.float32)
        model = transformers.DeiTForImageClassificationWithTeacher(transformers.DeiTConfig(**PICTURE))
        self.compare(model, {"pixel_values": pixels}, "logits", (10,))

    def test_gpt2(self):
        config = transformers.GPT2Config(vocab_size=WORDS, n_positions=LENGTH, n_embd=32, n_layer=2, n_head=4)
        self.compare(transformers.GPT2LMHeadModel(config), {"input_ids": self.words()}, "logits",
                     (LENGTH, WORDS))

    def test_llama_with_groups_and_scaled_positions(self):
        config = transformers.LlamaConfig(**TEXT, num_key_value_heads=2, rope_scaling=LLAMA3,
                                          tie_word_embeddings=False)
        self.compare(transformers.LlamaForCausalLM(config), {"input_ids": self.words()}, "logits",
                     (LENGTH, WORDS))

    def test_mistral_with_a_window(self):
        config = transformers.MistralConfig(**TEXT, num_key_value_heads=2, sliding_window=3,
                                            attn_implementation="eager")
        self.compare(transformers.MistralForCausalLM(config), {"input_ids": self.words()}, "logits",
                     (LENGTH, WORDS))

    def test_new_heads_go_back(self):
        """A base model with a head for classes is what transformers loads from its export."""
        text, picture = "AutoModelForSequenceClassification", "AutoModelForImageClassification"
        small = {key: value for key, value in PICTURE.items() if key != "num_labels"}
        models = [(text, transformers.BertModel(transformers.BertConfig(**TEXT))),
                  (text, transformers.RobertaModel(transformers.RobertaConfig(
                      **dict(TEXT, max_position_embeddings=LENGTH + 2), type_vocab_size=1))),
                  (text, transformers.DistilBertModel(transformers.DistilBertConfig(
                      vocab_size=WORDS, max_position_embeddings=LENGTH, n_layers=2, n_heads=4, dim=32, hidden_dim=48))),
                  (picture, transformers.ViTModel(transformers.ViTConfig(**small))),
                  (picture, transformers.DeiTModel(transformers.DeiTConfig(**small)))]
        for kind, model in models:
            with self.subTest(type(model).__name__):
                self.check_new_head(kind, Compared(model, self.scratch.name, type(model).__name__))

    def check_new_head(self, kind, both):
        both.imported("--classes", 3)
        if "Image" in kind:
            inputs = {"pixel_values": self.chance.normal(size=(6, 3, 16, 16)).astype(numpy.float32)}
        else:
            inputs = {"input_ids": self.words(6, least=2), "attention_mask": numpy.ones((6, LENGTH), dtype=numpy.int64)}
            if "DistilBert" not in type(both.model).__name__:
                inputs["token_type_ids"] = numpy.zeros((6, LENGTH), dtype=numpy.int64)
        ours = both.ours(inputs, "logits", (3,))
        out = both.folder.with_suffix(".out")
        harmonics("export", both.harp, out, "--format", "hf", "--output", "quiet")
        back, info = getattr(transformers, kind).from_pretrained(out, output_loading_info=True)
        self.assertEqual((info["missing_keys"], info["unexpected_keys"]), ([], []))
        self.assertEqual(back.config.num_labels, 3)
        with torch.no_grad():
            theirs = back.eval()(**{name: torch.tensor(rows) for name, rows in inputs.items()}).logits.numpy()
        self.assertLessEqual(relative(ours, theirs), 1e-5)

    def test_qwen2(self):
        config = transformers.Qwen2Config(**TEXT, num_key_value_heads=2, tie_word_embeddings=True)
        self.compare(transformers.Qwen2ForCausalLM(config), {"input_ids": self.words()}, "logits",
                     (LENGTH, WORDS))


if __name__ == "__main__":
    main(FamiliesTest)
