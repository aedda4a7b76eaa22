#include <harmonics/base/error.h>

#include "device_operations.h"

namespace harmonics::inline in_runtime {
namespace {

/// layer_norm and rms_norm.
class DeviceRowNorm final : public PlacedOperation {
 public:
  DeviceRowNorm(ExactDevice& device, double epsilon, bool centred)
      : device_(device), epsilon_(static_cast<float>(epsilon)), centred_(centred) {}

  ExactArray forward(const PlacedCall& call, PlacedKept& kept) const override {
    const ExactArray &x = call.inputs[0], &weight = call.parameters[0];
    const std::int64_t width = weight.size(), rows = x.size() / width;
    ExactArray y = device_.empty(x.shape);
    const ExactArray means = device_.empty({rows}), scales = device_.empty({rows});
    if (centred_) {
      device_.run("layer_norm", rows * kExactLanesPerRow,
                  {x, weight, call.parameters[1], width, epsilon_, y, means, scales});
    } else {
      device_.run("rms_norm", rows * kExactLanesPerRow,
                  {x, weight, width, epsilon_, y, means, scales});
    }
    if (call.training) kept.there = {means, scales};
    return y;
  }

  std::vector<ExactArray> backward(const PlacedCall& call, const PlacedKept& kept,
                                   const ExactArray& gradient) const override {
    const ExactArray &x = call.inputs[0], &weight = call.parameters[0];
    const ExactArray &means = kept.there[0], &scales = kept.there[1];
    const std::int64_t width = weight.size(), rows = x.size() / width;
    const int centred = centred_ ? 1 : 0;
    device_.run("row_norm_columns", width,
                {x, means, scales, gradient, rows, width, call.gradients[0],
                 call.gradients[centred_ ? 1 : 0], centred});
    if (!call.wanted[0]) return {ExactArray()};
    ExactArray answer = device_.empty(x.shape);
    device_.run("row_norm_back", rows * kExactLanesPerRow,
                {x, weight, means, scales, gradient, width, centred, answer});
    return {answer};
  }

 private:
  ExactDevice& device_;
  float epsilon_;
  bool centred_;
};

class DeviceBatchNorm final : public PlacedOperation {
 public:
  DeviceBatchNorm(ExactDevice& device, double epsilon, double momentum)
      : device_(device),
        epsilon_(static_cast<float>(epsilon)),
        momentum_(static_cast<float>(momentum)) {}

  ExactArray forward(const PlacedCall& call, PlacedKept& kept) const override {
    const ExactArray& x = call.inputs[0];
    const Planes p(x);
    if (call.training && p.count() == 1) {
      fail(ErrorCode::kInvalidArgument,
           "batch norm learns from more than one value per channel, and a micro-batch brought one: "
           "take larger micro-batches");
    }
    ExactArray means = call.parameters[2];
    const ExactArray scales = device_.empty({p.channels});
    if (call.training) {
      means = device_.empty({p.channels});
      measure(call, p, means, scales);
      kept.there = {means, scales};
    } else {
      device_.run("running_scales", p.channels, {call.parameters[3], epsilon_, scales});
    }
    ExactArray y = device_.empty(x.shape);
    device_.run("normalize_planes", y.size(),
                {x, means, scales, call.parameters[0], call.parameters[1], p.channels, p.area, y});
    return y;
  }

  std::vector<ExactArray> backward(const PlacedCall& call, const PlacedKept& kept,
                                   const ExactArray& gradient) const override {
    const ExactArray& x = call.inputs[0];
    const Planes p(x);
    const ExactArray &means = kept.there[0], &scales = kept.there[1];
    const ExactArray each = device_.empty({p.planes()}), products = device_.empty({p.planes()});
    device_.run("plane_sums", p.items(), {gradient, p.area, each});
    device_.run("plane_products", p.items(),
                {gradient, x, means, scales, p.channels, p.area, products});
    const ExactArray sum = device_.empty({p.channels}), product_sum = device_.empty({p.channels});
    device_.run(
        "channel_gradients", p.channels,
        {each, products, p.samples, call.gradients[0], call.gradients[1], sum, product_sum});
    if (!call.wanted[0]) return {ExactArray()};
    ExactArray answer = device_.empty(x.shape);
    device_.run("normalize_planes_back", answer.size(),
                {x, gradient, means, scales, call.parameters[0], sum, product_sum,
                 static_cast<float>(p.count()), p.channels, p.area, answer});
    return {answer};
  }

 private:
  struct Planes {
    std::int64_t samples, channels, area;
    explicit Planes(const ExactArray& x)
        : samples(x.shape[0]), channels(x.shape[1]), area(extent_from(x.shape, 2)) {}
    [[nodiscard]] std::int64_t count() const { return samples * area; }
    [[nodiscard]] std::int64_t planes() const { return samples * channels; }
    [[nodiscard]] std::int64_t items() const { return planes() * kExactLanesPerRow; }
  };

  void measure(const PlacedCall& call, const Planes& p, const ExactArray& means,
               const ExactArray& scales) const {
    const ExactArray& x = call.inputs[0];
    const ExactArray each = device_.empty({p.planes()});
    const auto count = static_cast<float>(p.count());
    device_.run("plane_sums", p.items(), {x, p.area, each});
    device_.run("channel_means", p.channels, {each, p.samples, count, means});
    device_.run("plane_squares", p.items(), {x, means, p.channels, p.area, each});
    device_.run("channel_scales", p.channels,
                {each, means, p.samples, count, static_cast<float>(p.count() - 1), epsilon_,
                 momentum_, call.parameters[2], call.parameters[3], scales});
  }

  ExactDevice& device_;
  float epsilon_;
  float momentum_;
};

}  // namespace

PlacedOperationPtr make_norm_on(ExactDevice& device, const LayerQuery& query) {
  if (query.type == "layer_norm" || query.type == "rms_norm") {
    return std::make_unique<DeviceRowNorm>(device, query.number("eps"), query.type == "layer_norm");
  }
  if (query.type != "batch_norm") return nullptr;
  return std::make_unique<DeviceBatchNorm>(device, query.number("eps"), query.number("momentum"));
}

}  // namespace harmonics::inline in_runtime
