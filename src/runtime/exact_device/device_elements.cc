#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "device_operations.h"

namespace harmonics::inline in_runtime {
namespace {

/// The same numbers under another shape.
class DeviceReshape final : public PlacedOperation {
 public:
  explicit DeviceReshape(Shape output) : output_(std::move(output)) {}

  ExactArray forward(const PlacedCall& call, PlacedKept&) const override {
    Shape shape = output_;
    shape.insert(shape.begin(), call.rows());
    return call.inputs[0].reshaped(std::move(shape));
  }
  std::vector<ExactArray> backward(const PlacedCall& call, const PlacedKept&,
                                   const ExactArray& gradient) const override {
    return {gradient.reshaped(call.inputs[0].shape)};
  }

 private:
  Shape output_;
};

class DeviceFold final : public PlacedOperation {
 public:
  DeviceFold(ExactDevice& device, bool sums) : device_(device), sums_(sums) {}

  ExactArray forward(const PlacedCall& call, PlacedKept&) const override {
    ExactArray y = fold(call.inputs[0], call.inputs[1]);
    for (std::size_t i = 2; i < call.inputs.size(); ++i) y = fold(y, call.inputs[i]);
    return y;
  }

  std::vector<ExactArray> backward(const PlacedCall& call, const PlacedKept&,
                                   const ExactArray& gradient) const override {
    std::vector<ExactArray> all(call.inputs.size());
    for (std::size_t own = 0; own < all.size(); ++own) {
      if (!call.wanted[own]) continue;
      all[own] = gradient;
      for (std::size_t other = 0; !sums_ && other < all.size(); ++other) {
        if (other != own) all[own] = fold(all[own], call.inputs[other]);
      }
    }
    return all;
  }

 private:
  [[nodiscard]] ExactArray fold(const ExactArray& a, const ExactArray& b) const {
    ExactArray y = device_.empty(a.shape);
    device_.run(sums_ ? "add" : "multiply", y.size(), {a, b, y});
    return y;
  }

  ExactDevice& device_;
  bool sums_;
};

class DeviceConcat final : public PlacedOperation {
 public:
  DeviceConcat(ExactDevice& device, std::size_t axis) : device_(device), axis_(axis) {}

  ExactArray forward(const PlacedCall& call, PlacedKept&) const override {
    Shape shape = call.inputs[0].shape;
    shape[axis_] = 0;
    for (const ExactArray& input : call.inputs) shape[axis_] += input.shape[axis_];
    ExactArray y = device_.empty(shape);
    const std::int64_t pitch = extent_from(shape, axis_);
    std::int64_t offset = 0;
    for (const ExactArray& input : call.inputs) {
      const std::int64_t width = extent_from(input.shape, axis_);
      device_.run("copy_blocks", input.size(), {input, 0, width, y, offset, pitch, width});
      offset += width;
    }
    return y;
  }

  std::vector<ExactArray> backward(const PlacedCall& call, const PlacedKept&,
                                   const ExactArray& gradient) const override {
    std::vector<ExactArray> all;
    const std::int64_t pitch = extent_from(gradient.shape, axis_);
    std::int64_t offset = 0;
    for (const ExactArray& input : call.inputs) {
      const std::int64_t width = extent_from(input.shape, axis_);
      const ExactArray& own = all.emplace_back(device_.empty(input.shape));
      device_.run("copy_blocks", own.size(), {gradient, offset, pitch, own, 0, width, width});
      offset += width;
    }
    return all;
  }

 private:
  ExactDevice& device_;
  std::size_t axis_;
};

class DeviceDropout final : public PlacedOperation {
 public:
  DeviceDropout(ExactDevice& device, double p) : device_(device), p_(p) {}

  ExactArray forward(const PlacedCall& call, PlacedKept&) const override {
    return call.training && p_ > 0 ? masked(call, call.inputs[0]) : call.inputs[0];
  }
  std::vector<ExactArray> backward(const PlacedCall& call, const PlacedKept&,
                                   const ExactArray& gradient) const override {
    return {p_ > 0 ? masked(call, gradient) : gradient};
  }

 private:
  [[nodiscard]] ExactArray masked(const PlacedCall& call, const ExactArray& x) const {
    ExactArray y = device_.empty(x.shape);
    const auto low = [](std::uint64_t bits) { return static_cast<std::uint32_t>(bits); };
    device_.run(
        "dropout", x.size(),
        {x, y, x.size() / std::max<std::int64_t>(call.rows(), 1),
         low(static_cast<std::uint64_t>(call.first_sample)), low(call.step), low(call.step >> 32),
         low(call.key), low(call.key >> 32), static_cast<std::uint32_t>(p_ * 4294967296.0),
         static_cast<float>(1.0 / (1.0 - p_))});
    return y;
  }

  ExactDevice& device_;
  double p_;
};

class DeviceActivation final : public PlacedOperation {
 public:
  DeviceActivation(ExactDevice& device, ExactActivation kind)
      : device_(device), kind_(static_cast<int>(kind)) {}

  ExactArray forward(const PlacedCall& call, PlacedKept&) const override {
    ExactArray y = device_.empty(call.inputs[0].shape);
    device_.run("activate", y.size(), {kind_, call.inputs[0], y});
    return y;
  }
  std::vector<ExactArray> backward(const PlacedCall& call, const PlacedKept&,
                                   const ExactArray& gradient) const override {
    ExactArray answer = device_.empty(call.inputs[0].shape);
    device_.run("activate_back", answer.size(), {kind_, call.inputs[0], gradient, answer});
    return {answer};
  }

 private:
  ExactDevice& device_;
  int kind_;
};

class DeviceSoftmax final : public PlacedOperation {
 public:
  explicit DeviceSoftmax(ExactDevice& device) : device_(device) {}

  ExactArray forward(const PlacedCall& call, PlacedKept& kept) const override {
    ExactArray y = device_.empty(call.inputs[0].shape);
    device_.run("softmax", items(y), {call.inputs[0], y.shape.back(), 0, y});
    if (call.training) kept.there = {y};
    return y;
  }
  std::vector<ExactArray> backward(const PlacedCall& call, const PlacedKept& kept,
                                   const ExactArray& gradient) const override {
    ExactArray answer = device_.empty(call.inputs[0].shape);
    device_.run("softmax_back", items(answer),
                {kept.there[0], gradient, answer.shape.back(), 0, answer});
    return {answer};
  }

 private:
  static std::int64_t items(const ExactArray& x) {
    return x.size() / std::max<std::int64_t>(x.shape.back(), 1) * kExactLanesPerRow;
  }

  ExactDevice& device_;
};

class DevicePrelu final : public PlacedOperation {
 public:
  explicit DevicePrelu(ExactDevice& device) : device_(device) {}

  ExactArray forward(const PlacedCall& call, PlacedKept&) const override {
    ExactArray y = device_.empty(call.inputs[0].shape);
    device_.run("prelu", y.size(), {call.inputs[0], call.parameters[0], y});
    return y;
  }
  std::vector<ExactArray> backward(const PlacedCall& call, const PlacedKept&,
                                   const ExactArray& gradient) const override {
    const ExactArray& x = call.inputs[0];
    ExactArray answer = device_.empty(x.shape);
    device_.run("prelu_back", answer.size(), {x, call.parameters[0], gradient, answer});
    device_.run("prelu_weight", 1, {x, gradient, x.size(), call.gradients[0]});
    return {answer};
  }

 private:
  ExactDevice& device_;
};

}  // namespace

PlacedOperationPtr make_element_layer_on(ExactDevice& device, const LayerQuery& query,
                                         const TensorSpec& output) {
  const std::string_view type = query.type;
  if (type == "flatten" || type == "reshape" || type == "identity") {
    return std::make_unique<DeviceReshape>(output.shape);
  }
  if (type == "add" || type == "mul") return std::make_unique<DeviceFold>(device, type == "add");
  if (type == "dropout") return std::make_unique<DeviceDropout>(device, query.number("p"));
  if (type != "concat") return nullptr;
  return std::make_unique<DeviceConcat>(device,
                                        static_cast<std::size_t>(query.integer("axis") + 1));
}

PlacedOperationPtr make_activation_on(ExactDevice& device, std::string_view name) {
  if (name == "softmax") return std::make_unique<DeviceSoftmax>(device);
  if (name == "prelu") return std::make_unique<DevicePrelu>(device);
  const auto kind = exact_activation_of(name);
  return kind ? std::make_unique<DeviceActivation>(device, *kind) : nullptr;
}

}  // namespace harmonics::inline in_runtime
