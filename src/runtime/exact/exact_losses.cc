#include <algorithm>
#include <cmath>

#include <harmonics/runtime/devices.h>

#include "exact_operation.h"

namespace harmonics::inline in_runtime {
namespace {

// The elements of a sample in order, from 0, divided by their number.
float mean_of(std::span<const float> values) {
  float sum = 0;
  for (const float value : values) sum = sum + value;
  return sum / static_cast<float>(values.size());
}

std::int64_t best_of(const float* row, std::int64_t width) {
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < width; ++i) best = row[i] > row[best] ? i : best;
  return best;
}

std::vector<float> means_of_samples(const std::vector<float>& each, std::int64_t samples) {
  std::vector<float> means;
  const std::size_t width = samples == 0 ? 0 : each.size() / static_cast<std::size_t>(samples);
  for (std::size_t i = 0; width > 0 && i < each.size(); i += width) {
    means.push_back(mean_of(std::span(each).subspan(i, width)));
  }
  return means;
}

/// Target: class ids, or a share for each class. The classes are the last axis.
class ExactCrossEntropy final : public ExactLoss {
 public:
  ExactLosses forward(const ExactKernels& kernels, const Tensor& prediction,
                      const Tensor& target) const override {
    const std::int64_t classes = prediction.shape().back(), rows = prediction.size() / classes;
    const Goal goal(target);
    std::vector<float> each(static_cast<std::size_t>(rows)), shares(classes);
    ExactLosses losses;
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* const x = numbers_of(prediction) + r * classes;
      const float all = kernels.log_sum_exp(classes, x, shares.data());
      each[static_cast<std::size_t>(r)] = goal.loss(x, all, r, classes);
      losses.correct += best_of(x, classes) == goal.right(r, classes) ? 1 : 0;
    }
    losses.judged = rows;
    losses.samples = means_of_samples(each, prediction.shape()[0]);
    return losses;
  }

  Tensor backward(const ExactKernels& kernels, const Tensor& prediction, const Tensor& target,
                  float scale) const override {
    const std::int64_t classes = prediction.shape().back(), rows = prediction.size() / classes;
    const std::int64_t samples = std::max<std::int64_t>(prediction.shape()[0], 1);
    const float weight = scale / static_cast<float>(rows / samples);
    const Goal goal(target);
    Tensor answer = Tensor::empty(prediction.shape());
    for (std::int64_t r = 0; r < rows; ++r) {
      float* const to = own_numbers(answer) + r * classes;
      kernels.softmax(classes, numbers_of(prediction) + r * classes, to);
      goal.pull(to, r, classes);
      kernels.scale(classes, to, weight, to);
    }
    return answer;
  }

 private:
  struct Goal {
    explicit Goal(const Tensor& target)
        : ids(is_floating(target.dtype()) ? Tensor() : convert_tensor(target, DType::kInt64)),
          wanted(is_floating(target.dtype()) ? convert_tensor(target, DType::kFloat32) : Tensor()) {
    }

    [[nodiscard]] std::int64_t right(std::int64_t row, std::int64_t classes) const {
      if (!ids.defined()) return best_of(numbers_of(wanted) + row * classes, classes);
      return ids.values<std::int64_t>()[static_cast<std::size_t>(row)];
    }
    // An id below 0 stands for none.
    [[nodiscard]] float loss(const float* x, float all, std::int64_t row,
                             std::int64_t classes) const {
      if (ids.defined()) {
        const std::int64_t id = right(row, classes);
        return id < 0 ? 0.0F : all - x[id];
      }
      float sum = 0;
      for (std::int64_t i = 0; i < classes; ++i) {
        sum = std::fma(numbers_of(wanted)[row * classes + i], all - x[i], sum);
      }
      return sum;
    }
    // From the softmax to the gradient of the loss.
    void pull(float* shares, std::int64_t row, std::int64_t classes) const {
      if (ids.defined()) {
        const std::int64_t id = right(row, classes);
        if (id < 0) std::fill(shares, shares + classes, 0.0F);
        if (id >= 0) shares[id] = shares[id] - 1.0F;
        return;
      }
      const float* const own = numbers_of(wanted) + row * classes;
      float sum = 0;
      for (std::int64_t i = 0; i < classes; ++i) sum = sum + own[i];
      for (std::int64_t i = 0; i < classes; ++i) shares[i] = std::fma(shares[i], sum, -own[i]);
    }

    Tensor ids, wanted;
  };
};

/// Cross entropy of each row against the id of the row after it; the mean over the ids of a sample
/// that are not below 0.
class ExactNextToken final : public ExactLoss {
 public:
  ExactLosses forward(const ExactKernels& kernels, const Tensor& prediction,
                      const Tensor& target) const override {
    const Ids ids(prediction, target);
    std::vector<float> shares(static_cast<std::size_t>(ids.classes));
    ExactLosses losses;
    for (std::int64_t n = 0; n < ids.samples; ++n) {
      float sum = 0;
      for (std::int64_t i = 0; i + 1 < ids.length; ++i) {
        const float* const x = numbers_of(prediction) + (n * ids.length + i) * ids.classes;
        const std::int64_t id = ids.after(n, i);
        if (id >= 0) sum = sum + (kernels.log_sum_exp(ids.classes, x, shares.data()) - x[id]);
      }
      losses.samples.push_back(sum / static_cast<float>(ids.kept(n)));
    }
    return losses;
  }

  Tensor backward(const ExactKernels& kernels, const Tensor& prediction, const Tensor& target,
                  float scale) const override {
    const Ids ids(prediction, target);
    Tensor answer = Tensor::zeros(prediction.shape());
    for (std::int64_t n = 0; n < ids.samples; ++n) {
      const float weight = scale / static_cast<float>(ids.kept(n));
      for (std::int64_t i = 0; i + 1 < ids.length; ++i) {
        const std::int64_t at = (n * ids.length + i) * ids.classes, id = ids.after(n, i);
        if (id < 0) continue;
        float* const to = own_numbers(answer) + at;
        kernels.softmax(ids.classes, numbers_of(prediction) + at, to);
        to[id] = to[id] - 1.0F;
        kernels.scale(ids.classes, to, weight, to);
      }
    }
    return answer;
  }

 private:
  struct Ids {
    Ids(const Tensor& prediction, const Tensor& target)
        : samples(prediction.shape()[0]),
          length(prediction.shape()[1]),
          classes(prediction.shape().back()),
          all(convert_tensor(target, DType::kInt64)) {}
    [[nodiscard]] std::int64_t after(std::int64_t sample, std::int64_t row) const {
      return all.values<std::int64_t>()[static_cast<std::size_t>(sample * length + row + 1)];
    }
    [[nodiscard]] std::int64_t kept(std::int64_t sample) const {
      std::int64_t count = 0;
      for (std::int64_t i = 0; i + 1 < length; ++i) count += after(sample, i) >= 0 ? 1 : 0;
      return std::max<std::int64_t>(count, 1);
    }
    std::int64_t samples, length, classes;
    Tensor all;
  };
};

/// The mean over a sample's elements of a square, or of the cross entropy of two chances.
class ExactElementLoss final : public ExactLoss {
 public:
  explicit ExactElementLoss(bool squares) : squares_(squares) {}

  ExactLosses forward(const ExactKernels& kernels, const Tensor& prediction,
                      const Tensor& target) const override {
    const Tensor wanted = convert_tensor(target, DType::kFloat32);
    const auto count = static_cast<std::size_t>(prediction.size());
    const float *const x = numbers_of(prediction), *const t = numbers_of(wanted);
    std::vector<float> each(count), logs(count), rests(count);
    if (!squares_) {
      for (std::size_t i = 0; i < count; ++i) rests[i] = 1.0F - x[i];
      kernels.map(ExactFunction::kLog, prediction.size(), x, logs.data());
      kernels.map(ExactFunction::kLog, prediction.size(), rests.data(), rests.data());
    }
    for (std::size_t i = 0; i < count; ++i) {
      const float off = x[i] - t[i];
      each[i] = squares_ ? off * off
                         : -std::fma(t[i], std::max(logs[i], -100.0F),
                                     (1.0F - t[i]) * std::max(rests[i], -100.0F));
    }
    ExactLosses losses;
    losses.samples = means_of_samples(each, prediction.shape()[0]);
    return losses;
  }

  Tensor backward(const ExactKernels&, const Tensor& prediction, const Tensor& target,
                  float scale) const override {
    const Tensor wanted = convert_tensor(target, DType::kFloat32);
    const float *const x = numbers_of(prediction), *const t = numbers_of(wanted);
    const std::int64_t samples = std::max<std::int64_t>(prediction.shape()[0], 1);
    const float weight = scale / static_cast<float>(prediction.size() / samples);
    Tensor answer = Tensor::empty(prediction.shape());
    float* const to = own_numbers(answer);
    for (std::int64_t i = 0; i < answer.size(); ++i) {
      const float off = x[i] - t[i];
      const float slope = squares_ ? 2.0F * off : off / std::max((1.0F - x[i]) * x[i], 1e-12F);
      to[i] = weight * slope;
    }
    return answer;
  }

 private:
  bool squares_;
};

}  // namespace

ExactLossPtr make_exact_loss(std::string_view name) {
  if (name == "cross_entropy") return std::make_unique<ExactCrossEntropy>();
  if (name == "next_token") return std::make_unique<ExactNextToken>();
  if (name == "mse" || name == "bce") return std::make_unique<ExactElementLoss>(name == "mse");
  return nullptr;
}

}  // namespace harmonics::inline in_runtime
