#include <algorithm>
#include <cmath>

#include <harmonics/base/error.h>

#include "exact_operation.h"
#include "exact_threads.h"

namespace harmonics::inline in_runtime {
namespace {

/// Over the last axis, row by row: layer_norm and rms_norm.
class ExactRowNorm final : public ExactOperation {
 public:
  ExactRowNorm(double epsilon, bool centred)
      : epsilon_(static_cast<float>(epsilon)), centred_(centred) {}

  Tensor forward(const ExactCall& call, ExactKept& kept) const override {
    const std::int64_t width = call.parameters[0].size(), rows = call.inputs[0].size() / width;
    Tensor y = call.like_input(), means = Tensor::empty({rows}), scales = Tensor::empty({rows});
    const auto function = centred_ ? call.kernels.layer_norm : call.kernels.rms_norm;
    const float* const x = numbers_of(call.inputs[0]);
    const float* const bias = centred_ ? numbers_of(call.parameters[1]) : nullptr;
    in_exact_threads(rows, kExactGrain / width + 1, [&](std::int64_t begin, std::int64_t end) {
      function({end - begin, width, x + begin * width, numbers_of(call.parameters[0]), bias,
                own_numbers(y) + begin * width, own_numbers(means) + begin,
                own_numbers(scales) + begin, epsilon_});
    });
    if (call.training) kept.tensors = {means, scales};
    return y;
  }

  std::vector<Tensor> backward(const ExactCall& call, const ExactKept& kept,
                               const Tensor& gradient) const override {
    const std::int64_t width = call.parameters[0].size(), rows = call.inputs[0].size() / width;
    const float *const x = numbers_of(call.inputs[0]), *const g = numbers_of(gradient);
    const float *const means = numbers_of(kept.tensors[0]), *const scales =
                                                                numbers_of(kept.tensors[1]);
    float* const to_bias = centred_ ? own_numbers(call.gradients[1]) : nullptr;
    in_exact_threads((width + 15) / 16, kExactGrain / (16 * rows + 1) + 1,
                     [&](std::int64_t begin, std::int64_t end) {
                       call.kernels.layer_norm_columns(
                           {rows, width, begin * 16, std::min(end * 16, width), x, means, scales, g,
                            own_numbers(call.gradients[0]), to_bias});
                     });
    if (!call.wanted[0]) return {Tensor()};
    Tensor answer = call.like_input();
    const auto function = centred_ ? call.kernels.layer_norm_back : call.kernels.rms_norm_back;
    in_exact_threads(rows, kExactGrain / width + 1, [&](std::int64_t begin, std::int64_t end) {
      function({end - begin, width, x + begin * width, numbers_of(call.parameters[0]),
                means + begin, scales + begin, g + begin * width,
                own_numbers(answer) + begin * width});
    });
    return {answer};
  }

 private:
  float epsilon_;
  bool centred_;
};

/// Channel by channel: the sums over a channel's planes are added sample by sample.
class ExactBatchNorm final : public ExactOperation {
 public:
  ExactBatchNorm(double epsilon, double momentum)
      : epsilon_(static_cast<float>(epsilon)), momentum_(static_cast<float>(momentum)) {}

  Tensor forward(const ExactCall& call, ExactKept& kept) const override {
    const Planes planes(call.inputs[0]);
    if (call.training && planes.count() == 1) {
      fail(ErrorCode::kInvalidArgument,
           "batch norm learns from more than one value per channel, and a micro-batch brought one: "
           "take larger micro-batches");
    }
    Tensor y = call.like_input();
    Tensor means = Tensor::empty({planes.channels}), scales = Tensor::empty({planes.channels});
    const float* const x = numbers_of(call.inputs[0]);
    in_exact_threads(planes.channels, planes.grain(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        float* const mean = own_numbers(means) + c;
        float* const scale = own_numbers(scales) + c;
        if (call.training) {
          statistics(call, planes, c, mean, scale);
        } else {
          *mean = numbers_of(call.parameters[2])[c];
          *scale = 1.0F / std::sqrt(numbers_of(call.parameters[3])[c] + epsilon_);
        }
        const float four[] = {*mean, *scale, numbers_of(call.parameters[0])[c],
                              numbers_of(call.parameters[1])[c]};
        for (std::int64_t n = 0; n < planes.samples; ++n) {
          const std::int64_t at = planes.at(n, c);
          call.kernels.normalize(planes.area, x + at, four, own_numbers(y) + at);
        }
      }
    });
    if (call.training) kept.tensors = {means, scales};
    return y;
  }

  std::vector<Tensor> backward(const ExactCall& call, const ExactKept& kept,
                               const Tensor& gradient) const override {
    const Planes planes(call.inputs[0]);
    Tensor answer;
    if (call.wanted[0]) answer = call.like_input();
    in_exact_threads(planes.channels, planes.grain(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) back(call, kept, planes, {c, gradient, answer});
    });
    return {answer};
  }

 private:
  struct Planes {
    std::int64_t samples, channels, area;
    explicit Planes(const Tensor& x)
        : samples(x.shape()[0]), channels(x.shape()[1]), area(extent_from(x.shape(), 2)) {}
    [[nodiscard]] std::int64_t at(std::int64_t n, std::int64_t c) const {
      return (n * channels + c) * area;
    }
    [[nodiscard]] std::int64_t grain() const { return kExactGrain / (samples * area + 1) + 1; }
    [[nodiscard]] std::int64_t count() const { return samples * area; }
  };
  struct Channel {
    std::int64_t index;
    const Tensor& gradient;
    const Tensor& answer;
  };

  void statistics(const ExactCall& call, const Planes& planes, std::int64_t c, float* mean,
                  float* scale) const {
    const float* const x = numbers_of(call.inputs[0]);
    const auto count = static_cast<float>(planes.count());
    float sum = 0, squares = 0;
    for (std::int64_t n = 0; n < planes.samples; ++n) {
      sum = sum + call.kernels.sum(planes.area, x + planes.at(n, c));
    }
    *mean = sum / count;
    for (std::int64_t n = 0; n < planes.samples; ++n) {
      squares = squares + call.kernels.squares(planes.area, x + planes.at(n, c), *mean);
    }
    *scale = 1.0F / std::sqrt(squares / count + epsilon_);
    float* const running_mean = own_numbers(call.parameters[2]) + c;
    float* const running_square = own_numbers(call.parameters[3]) + c;
    const auto unbiased = static_cast<float>(planes.count() - 1);
    *running_mean = std::fma(momentum_, *mean - *running_mean, *running_mean);
    *running_square = std::fma(momentum_, squares / unbiased - *running_square, *running_square);
  }

  static void back(const ExactCall& call, const ExactKept& kept, const Planes& planes,
                   const Channel& channel) {
    const std::int64_t c = channel.index;
    const float *const x = numbers_of(call.inputs[0]), *const g = numbers_of(channel.gradient);
    const auto count = static_cast<float>(planes.count());
    const float two[] = {numbers_of(kept.tensors[0])[c], numbers_of(kept.tensors[1])[c]};
    float sum = 0, products = 0;
    for (std::int64_t n = 0; n < planes.samples; ++n) {
      const std::int64_t at = planes.at(n, c);
      sum = sum + call.kernels.sum(planes.area, g + at);
      products = products + call.kernels.dot(planes.area, g + at, x + at, two);
    }
    float* const to_weight = own_numbers(call.gradients[0]) + c;
    float* const to_bias = own_numbers(call.gradients[1]) + c;
    *to_weight = *to_weight + products;
    *to_bias = *to_bias + sum;
    if (!channel.answer.defined()) return;
    const float five[] = {two[0], two[1], sum / count, products / count,
                          numbers_of(call.parameters[0])[c] * two[1]};
    for (std::int64_t n = 0; n < planes.samples; ++n) {
      const std::int64_t at = planes.at(n, c);
      call.kernels.normalize_back(planes.area, x + at, g + at, five,
                                  own_numbers(channel.answer) + at);
    }
  }

  float epsilon_;
  float momentum_;
};

}  // namespace

ExactOperationPtr make_exact_norm(const LayerQuery& query) {
  if (query.type == "layer_norm") {
    return std::make_unique<ExactRowNorm>(query.number("eps"), true);
  }
  if (query.type == "rms_norm") return std::make_unique<ExactRowNorm>(query.number("eps"), false);
  if (query.type != "batch_norm") return nullptr;
  return std::make_unique<ExactBatchNorm>(query.number("eps"), query.number("momentum"));
}

}  // namespace harmonics::inline in_runtime
