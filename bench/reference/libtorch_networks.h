// The same networks written by hand on libtorch: the references of the training-step benchmark.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace harmonics::reference {

/// in -> width (relu) x hidden -> out.
inline torch::nn::Sequential mlp(std::int64_t in, std::int64_t width, int hidden,
                                 std::int64_t out) {
  torch::nn::Sequential net;
  std::int64_t from = in;
  for (int i = 0; i < hidden; ++i) {
    net->push_back(torch::nn::Linear(from, width));
    net->push_back(torch::nn::ReLU());
    from = width;
  }
  net->push_back(torch::nn::Linear(from, out));
  return net;
}

inline torch::nn::Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t kernel,
                              std::int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

/// Two 3x3 convolutions around a shortcut.
struct ResidualBlock : torch::nn::Module {
  ResidualBlock(std::int64_t in, std::int64_t out, std::int64_t stride)
      : first(register_module("first", conv(in, out, 3, stride))),
        first_norm(register_module("first_norm", torch::nn::BatchNorm2d(out))),
        second(register_module("second", conv(out, out, 3, 1))),
        second_norm(register_module("second_norm", torch::nn::BatchNorm2d(out))) {
    if (in != out || stride != 1) {
      shortcut = register_module(
          "shortcut", torch::nn::Sequential(conv(in, out, 1, stride), torch::nn::BatchNorm2d(out)));
    }
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor inner = torch::relu(first_norm(first(x)));
    return torch::relu(second_norm(second(inner)) + (shortcut ? shortcut->forward(x) : x));
  }
  torch::nn::Conv2d first;
  torch::nn::BatchNorm2d first_norm;
  torch::nn::Conv2d second;
  torch::nn::BatchNorm2d second_norm;
  torch::nn::Sequential shortcut{nullptr};
};
using BasicBlock = torch::nn::ModuleHolder<ResidualBlock>;

/// ResNet-18 for 3 x 224 x 224 images (He et al., "Deep residual learning", CVPR 2016).
inline torch::nn::Sequential resnet18(std::int64_t classes) {
  torch::nn::Sequential net(
      conv(3, 64, 7, 2), torch::nn::BatchNorm2d(64), torch::nn::ReLU(),
      torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2).padding(1)));
  std::int64_t channels = 64;
  for (const std::int64_t width : {64, 128, 256, 512}) {
    net->push_back(BasicBlock(channels, width, width == 64 ? 1 : 2));
    net->push_back(BasicBlock(width, width, 1));
    channels = width;
  }
  net->push_back(torch::nn::AdaptiveAvgPool2d(torch::nn::AdaptiveAvgPool2dOptions({1, 1})));
  net->push_back(torch::nn::Flatten());
  net->push_back(torch::nn::Linear(channels, classes));
  return net;
}

}  // namespace harmonics::reference
