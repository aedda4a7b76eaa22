"""A folder with a small BERT of drawn weights, a tokenizer of letters and what sentence-transformers writes beside it."""

import json
import random
import struct

WIDTH, INNER, BLOCKS, HEADS, LENGTH = 32, 48, 2, 4, 64
LETTERS = "abcdefghijklmnopqrstuvwxyz.!?"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *LETTERS, *("##" + letter for letter in LETTERS)]


def _tensors():
    yield "embeddings.word_embeddings.weight", (len(WORDS), WIDTH)
    yield "embeddings.position_embeddings.weight", (LENGTH, WIDTH)
    yield "embeddings.token_type_embeddings.weight", (2, WIDTH)
    norms = ["embeddings.LayerNorm"]
    for i in range(BLOCKS):
        block = f"encoder.layer.{i}."
        for name, shape in [("attention.self.query", (WIDTH, WIDTH)), ("attention.self.key", (WIDTH, WIDTH)),
                            ("attention.self.value", (WIDTH, WIDTH)), ("attention.output.dense", (WIDTH, WIDTH)),
                            ("intermediate.dense", (INNER, WIDTH)), ("output.dense", (WIDTH, INNER))]:
            yield block + name + ".weight", shape
            yield block + name + ".bias", shape[:1]
        norms += [block + "attention.output.LayerNorm", block + "output.LayerNorm"]
    for name in norms:
        yield name + ".weight", (WIDTH,)
        yield name + ".bias", (WIDTH,)
    yield "pooler.dense.weight", (WIDTH, WIDTH)
    yield "pooler.dense.bias", (WIDTH,)


def write_small_bert(folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "1_Pooling").mkdir(exist_ok=True)
    chance = random.Random(23)
    head, data = {}, b""
    for name, shape in _tensors():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        norm = "LayerNorm.weight" in name
        packed = struct.pack(f"<{count}f", *[chance.gauss(1 if norm else 0, 0.1 if norm else 0.3) for _ in range(count)])
        head[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(head).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["BertModel"], "model_type": "bert", "vocab_size": len(WORDS), "hidden_size": WIDTH,
        "intermediate_size": INNER, "num_hidden_layers": BLOCKS, "num_attention_heads": HEADS, "hidden_act": "gelu",
        "max_position_embeddings": LENGTH, "type_vocab_size": 2, "layer_norm_eps": 1e-12,
        "position_embedding_type": "absolute", "pad_token_id": 0}))
    special = lambda text: {"id": WORDS.index(text), "content": text, "single_word": False, "lstrip": False,
                            "rstrip": False, "normalized": False, "special": True}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [special(word) for word in WORDS[:4]],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                       "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing",
                           "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                                      {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
                           "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                                    {"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}},
                                    {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
                           "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                                              "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {word: i for i, word in enumerate(WORDS)}}}))
    kind = "sentence_transformers.models."
    (folder / "modules.json").write_text(json.dumps([
        {"idx": 0, "name": "0", "path": "", "type": kind + "Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": kind + "Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": kind + "Normalize"}]))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 48}))
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({
        "word_embedding_dimension": WIDTH, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True,
        "pooling_mode_max_tokens": False}))
    return folder
