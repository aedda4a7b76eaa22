// ResNet-18 and -50 (He et al., "Deep residual learning for image recognition", 2015), with the
// stride of a bottleneck in its 3x3 convolution, as torchvision has it.
#include <array>

#include <harmonics/base/format.h>

#include "zoo_models.h"

namespace harmonics::inline in_graph {
namespace {

struct Conv {
  std::int64_t out;
  std::int64_t kernel;
  std::int64_t stride = 1;
};

class Resnet {
 public:
  explicit Resnet(const ResnetOptions& options) : options_(options), builder_(options.name) {}

  HarmonicGraph make() {
    builder_.producer("image", Shape{3, 224, 224});
    builder_.group("stem");
    std::string x = convolve("conv1", "bn1", {64, 7, 2}, "image", "relu");
    builder_.layer(
        "maxpool", "max_pool",
        {{"kernel", std::int64_t{3}}, {"stride", std::int64_t{2}}, {"padding", std::int64_t{1}}},
        {x});
    x = "maxpool";
    constexpr std::array<std::int64_t, 4> kWidths = {64, 128, 256, 512};
    for (std::size_t stage = 0; stage < kWidths.size(); ++stage) {
      for (std::int64_t i = 0; i < options_.blocks[stage]; ++i) {
        const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
        x = block(format("layer{}.{}", stage + 1, i), x, kWidths[stage], stride);
      }
    }
    builder_.group("top");
    builder_.layer("avgpool", "adaptive_avg_pool", {{"size", std::int64_t{1}}}, {x});
    builder_.layer("flat", "flatten", {}, {"avgpool"});
    builder_.layer("fc", "linear", {{"out", std::int64_t{1000}}}, {"flat"});
    return finish_classifier(builder_, "fc");
  }

 private:
  // A convolution without bias and the batch norm behind it; returns the norm's name.
  std::string convolve(const std::string& conv, const std::string& norm, const Conv& shape,
                       const std::string& input, const std::string& activation) {
    Attributes attributes = {
        {"out", shape.out}, {"kernel", shape.kernel}, {"bias", std::int64_t{0}}};
    if (shape.stride != 1) attributes["stride"] = shape.stride;
    if (shape.kernel != 1) attributes["padding"] = shape.kernel / 2;
    builder_.layer(conv, "conv2d", attributes, {input});
    builder_.layer(norm, "batch_norm", {}, {conv}, activation);
    return norm;
  }

  // relu(convolutions(x) + x); x goes through a 1x1 convolution where its shape changes.
  std::string block(const std::string& name, const std::string& input, std::int64_t width,
                    std::int64_t stride) {
    builder_.group(name);
    std::string x = input;
    const std::int64_t out = options_.bottleneck ? 4 * width : width;
    const std::vector<Conv> plan = options_.bottleneck
                                       ? std::vector<Conv>{{width, 1}, {width, 3, stride}, {out, 1}}
                                       : std::vector<Conv>{{width, 3, stride}, {out, 3}};
    for (std::size_t i = 0; i < plan.size(); ++i) {
      x = convolve(format("{}.conv{}", name, i + 1), format("{}.bn{}", name, i + 1), plan[i], x,
                   i + 1 < plan.size() ? "relu" : "");
    }
    std::string shortcut = input;
    if (stride != 1 || channels_ != out) {
      shortcut =
          convolve(name + ".downsample.0", name + ".downsample.1", {out, 1, stride}, input, "");
    }
    channels_ = out;
    builder_.layer(name + ".sum", "add", {}, {x, shortcut}, "relu");
    return name + ".sum";
  }

  const ResnetOptions& options_;
  GraphBuilder builder_;
  std::int64_t channels_ = 64;  // of the tensor that enters the next block
};

}  // namespace

HarmonicGraph make_resnet(const ResnetOptions& options) { return Resnet(options).make(); }

}  // namespace harmonics::inline in_graph
