// ResNet-50 and ViT-Base written by hand on libtorch with master weights in float32 and matrix
// products and convolutions in another dtype: the references of the GPU benchmark. They take their
// weights by our names, so that both sides can be checked to compute the same loss.
#pragma once

#include <torch/torch.h>

#include <array>
#include <map>
#include <string>
#include <vector>

namespace harmonics::reference {

class MixedNetwork {
 public:
  MixedNetwork(std::map<std::string, at::Tensor> weights, at::ScalarType compute)
      : weights_(std::move(weights)), compute_(compute) {
    for (auto& [name, value] : weights_) {
      if (name.find("running_") == std::string::npos) value.set_requires_grad(true);
    }
  }
  virtual ~MixedNetwork() = default;
  virtual at::Tensor forward(const at::Tensor& image) = 0;

  std::vector<at::Tensor> parameters() const {
    std::vector<at::Tensor> all;
    for (const auto& [name, value] : weights_) {
      if (value.requires_grad()) all.push_back(value);
    }
    return all;
  }

 protected:
  const at::Tensor& weight(const std::string& name) const { return weights_.at(name); }
  at::Tensor narrow(const at::Tensor& x) const { return x.to(compute_); }

  at::Tensor conv(const at::Tensor& x, const std::string& name, std::int64_t stride,
                  std::int64_t padding) const {
    const auto bias = weights_.find(name + ".bias");
    return at::conv2d(narrow(x), narrow(weight(name + ".weight")),
                      bias == weights_.end() ? at::Tensor() : narrow(bias->second),
                      {stride, stride}, {padding, padding});
  }
  at::Tensor linear(const at::Tensor& x, const std::string& name) const {
    return at::linear(narrow(x), narrow(weight(name + ".weight")), narrow(weight(name + ".bias")));
  }
  at::Tensor batch_norm(const at::Tensor& x, const std::string& name) const {
    return at::batch_norm(x, weight(name + ".weight"), weight(name + ".bias"),
                          weight(name + ".running_mean"), weight(name + ".running_var"), true, 0.1,
                          1e-5, true);
  }
  at::Tensor layer_norm(const at::Tensor& x, const std::string& name) const {
    const at::Tensor& scale = weight(name + ".weight");
    return at::layer_norm(x.to(at::kFloat), scale.sizes(), scale, weight(name + ".bias"), 1e-12);
  }

 private:
  std::map<std::string, at::Tensor> weights_;
  at::ScalarType compute_;
};

/// He et al., "Deep residual learning", CVPR 2016; the stride lies in the 3x3 convolutions.
class Resnet50 final : public MixedNetwork {
 public:
  using MixedNetwork::MixedNetwork;
  at::Tensor forward(const at::Tensor& image) override {
    at::Tensor x = at::relu(batch_norm(conv(image, "conv1", 2, 3), "bn1"));
    x = at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1});
    constexpr std::array<int, 4> kBlocks = {3, 4, 6, 3};
    for (int stage = 0; stage < 4; ++stage) {
      for (int i = 0; i < kBlocks[static_cast<std::size_t>(stage)]; ++i) {
        const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(i);
        x = block(x, name, stage > 0 && i == 0 ? 2 : 1, i == 0);
      }
    }
    return linear(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1), "fc");
  }

 private:
  at::Tensor block(const at::Tensor& x, const std::string& name, std::int64_t stride,
                   bool widens) const {
    at::Tensor y = at::relu(batch_norm(conv(x, name + ".conv1", 1, 0), name + ".bn1"));
    y = at::relu(batch_norm(conv(y, name + ".conv2", stride, 1), name + ".bn2"));
    y = batch_norm(conv(y, name + ".conv3", 1, 0), name + ".bn3");
    if (!widens) return at::relu(y + x);
    return at::relu(y +
                    batch_norm(conv(x, name + ".downsample.0", stride, 0), name + ".downsample.1"));
  }
};

/// Dosovitskiy et al., "An image is worth 16x16 words", 2020: 12 blocks of width 768, 12 heads.
class VitBase final : public MixedNetwork {
 public:
  using MixedNetwork::MixedNetwork;
  at::Tensor forward(const at::Tensor& image) override {
    at::Tensor x = conv(image, "patch_embed.proj", 16, 0).flatten(2).transpose(1, 2);
    const at::Tensor token = narrow(weight("cls_token.weight")).view({1, 1, -1});
    x = at::cat({token.expand({x.size(0), 1, x.size(2)}), x}, 1);
    x = x + narrow(weight("pos_embed.weight"));
    for (int i = 0; i < 12; ++i) {
      const std::string name = "blocks." + std::to_string(i);
      x = linear(attention(layer_norm(x, name + ".norm1"), name + ".attn"), name + ".attn.proj") +
          x;
      x = linear(at::gelu(linear(layer_norm(x, name + ".norm2"), name + ".mlp.fc1")),
                 name + ".mlp.fc2") +
          x;
    }
    return linear(layer_norm(x, "norm").select(1, 0), "head");
  }

 private:
  at::Tensor attention(const at::Tensor& x, const std::string& name) const {
    const std::int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
    const at::Tensor qkv = linear(x, name + ".qkv")
                               .reshape({batch, length, 3, 12, width / 12})
                               .permute({2, 0, 3, 1, 4});
    return mixed(qkv[0], qkv[1], qkv[2]).transpose(1, 2).reshape({batch, length, width});
  }
  static at::Tensor mixed(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
#if TORCH_VERSION_MAJOR >= 2
    if (query.is_cuda()) return at::scaled_dot_product_attention(query, key, value);
#endif
    const at::Tensor scores = at::matmul(query * 0.125, key.transpose(-2, -1));
    return at::matmul(at::softmax(scores.to(at::kFloat), -1).to(value.scalar_type()), value);
  }
};

}  // namespace harmonics::reference
