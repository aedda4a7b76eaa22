#include "opencl_operation.h"

namespace harmonics::inline in_runtime {
namespace {

/// Target: class ids, or a share for each class. The classes are the last axis.
class CrossEntropy final : public DeviceLoss {
 public:
  explicit CrossEntropy(bool ids) : ids_(ids) {}

  DeviceLosses forward(OpenClQueue& queue, const DeviceTensor& prediction,
                       const DeviceTensor& target) const override {
    const std::int64_t classes = prediction.shape.back(), samples = prediction.shape[0];
    const std::int64_t rows = prediction.size() / classes;
    const DeviceTensor each = queue.empty({rows});
    DeviceLosses losses{queue.empty({samples}), queue.empty({rows}, DType::kInt32), nullptr};
    queue.run(ids_ ? "cross_entropy_ids" : "cross_entropy_shares", rows,
              {prediction, target, each, losses.right, classes});
    queue.run("mean_rows", samples, {each, losses.samples, samples == 0 ? 0 : rows / samples});
    return losses;
  }

  DeviceTensor backward(OpenClQueue& queue, const DeviceTensor& prediction,
                        const DeviceTensor& target, const DeviceLosses&,
                        float scale) const override {
    const std::int64_t classes = prediction.shape.back();
    const std::int64_t rows = prediction.size() / classes;
    const auto rows_per_sample = static_cast<float>(rows / prediction.shape[0]);
    DeviceTensor gradient = queue.empty(prediction.shape);
    queue.run(ids_ ? "cross_entropy_ids_back" : "cross_entropy_shares_back", rows,
              {prediction, target, gradient, classes, scale / rows_per_sample});
    return gradient;
  }

 private:
  bool ids_;
};

/// The mean over a sample's elements of something that looks at each alone.
class ElementLoss final : public DeviceLoss {
 public:
  explicit ElementLoss(std::string kernel) : kernel_(std::move(kernel)) {}

  DeviceLosses forward(OpenClQueue& queue, const DeviceTensor& prediction,
                       const DeviceTensor& target) const override {
    const std::int64_t samples = prediction.shape[0];
    DeviceLosses losses{queue.empty({samples}), {}, nullptr};
    queue.run(kernel_.c_str(), samples,
              {prediction, target, losses.samples, samples == 0 ? 0 : prediction.size() / samples});
    return losses;
  }

  DeviceTensor backward(OpenClQueue& queue, const DeviceTensor& prediction,
                        const DeviceTensor& target, const DeviceLosses&,
                        float scale) const override {
    const auto width = static_cast<float>(prediction.size() / prediction.shape[0]);
    DeviceTensor gradient = queue.empty(prediction.shape);
    queue.run((kernel_ + "_back").c_str(), gradient.size(),
              {prediction, target, gradient, scale / width});
    return gradient;
  }

 private:
  std::string kernel_;
};

}  // namespace

DeviceLossPtr make_device_loss(std::string_view name, const TensorSpec& prediction,
                               const TensorSpec& target) {
  if (prediction.dtype != DType::kFloat32) return nullptr;
  const bool ids = !is_floating(target.dtype);
  if (!ids && target.dtype != DType::kFloat32) return nullptr;
  if (name == "cross_entropy") return std::make_unique<CrossEntropy>(ids);
  if (ids || (name != "mse" && name != "bce")) return nullptr;
  return std::make_unique<ElementLoss>(std::string(name));
}

}  // namespace harmonics::inline in_runtime
