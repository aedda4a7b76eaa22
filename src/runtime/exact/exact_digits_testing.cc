// A step of digits' network by the kernels alone, without libtorch and the rest of the house, so
// that another processor's compiler takes it in seconds: exact_arm64_test.cc runs it under QEMU.
//
//   exact_digits SET IN OUT
//
// IN holds int32 rows and layers, int32 inputs of each layer and of what follows the last, then
// float32: weights and bias of each layer, the inputs row by row; int32 labels. OUT gets float32:
// what the last layer gives row by row, then weights and bias of each layer after one step of AdamW
// at a rate and a decay of 0.01.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "exact_kernels.h"

namespace harmonics::inline in_runtime {
namespace {

using Floats = std::vector<float>;

class Input {
 public:
  explicit Input(const char* path) : file_(std::fopen(path, "rb")) {}
  template <typename Number>
  std::vector<Number> take(std::int64_t count) {
    std::vector<Number> all(static_cast<std::size_t>(count));
    if (file_ == nullptr || std::fread(all.data(), sizeof(Number), all.size(), file_) != all.size())
      std::exit(3);
    return all;
  }

 private:
  std::FILE* file_;
};

struct Layer {
  std::int64_t in, out;
  Floats weight, bias, input, before;  // what enters, and what leaves before relu
};

struct Network {
  explicit Network(Input& from) {
    const auto head = from.take<std::int32_t>(2);
    rows = head[0];
    const auto widths = from.take<std::int32_t>(head[1] + 1);
    for (std::size_t i = 0; i + 1 < widths.size(); ++i)
      layers.push_back({widths[i], widths[i + 1], {}, {}, {}, {}});
    for (Layer& layer : layers) {
      layer.weight = from.take<float>(layer.in * layer.out);
      layer.bias = from.take<float>(layer.out);
    }
    layers.front().input = from.take<float>(rows * layers.front().in);
    labels = from.take<std::int32_t>(rows);
  }
  std::int64_t rows = 0;
  std::vector<Layer> layers;
  std::vector<std::int32_t> labels;
};

void multiply(const ExactKernels& kernels, const ExactProduct& product) {
  Floats scratch(kExactProductScratch);
  kernels.multiply(product, scratch.data());
}

void go_forward(const ExactKernels& kernels, Network& net) {
  for (std::size_t i = 0; i < net.layers.size(); ++i) {
    Layer& l = net.layers[i];
    for (std::int64_t r = 0; r < net.rows; ++r)
      l.before.insert(l.before.end(), l.bias.begin(), l.bias.end());
    multiply(kernels, {net.rows, l.out, l.in, l.input.data(), l.in, 1, l.weight.data(), 1, l.in,
                       l.before.data(), l.out});
    if (i + 1 == net.layers.size()) return;
    Floats& next = net.layers[i + 1].input;
    next.resize(l.before.size());
    kernels.activate(ExactActivation::kRelu, static_cast<std::int64_t>(next.size()),
                     l.before.data(), next.data());
  }
}

void learn(const ExactKernels& kernels, Floats& value, const Floats& gradient) {
  Floats mean(value.size()), square(value.size());
  ExactUpdate update{static_cast<std::int64_t>(value.size()), value.data(), gradient.data(),
                     mean.data(), square.data()};
  update.shrink = static_cast<float>(1.0 - 0.01 * 0.01);
  update.rate = static_cast<float>(0.01 / (1.0 - 0.9));
  update.beta1 = 0.9F, update.beta2 = 0.999F, update.epsilon = 1e-8F;
  update.square_root = static_cast<float>(std::sqrt(1.0 - 0.999));
  kernels.adam(update);
}

void go_back(const ExactKernels& kernels, Network& net) {
  Floats gradient(net.layers.back().before.size());
  const auto weight = static_cast<float>(1.0 / static_cast<double>(net.rows)) / 1.0F;
  const std::int64_t classes = net.layers.back().out;
  for (std::int64_t r = 0; r < net.rows; ++r) {
    float* const row = gradient.data() + r * classes;
    kernels.softmax(classes, net.layers.back().before.data() + r * classes, row);
    row[net.labels[static_cast<std::size_t>(r)]] -= 1.0F;
    kernels.scale(classes, row, weight, row);
  }
  for (std::size_t i = net.layers.size(); i-- > 0;) {
    Layer& l = net.layers[i];
    Floats to_weight(l.weight.size()), to_bias(l.bias.size()), to_input(l.input.size());
    multiply(kernels, {l.out, l.in, net.rows, gradient.data(), 1, l.out, l.input.data(), l.in, 1,
                       to_weight.data(), l.in});
    kernels.add_rows(net.rows, l.out, gradient.data(), l.out, to_bias.data());
    multiply(kernels, {net.rows, l.in, l.out, gradient.data(), l.out, 1, l.weight.data(), l.in, 1,
                       to_input.data(), l.in});
    learn(kernels, l.weight, to_weight);
    learn(kernels, l.bias, to_bias);
    gradient = to_input;
    if (i > 0)
      kernels.activate_back(ExactActivation::kRelu, static_cast<std::int64_t>(to_input.size()),
                            net.layers[i - 1].before.data(), to_input.data(), gradient.data());
  }
}

const ExactKernels& kernels_of([[maybe_unused]] const std::string& set) {
#if defined(__aarch64__)
  if (set == "neon") return exact_kernels_neon();
#endif
  return exact_kernels_scalar();
}

int step(const std::string& set, const char* in, const char* out) {
  const ExactKernels& kernels = kernels_of(set);
  if (set != kernels.name) return 2;
  Input input(in);
  Network net(input);
  go_forward(kernels, net);
  go_back(kernels, net);
  std::FILE* const file = std::fopen(out, "wb");
  if (file == nullptr) return 3;
  const auto write = [&](const Floats& all) {
    return std::fwrite(all.data(), sizeof(float), all.size(), file) == all.size();
  };
  bool good = write(net.layers.back().before);
  for (const Layer& layer : net.layers) good = good && write(layer.weight) && write(layer.bias);
  return std::fclose(file) == 0 && good ? 0 : 3;
}

}  // namespace
}  // namespace harmonics::inline in_runtime

int main(int argc, char** argv) {
  return argc == 4 ? harmonics::step(argv[1], argv[2], argv[3]) : 2;
}
