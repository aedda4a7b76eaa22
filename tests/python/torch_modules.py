"""Modules as users write them, and a training loop in torch to compare with."""

import torch
import torch.nn.functional as F
from torch import nn


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, image):
        x = F.max_pool2d(torch.relu(self.conv1(image)), 2)
        x = F.max_pool2d(torch.relu(self.conv2(x)), 2)
        x = x.view(x.size(0), -1)
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = [part.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)
                 for part in self.qkv(self.ln1(x)).chunk(3, -1)]
        weights = torch.softmax(parts[0] @ parts[1].transpose(-2, -1) / (width // self.heads) ** 0.5, -1)
        x = x + self.proj((weights @ parts[2]).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class Transformer(nn.Module):
    def __init__(self, blocks=4, width=32):
        super().__init__()
        self.tokens = nn.Embedding(50, width)
        self.places = nn.Parameter(0.02 * torch.randn(16, width))
        self.blocks = nn.ModuleList([Block(width, 4) for _ in range(blocks)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)

    def forward(self, ids):
        x = self.tokens(ids) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    """torchvision's, an eighth as wide."""

    def __init__(self, width=8):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        before = width
        for number in range(4):
            after = width << number
            setattr(self, f'layer{number + 1}', nn.Sequential(BasicBlock(before, after, 1 if number == 0 else 2),
                                                              BasicBlock(after, after, 1)))
            before = after
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(before, 10)

    def forward(self, image):
        x = self.maxpool(torch.relu(self.bn1(self.conv1(image))))
        for number in range(4):
            x = getattr(self, f'layer{number + 1}')(x)
        return self.fc(torch.flatten(self.avgpool(x), 1))


def losses_in_torch(module, inputs, labels, epochs):
    """The loss of every step of a plain loop: SGD with a rate of 0.05, over batches of 8 in their order."""
    module.train()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
    losses = []
    for _ in range(epochs):
        for start in range(0, len(inputs), 8):
            optimizer.zero_grad()
            loss = F.cross_entropy(module(inputs[start:start + 8]), labels[start:start + 8])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses
