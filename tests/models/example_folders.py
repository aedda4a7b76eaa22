"""Folders as Hugging Face has them, of published sizes, whose weights are holes in a file: an import reads heads alone."""

import json
import struct


def blocks(count, name, tensors):
    """The tensors of every block; `name` has a place for its number."""
    return {f"{name.format(i)}.{key}": shape for i in range(count) for key, shape in tensors.items()}


def affine(name, out, into):
    """A linear layer's two tensors."""
    return {f"{name}.weight": [out, into], f"{name}.bias": [out]}


def norm(name, width):
    return {f"{name}.weight": [width], f"{name}.bias": [width]}


def attention_and_wide(width, wide, names):
    """A block of an encoder under its family's names for q, k, v, o, both norms and the two wide layers."""
    query, key, value, out, first, second, up, down = names
    made = {}
    for name in (query, key, value, out):
        made |= affine(name, width, width)
    return made | norm(first, width) | norm(second, width) | affine(up, wide, width) | affine(down, width, wide)


BERT_NAMES = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
              "attention.output.LayerNorm", "output.LayerNorm", "intermediate.dense", "output.dense")
VIT_NAMES = ("attention.attention.query", "attention.attention.key", "attention.attention.value",
             "attention.output.dense", "layernorm_before", "layernorm_after", "intermediate.dense", "output.dense")
DISTIL_NAMES = ("attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin", "sa_layer_norm",
                "output_layer_norm", "ffn.lin1", "ffn.lin2")


def bert(words, places, types):
    width, wide, layers = 768, 3072, 12
    return ({"embeddings.word_embeddings.weight": [words, width],
             "embeddings.position_embeddings.weight": [places, width],
             "embeddings.token_type_embeddings.weight": [types, width]}
            | norm("embeddings.LayerNorm", width)
            | blocks(layers, "encoder.layer.{}", attention_and_wide(width, wide, BERT_NAMES))
            | affine("pooler.dense", width, width))


def distilbert():
    return ({"embeddings.word_embeddings.weight": [30522, 768], "embeddings.position_embeddings.weight": [512, 768]}
            | norm("embeddings.LayerNorm", 768)
            | blocks(6, "transformer.layer.{}", attention_and_wide(768, 3072, DISTIL_NAMES)))


def vit(prefix, width, wide, tokens, more):
    body = ({f"embeddings.{name}": [1, 1, width] for name in tokens}
            | {"embeddings.position_embeddings": [1, 196 + len(tokens), width],
               "embeddings.patch_embeddings.projection.weight": [width, 3, 16, 16],
               "embeddings.patch_embeddings.projection.bias": [width]}
            | blocks(12, "encoder.layer.{}", attention_and_wide(width, wide, VIT_NAMES)) | norm("layernorm", width))
    return {prefix + name: shape for name, shape in body.items()} | more


def gpt2():
    block = {"attn.c_attn.weight": [768, 2304], "attn.c_attn.bias": [2304], "attn.c_proj.weight": [768, 768],
             "attn.c_proj.bias": [768], "mlp.c_fc.weight": [768, 3072], "mlp.c_fc.bias": [3072],
             "mlp.c_proj.weight": [3072, 768], "mlp.c_proj.bias": [768]} | norm("ln_1", 768) | norm("ln_2", 768)
    body = ({"wte.weight": [50257, 768], "wpe.weight": [1024, 768]} | blocks(12, "h.{}", block) | norm("ln_f", 768))
    return {f"transformer.{name}": shape for name, shape in body.items()}


def llama(config, biased):
    """Groups of heads share keys and values."""
    width, wide = config["hidden_size"], config["intermediate_size"]
    shared = width // config["num_attention_heads"] * config["num_key_value_heads"]
    sizes = {"q_proj": width, "k_proj": shared, "v_proj": shared}
    block = {f"self_attn.{name}.weight": [size, width] for name, size in sizes.items()}
    if biased:
        block |= {f"self_attn.{name}.bias": [size] for name, size in sizes.items()}
    block |= {"self_attn.o_proj.weight": [width, width], "mlp.gate_proj.weight": [wide, width],
              "mlp.up_proj.weight": [wide, width], "mlp.down_proj.weight": [width, wide],
              "input_layernorm.weight": [width], "post_attention_layernorm.weight": [width]}
    return ({"model.embed_tokens.weight": [config["vocab_size"], width], "model.norm.weight": [width]}
            | blocks(config["num_hidden_layers"], "model.layers.{}", block))


ENCODER = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
           "hidden_act": "gelu", "layer_norm_eps": 1e-12}
SMOLLM2 = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 49152, "hidden_size": 576,
           "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
           "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 100000.0,
           "tie_word_embeddings": True, "hidden_act": "silu"}
QWEN2 = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "vocab_size": 151936, "hidden_size": 896,
         "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
         "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
         "tie_word_embeddings": True, "hidden_act": "silu"}
PICTURE = {"image_size": 224, "patch_size": 16, "num_channels": 3, "qkv_bias": True}

# The example's name: its configuration, its tensors, and the parameters that its authors count.
EXAMPLES = {
    "bert_base": (ENCODER | {"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 30522,
                             "max_position_embeddings": 512, "type_vocab_size": 2},
                  bert(30522, 512, 2), 109482240),
    "roberta_base": (ENCODER | {"model_type": "roberta", "architectures": ["RobertaModel"], "vocab_size": 50265,
                                "max_position_embeddings": 514, "type_vocab_size": 1, "pad_token_id": 1,
                                "layer_norm_eps": 1e-5},
                     bert(50265, 514, 1), 124645632),
    "distilbert_base": ({"model_type": "distilbert", "architectures": ["DistilBertModel"], "vocab_size": 30522,
                         "max_position_embeddings": 512, "dim": 768, "n_layers": 6, "n_heads": 12,
                         "hidden_dim": 3072, "activation": "gelu"},
                        distilbert(), 66362880),
    "vit_base": (ENCODER | PICTURE | {"model_type": "vit", "architectures": ["ViTForImageClassification"],
                                      "id2label": {str(i): f"LABEL_{i}" for i in range(1000)}},
                 vit("vit.", 768, 3072, ["cls_token"], affine("classifier", 1000, 768)), 86567656),
    "deit_small": (ENCODER | PICTURE | {"model_type": "deit", "architectures": ["DeiTModel"], "hidden_size": 384,
                                        "num_attention_heads": 6, "intermediate_size": 1536},
                   vit("", 384, 1536, ["cls_token", "distillation_token"], affine("pooler.dense", 384, 384)), None),
    "gpt2": ({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 12, "n_embd": 768,
              "n_head": 12, "n_positions": 1024, "vocab_size": 50257, "activation_function": "gelu_new"},
             gpt2(), 124439808),
    "smollm2_135m": (SMOLLM2, llama(SMOLLM2, False), 134515008),
    "qwen2_0.5b": (QWEN2, llama(QWEN2, True), 494032768),
}


def write_folder(folder, config, tensors):
    """config.json and a safetensors file that has its size and no blocks on the disk."""
    header, at = {}, 0
    for name, shape in tensors.items():
        size = 4
        for extent in shape:
            size *= extent
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)
