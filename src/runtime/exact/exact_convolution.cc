#include <algorithm>

#include "exact_columns.h"
#include "exact_operation.h"
#include "exact_threads.h"
#include "exact_windows.h"

namespace harmonics::inline in_runtime {
namespace {

/// Columns are laid out for as many samples as fit into this.
constexpr std::int64_t kMaxExactColumns = std::int64_t{4} << 20;

/// Convolution as products over columns. Outputs are chains over channel, row and column of the
/// kernel, from the bias on; gradients of weights are chains over samples and places.
class ExactConv2d final : public ExactOperation {
 public:
  ExactConv2d(const LayerQuery& query, const Shape& output)
      : columns_(query, output),
        groups_(query.integer("groups")),
        out_(output),
        own_(output[0] / groups_),
        has_bias_(query.integer("bias") != 0) {}

  Tensor forward(const ExactCall& call, ExactKept&) const override {
    Tensor y = Tensor::empty({call.rows(), out_[0], out_[1], out_[2]});
    in_exact_threads(call.rows(), 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> buffer(buffer_size());
      for (std::int64_t n = begin; n < end; ++n) {
        for (std::int64_t g = 0; g < groups_; ++g) convolve(call, y, {n, g}, buffer.data());
      }
    });
    return y;
  }

  std::vector<Tensor> backward(const ExactCall& call, const ExactKept&,
                               const Tensor& gradient) const override {
    Tensor answer;
    if (call.wanted[0]) answer = Tensor::zeros(call.inputs[0].shape());
    const std::int64_t size = columns_.taps() * columns_.area();
    const std::int64_t fitting =
        std::clamp<std::int64_t>(kMaxExactColumns / std::max<std::int64_t>(size, 1), 1,
                                 std::max<std::int64_t>(call.rows(), 1));
    std::vector<float> columns(static_cast<std::size_t>(size * fitting));
    for (std::int64_t first = 0; first < call.rows(); first += fitting) {
      const std::int64_t end = std::min(first + fitting, call.rows());
      for (std::int64_t g = 0; g < groups_; ++g) {
        back_to_images(call, gradient, {answer, columns.data(), first, end, g});
        back_to_weights(call, gradient, {answer, columns.data(), first, end, g});
      }
    }
    if (has_bias_) back_to_bias(call, gradient);
    return {answer};
  }

 private:
  struct Place {
    std::int64_t sample, group;
  };
  struct Chunk {
    const Tensor& answer;
    float* columns;
    std::int64_t first, end, group;
  };

  [[nodiscard]] std::size_t buffer_size() const {
    return columns_.is_image() ? 0 : static_cast<std::size_t>(columns_.taps() * columns_.area());
  }
  [[nodiscard]] std::int64_t image_at(const Place& p) const {
    return (p.sample * groups_ + p.group) * columns_.channels * columns_.height * columns_.width;
  }
  [[nodiscard]] std::int64_t output_at(const Place& p) const {
    return (p.sample * groups_ + p.group) * own_ * columns_.area();
  }
  [[nodiscard]] const float* weights(const ExactCall& call, std::int64_t group) const {
    return numbers_of(call.parameters[0]) + group * own_ * columns_.taps();
  }

  void convolve(const ExactCall& call, const Tensor& y, const Place& p, float* buffer) const {
    const std::int64_t area = columns_.area(), taps = columns_.taps();
    const float* const image = numbers_of(call.inputs[0]) + image_at(p);
    if (!columns_.is_image()) columns_.spread(image, buffer);
    float* const to = own_numbers(y) + output_at(p);
    for (std::int64_t o = 0; o < own_; ++o) {
      const float start = has_bias_ ? numbers_of(call.parameters[1])[p.group * own_ + o] : 0.0F;
      std::fill(to + o * area, to + (o + 1) * area, start);
    }
    multiply_here(call.kernels, {own_, area, taps, weights(call, p.group), taps, 1,
                                 columns_.is_image() ? image : buffer, area, 1, to, area});
  }

  // Leaves the columns of the chunk's images for back_to_weights.
  void back_to_images(const ExactCall& call, const Tensor& gradient, const Chunk& chunk) const {
    const std::int64_t area = columns_.area(), taps = columns_.taps();
    in_exact_threads(chunk.end - chunk.first, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> buffer;
      for (std::int64_t i = begin; i < end; ++i) {
        const Place p{chunk.first + i, chunk.group};
        columns_.spread(numbers_of(call.inputs[0]) + image_at(p), chunk.columns + i * taps * area);
        if (!chunk.answer.defined()) continue;
        buffer.assign(static_cast<std::size_t>(taps * area), 0.0F);
        multiply_here(call.kernels,
                      {taps, area, own_, weights(call, p.group), 1, taps,
                       numbers_of(gradient) + output_at(p), area, 1, buffer.data(), area});
        columns_.gather(buffer.data(), own_numbers(chunk.answer) + image_at(p));
      }
    });
  }

  // Threads split the taps; each goes through all samples in order.
  void back_to_weights(const ExactCall& call, const Tensor& gradient, const Chunk& chunk) const {
    const std::int64_t area = columns_.area(), taps = columns_.taps();
    float* const to = own_numbers(call.gradients[0]) + chunk.group * own_ * taps;
    const std::int64_t work = own_ * area * (chunk.end - chunk.first);
    constexpr std::int64_t kStep = 32;
    in_exact_threads(
        (taps + kStep - 1) / kStep, (std::int64_t{1} << 18) / (work * kStep + 1) + 1,
        [&](std::int64_t begin, std::int64_t end) {
          const std::int64_t first = begin * kStep;
          const std::int64_t count = std::min(end * kStep, taps) - first;
          for (std::int64_t n = chunk.first; n < chunk.end; ++n) {
            const float* const columns = chunk.columns + ((n - chunk.first) * taps + first) * area;
            multiply_here(call.kernels,
                          {own_, count, area, numbers_of(gradient) + output_at({n, chunk.group}),
                           area, 1, columns, 1, area, to + first, taps});
          }
        });
  }

  // The sum of each plane, sample by sample.
  void back_to_bias(const ExactCall& call, const Tensor& gradient) const {
    const std::int64_t area = columns_.area();
    float* const to = own_numbers(call.gradients[1]);
    in_exact_threads(out_[0], kExactGrain / (call.rows() * area + 1) + 1,
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t o = begin; o < end; ++o) {
                         const float* g = numbers_of(gradient) + o * area;
                         for (std::int64_t n = 0; n < call.rows(); ++n, g += out_[0] * area) {
                           to[o] = to[o] + call.kernels.sum(area, g);
                         }
                       }
                     });
  }

  ExactColumns columns_;
  std::int64_t groups_;
  Shape out_;
  std::int64_t own_;
  bool has_bias_;
};

}  // namespace

ExactOperationPtr make_exact_convolution(const LayerQuery& query, const Shape& output) {
  return std::make_unique<ExactConv2d>(query, output);
}

}  // namespace harmonics::inline in_runtime
