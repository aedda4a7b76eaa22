#!/usr/bin/env python3
"""What transformers generates on this machine: the reference of bench/generation_gpu.

Reads lines "SEQUENCES PROMPT TOKENS" and answers each with "ok TOKENS_PER_SECOND": greedy tokens of all sequences
together, by `generate` as it comes, of a Llama of SmolLM2-135M's shape with drawn weights in bfloat16. The prompt's own
pass is counted in the time, as one token of many.
"""

import os
import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

SHAPE = dict(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
             num_key_value_heads=3, max_position_embeddings=8192, rope_theta=100000.0, rms_norm_eps=1e-5,
             tie_word_embeddings=True, bos_token_id=None, eos_token_id=None)


def tokens_per_second(model, sequences, prompt, tokens):
    ids = torch.randint(SHAPE['vocab_size'], (sequences, prompt), device=model.device)
    settings = dict(do_sample=False, max_new_tokens=tokens, min_new_tokens=tokens, pad_token_id=0)
    mask = torch.ones_like(ids)
    times = []
    for _ in range(3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        made = model.generate(ids, attention_mask=mask, **settings)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
        assert made.shape[1] == prompt + tokens
    return sequences * tokens / sorted(times)[1]


def main():
    # What libraries print goes elsewhere: on standard output stand answers alone.
    answers = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)
    torch.manual_seed(1)
    model = None
    for line in sys.stdin:
        try:
            if model is None:
                model = LlamaForCausalLM(LlamaConfig(**SHAPE)).to('cuda', torch.bfloat16).eval()
            with torch.inference_mode():
                text = f'ok {tokens_per_second(model, *map(int, line.split())):.1f}'
        except Exception as error:  # the bench is told why, and leaves the row out
            text = 'failed: ' + ' '.join(str(error).split())
        print(text, file=answers, flush=True)


if __name__ == '__main__':
    main()
