"""ResNet-50 as its paper has it (stride in the 3x3 convolutions), in PyTorch."""

import torch
from torch import nn

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))


def convolution(inputs, outputs, kernel, stride=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs))


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.first = convolution(inputs, width, 1)
        self.second = convolution(width, width, 3, stride)
        self.third = convolution(width, 4 * width, 1)
        self.shortcut = (nn.Identity() if stride == 1 and inputs == 4 * width
                         else convolution(inputs, 4 * width, 1, stride))

    def forward(self, image):
        value = torch.relu(self.second(torch.relu(self.first(image))))
        return torch.relu(self.third(value) + self.shortcut(image))


def resnet50(classes=1000):
    blocks, inputs = [], 64
    for width, count, stride in STAGES:
        for index in range(count):
            blocks.append(Bottleneck(inputs, width, stride if index == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks,
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def with_statistics(model):
    """Running means and variances as training would leave them, so that numbers stay near 1 through all layers."""
    model.train()
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = None
    with torch.no_grad():
        model(torch.randn(4, 3, 224, 224))
    return model.eval()
