"""A folder with a small Llama of drawn weights, its tokenizer and a chat template: made in plain Python."""

import json
import random
import struct

WIDTH, INNER, BLOCKS, HEADS, GROUPS, LENGTH = 32, 48, 4, 4, 2, 512
# One token a byte; printable ones are spelled as they are.
LETTERS = [chr(c) for c in range(33, 127)] + ["\u0120", "\u010a"]  # and the blank and the line break
SPECIAL = ["<|end|>", "<|start|>"]
VOCABULARY = len(LETTERS) + len(SPECIAL)
TEMPLATE = ("{% for message in messages %}{{ '<|start|>' + message['role'] + ': ' + message['content'] + '\\n' }}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant: ' }}{% endif %}")


def _tensors():
    head = WIDTH // HEADS
    yield "model.embed_tokens.weight", (VOCABULARY, WIDTH)
    for i in range(BLOCKS):
        block = f"model.layers.{i}."
        yield block + "input_layernorm.weight", (WIDTH,)
        yield block + "self_attn.q_proj.weight", (HEADS * head, WIDTH)
        yield block + "self_attn.k_proj.weight", (GROUPS * head, WIDTH)
        yield block + "self_attn.v_proj.weight", (GROUPS * head, WIDTH)
        yield block + "self_attn.o_proj.weight", (WIDTH, HEADS * head)
        yield block + "post_attention_layernorm.weight", (WIDTH,)
        yield block + "mlp.gate_proj.weight", (INNER, WIDTH)
        yield block + "mlp.up_proj.weight", (INNER, WIDTH)
        yield block + "mlp.down_proj.weight", (WIDTH, INNER)
    yield "model.norm.weight", (WIDTH,)


def write_small_llama(folder):
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(17)
    head, data = {}, b""
    for name, shape in _tensors():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = [chance.gauss(0, 0.4) if len(shape) > 1 else 1 + chance.gauss(0, 0.1) for _ in range(count)]
        packed = struct.pack(f"<{count}f", *values)
        head[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(head).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": WIDTH,
        "intermediate_size": INNER, "num_hidden_layers": BLOCKS, "num_attention_heads": HEADS,
        "num_key_value_heads": GROUPS, "max_position_embeddings": LENGTH, "rms_norm_eps": 1e-5, "hidden_act": "silu",
        "rope_theta": 10000.0, "tie_word_embeddings": True, "eos_token_id": len(LETTERS)}))
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None,
        "added_tokens": [{"id": len(LETTERS) + i, "content": token, "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False, "special": True} for i, token in enumerate(SPECIAL)],
        "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "vocab": {token: i for i, token in enumerate(LETTERS + SPECIAL)}, "merges": []}}))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"chat_template": TEMPLATE, "eos_token": {"content": SPECIAL[0]}, "bos_token": None}))
    return folder
