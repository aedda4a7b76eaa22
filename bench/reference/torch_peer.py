#!/usr/bin/env python3
"""What PyTorch itself trains, or infers, on this GPU in bf16: the reference of bench/gpu_training.

Reads lines "resnet50|vit-base BATCH eager|graph|compile [infer]" and answers each with "ok SAMPLES_PER_SECOND".

SGD with momentum over float32 weights, matrix products and convolutions in bf16 (autocast), the batch in page-locked
memory and copied at each step. `graph`: the same kernels, channels last, in one CUDA graph. `compile`: torch.compile
with mode="reduce-overhead", channels last.
"""

import os
import sys
import time

import torch
from torch import nn

from resnet50 import resnet50


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    def __init__(self, width=768, heads=12, blocks=12):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, 197, width))
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(blocks)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


def samples_per_second(name, batch, mode, infers):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    network = (resnet50() if name == 'resnet50' else Vit()).cuda()
    image, label = torch.randn(batch, 3, 224, 224).pin_memory(), torch.randint(1000, (batch,)).pin_memory()
    if mode != 'eager':
        network = network.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), 0.01, 0.9)
    here = torch.empty(image.shape, device='cuda', memory_format=torch.contiguous_format if mode == 'eager'
                       else torch.channels_last)
    there = torch.empty(batch, dtype=torch.long, device='cuda')
    called = torch.compile(network, mode='reduce-overhead') if mode == 'compile' else network

    def answers():
        with torch.inference_mode(), torch.autocast('cuda', torch.bfloat16):
            return called(here)

    def passes():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast('cuda', torch.bfloat16):
            loss = nn.functional.cross_entropy(called(here), there)
        loss.backward()
        optimizer.step()
        return loss

    def captured():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(4):
                passes()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph, stream=side):
            loss = passes()
        return lambda: (graph.replay(), loss)[1]

    work = captured() if mode == 'graph' else passes
    if infers:
        network.eval()

    def step():
        here.copy_(image, non_blocking=True)
        if infers:
            return answers().float().cpu()
        there.copy_(label, non_blocking=True)
        return work().item()

    for _ in range(6):
        step()
    times = []
    for _ in range(7):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(10):
            step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / 10)
    return batch / sorted(times)[len(times) // 2]


def main():
    # What libraries print goes elsewhere: on standard output stand answers alone.
    answers = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)
    for line in sys.stdin:
        name, batch, mode, *what = line.split()
        try:
            text = f'ok {samples_per_second(name, int(batch), mode, what == ["infer"]):.1f}'
        except Exception as error:  # the bench is told why, and leaves the row out
            text = 'failed: ' + ' '.join(str(error).split())
        torch.cuda.empty_cache()
        print(text, file=answers, flush=True)


if __name__ == '__main__':
    main()
