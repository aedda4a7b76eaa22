#include <algorithm>

#include <harmonics/runtime/devices.h>

#include "device_operations.h"

namespace harmonics::inline in_runtime {
namespace {

std::vector<float> floats_of(const Tensor& tensor) {
  return {tensor.values<float>().begin(), tensor.values<float>().end()};
}

/// cross_entropy, whose target are ids or a share for each class, and next_token. The classes are
/// the last axis.
class DeviceCrossEntropy final : public PlacedLoss {
 public:
  DeviceCrossEntropy(ExactDevice& device, bool of_next) : device_(device), of_next_(of_next) {}

  ExactLosses forward(const ExactArray& prediction, const ExactArray& target) const override {
    const Sizes s(prediction, of_next_);
    const int ids = is_floating(target.dtype) ? 0 : 1;
    const ExactArray each = device_.empty({s.rows}), means = device_.empty({s.samples});
    const ExactArray right = device_.empty({s.rows}, DType::kInt32);
    device_.run("cross_entropy", s.rows * kExactLanesPerRow,
                {prediction, target, target, ids, s.classes, s.length, each, right});
    device_.run("sample_means", s.samples, {each, right, s.each, of_next_ ? 1 : 0, means});
    ExactLosses losses;
    losses.samples = floats_of(device_.download(means));
    if (of_next_) return losses;
    losses.judged = s.rows;
    const Tensor judged = device_.download(right);
    losses.correct = std::ranges::count(judged.values<std::int32_t>(), 1);
    return losses;
  }

  ExactArray backward(const ExactArray& prediction, const ExactArray& target,
                      float scale) const override {
    const Sizes s(prediction, of_next_);
    const float weight = of_next_ ? scale : scale / static_cast<float>(s.each);
    ExactArray answer = device_.empty(prediction.shape);
    device_.run("cross_entropy_back", s.rows * kExactLanesPerRow,
                {prediction, target, target, is_floating(target.dtype) ? 0 : 1, s.classes, s.length,
                 weight, answer});
    return answer;
  }

 private:
  struct Sizes {
    Sizes(const ExactArray& prediction, bool of_next)
        : samples(prediction.shape[0]),
          classes(prediction.shape.back()),
          rows(prediction.size() / classes),
          each(rows / std::max<std::int64_t>(samples, 1)),
          length(of_next ? each : 0) {}
    std::int64_t samples, classes, rows, each, length;
  };

  ExactDevice& device_;
  bool of_next_;
};

/// mse and bce.
class DeviceElementLoss final : public PlacedLoss {
 public:
  DeviceElementLoss(ExactDevice& device, bool squares)
      : device_(device), squares_(squares ? 1 : 0) {}

  ExactLosses forward(const ExactArray& prediction, const ExactArray& target) const override {
    const ExactArray each = device_.empty(prediction.shape);
    const std::int64_t samples = prediction.shape[0];
    device_.run("element_loss", each.size(), {prediction, floats(target), squares_, each});
    const ExactArray means = device_.empty({samples});
    device_.run("sample_means", samples,
                {each, each, each.size() / std::max<std::int64_t>(samples, 1), 0, means});
    ExactLosses losses;
    losses.samples = floats_of(device_.download(means));
    return losses;
  }

  ExactArray backward(const ExactArray& prediction, const ExactArray& target,
                      float scale) const override {
    const std::int64_t samples = std::max<std::int64_t>(prediction.shape[0], 1);
    const float weight = scale / static_cast<float>(prediction.size() / samples);
    ExactArray answer = device_.empty(prediction.shape);
    device_.run("element_loss_back", answer.size(),
                {prediction, floats(target), squares_, weight, answer});
    return answer;
  }

 private:
  [[nodiscard]] ExactArray floats(const ExactArray& target) const {
    if (is_floating(target.dtype)) return target;
    const Tensor here = convert_tensor(device_.download(target), DType::kFloat32);
    ExactArray made = device_.empty(here.shape());
    device_.write(made, here);
    return made;
  }

  ExactDevice& device_;
  int squares_;
};

}  // namespace

PlacedLossPtr make_loss_on(ExactDevice& device, std::string_view name) {
  if (name == "cross_entropy" || name == "next_token") {
    return std::make_unique<DeviceCrossEntropy>(device, name == "next_token");
  }
  if (name != "mse" && name != "bce") return nullptr;
  return std::make_unique<DeviceElementLoss>(device, name == "mse");
}

}  // namespace harmonics::inline in_runtime
