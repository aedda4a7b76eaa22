"""What is not known is refused by name, and nothing is written."""

import json
import os
import pathlib
import struct
import subprocess
import tempfile
import unittest

HARMONICS = pathlib.Path(os.environ["HARMONICS_BINARY_DIR"]) / "harmonics"
BERT = {"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 8, "hidden_size": 4,
        "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 4}


def safetensors(names):
    """A file of such tensors of one number each."""
    header = json.dumps({name: {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]}
                         for i, name in enumerate(names)}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(4 * len(names))


class RefusalsTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name) / "model"
        self.folder.mkdir()
        self.out = pathlib.Path(scratch.name) / "out" / "x.harp"
        self.out.parent.mkdir()

    def refused(self, config, weights=("embeddings.word_embeddings.weight",)):
        if config is not None:
            (self.folder / "config.json").write_text(json.dumps(config))
        if weights is not None:
            (self.folder / "model.safetensors").write_bytes(safetensors(weights))
        done = subprocess.run([HARMONICS, "import", self.folder, "-o", self.out], capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(list(self.out.parent.iterdir()), [])
        return done.stderr

    def test_an_unknown_architecture_lists_the_known(self):
        said = self.refused({"model_type": "mamba", "architectures": ["MambaForCausalLM"]})
        for word in ("MambaForCausalLM", "BertModel", "GPT2LMHeadModel", "LlamaForCausalLM", "ViTModel"):
            self.assertIn(word, said)

    def test_a_value_that_is_not_honoured_is_named(self):
        cases = {"position_embedding_type": "relative_key", "hidden_act": "mish", "is_decoder": True,
                 "quantization_config": {"bits": 4}, "made_up": 7, "num_hidden_layers": 0}
        for key, value in cases.items():
            with self.subTest(key):
                said = self.refused(dict(BERT, **{key: value}))
                self.assertIn(f"'{key}' = {json.dumps(value, separators=(',', ':'))} is not honoured", said)

    def test_rotary_scaling_that_is_not_known(self):
        said = self.refused({"model_type": "llama", "architectures": ["LlamaModel"], "vocab_size": 8,
                             "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1,
                             "intermediate_size": 4, "rope_scaling": {"rope_type": "yarn", "factor": 2}})
        self.assertIn("rope_scaling", said)
        self.assertIn("linear and llama3", said)

    def test_a_pickle_is_refused_with_the_way_out(self):
        (self.folder / "pytorch_model.bin").write_bytes(b"PK")
        said = self.refused(BERT, weights=None)
        self.assertIn("torch.load(", said)
        self.assertIn("model.safetensors", said)

    def test_a_folder_without_a_configuration(self):
        self.assertIn("config.json", self.refused(None))

    def test_missing_tensors_are_named(self):
        self.assertIn("no tensor 'embeddings.token_type_embeddings.weight'", self.refused(BERT))

    def test_a_damaged_file(self):
        (self.folder / "model.safetensors").write_bytes(struct.pack("<Q", 10 << 30) + b"{}")
        self.assertIn("truncated", self.refused(BERT, weights=None))


if __name__ == "__main__":
    unittest.main()
