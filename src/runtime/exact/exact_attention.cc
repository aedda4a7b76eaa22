#include <cmath>

#include "exact_linear.h"
#include "exact_operation.h"
#include "exact_threads.h"

namespace harmonics::inline in_runtime {
namespace {

/// Multi-head self-attention with joined parameters whose query is scaled, over {batch, length,
/// width}. Scores, mixtures and their gradients are chains; the softmax of a row runs over the keys
/// that its query may see.
class ExactAttention final : public ExactOperation {
 public:
  explicit ExactAttention(const LayerQuery& query)
      : heads_(query.integer("heads")),
        causal_(query.integer("causal") != 0),
        project_(query.integer("project") != 0) {}

  Tensor forward(const ExactCall& call, ExactKept& kept) const override {
    const Sizes sizes(call.inputs[0], heads_);
    Tensor all =
        linear_forward(call.kernels, call.inputs[0], call.parameters[0], call.parameters[1]);
    scale_queries(call.kernels, sizes, all);
    Tensor shares = Tensor::zeros({sizes.batch, heads_, sizes.length, sizes.length});
    Tensor mixed = Tensor::zeros(call.inputs[0].shape());
    in_exact_threads(sizes.batch * heads_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) mix(call.kernels, {sizes, all, shares, mixed}, i);
    });
    if (call.training) kept.tensors = {all, shares, mixed};
    if (!project_) return mixed;
    return linear_forward(call.kernels, mixed, call.parameters[2], call.parameters[3]);
  }

  std::vector<Tensor> backward(const ExactCall& call, const ExactKept& kept,
                               const Tensor& gradient) const override {
    const Sizes sizes(call.inputs[0], heads_);
    const Tensor &all = kept.tensors[0], &shares = kept.tensors[1], &mixed = kept.tensors[2];
    Tensor to_mixed = gradient;
    if (project_) {
      linear_gradients(call.kernels, mixed, gradient, call.gradients[2], call.gradients[3]);
      to_mixed = linear_back(call.kernels, gradient, call.parameters[2]);
    }
    Tensor to_all = Tensor::zeros(all.shape());
    in_exact_threads(sizes.batch * heads_, 1, [&](std::int64_t begin, std::int64_t end) {
      Tensor to_shares = Tensor::empty({sizes.length, sizes.length});
      for (std::int64_t i = begin; i < end; ++i) {
        unmix(call.kernels, {sizes, all, shares, to_mixed}, {to_all, to_shares}, i);
      }
    });
    scale_queries(call.kernels, sizes, to_all);
    linear_gradients(call.kernels, call.inputs[0], to_all, call.gradients[0], call.gradients[1]);
    if (!call.wanted[0]) return {Tensor()};
    return {linear_back(call.kernels, to_all, call.parameters[0])};
  }

 private:
  struct Sizes {
    std::int64_t batch, length, width, head;
    float scale;
    Sizes(const Tensor& x, std::int64_t heads)
        : batch(x.shape()[0]),
          length(x.shape()[1]),
          width(x.shape()[2]),
          head(width / heads),
          scale(static_cast<float>(1.0 / std::sqrt(static_cast<double>(head)))) {}
  };
  struct Operands {
    const Sizes& sizes;
    const Tensor& all;     // {batch, length, 3 * width}: query (scaled), key, value
    const Tensor& shares;  // {batch, heads, length, length}
    const Tensor& mixed;   // {batch, length, width}, or its gradient
  };
  struct Answers {
    const Tensor& all;
    const Tensor& shares;
  };

  static void scale_queries(const ExactKernels& kernels, const Sizes& s, const Tensor& all) {
    float* const x = own_numbers(all);
    in_exact_threads(s.batch * s.length, kExactGrain / s.width + 1,
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t r = begin; r < end; ++r) {
                         float* const row = x + r * 3 * s.width;
                         kernels.scale(s.width, row, s.scale, row);
                       }
                     });
  }

  [[nodiscard]] std::int64_t seen(const Sizes& s, std::int64_t query) const {
    return causal_ ? query + 1 : s.length;
  }

  // Where the head `index` of the batch begins in `all` and in `mixed`.
  [[nodiscard]] std::int64_t place(const Sizes& s, std::int64_t index, std::int64_t pitch) const {
    return index / heads_ * s.length * pitch + index % heads_ * s.head;
  }

  void mix(const ExactKernels& kernels, const Operands& o, std::int64_t index) const {
    const Sizes& s = o.sizes;
    const std::int64_t pitch = 3 * s.width, n = s.length;
    const float* const q = numbers_of(o.all) + place(s, index, pitch);
    float* const p = own_numbers(o.shares) + index * n * n;
    multiply_here(kernels, {n, n, s.head, q, pitch, 1, q + s.width, 1, pitch, p, n});
    for (std::int64_t i = 0; i < n; ++i) {
      kernels.softmax(seen(s, i), p + i * n, p + i * n);
      for (std::int64_t j = seen(s, i); j < n; ++j) p[i * n + j] = 0.0F;
    }
    multiply_here(kernels, {n, s.head, n, p, n, 1, q + 2 * s.width, pitch, 1,
                            own_numbers(o.mixed) + place(s, index, s.width), s.width});
  }

  void unmix(const ExactKernels& kernels, const Operands& o, const Answers& to,
             std::int64_t index) const {
    const Sizes& s = o.sizes;
    const std::int64_t pitch = 3 * s.width, n = s.length;
    const float* const q = numbers_of(o.all) + place(s, index, pitch);
    const float* const g = numbers_of(o.mixed) + place(s, index, s.width);
    const float* const p = numbers_of(o.shares) + index * n * n;
    float* const to_q = own_numbers(to.all) + place(s, index, pitch);
    float* const to_p = own_numbers(to.shares);
    for (std::int64_t i = 0; i < n * n; ++i) to_p[i] = 0.0F;
    multiply_here(kernels, {n, n, s.head, g, s.width, 1, q + 2 * s.width, 1, pitch, to_p, n});
    multiply_here(kernels, {n, s.head, n, p, 1, n, g, s.width, 1, to_q + 2 * s.width, pitch});
    for (std::int64_t i = 0; i < n; ++i) {
      kernels.softmax_back(seen(s, i), p + i * n, to_p + i * n, to_p + i * n);
      for (std::int64_t j = seen(s, i); j < n; ++j) to_p[i * n + j] = 0.0F;
    }
    multiply_here(kernels, {n, s.head, n, to_p, n, 1, q + s.width, pitch, 1, to_q, pitch});
    multiply_here(kernels, {n, s.head, n, to_p, 1, n, q, pitch, 1, to_q + s.width, pitch});
  }

  std::int64_t heads_;
  bool causal_;
  bool project_;
};

}  // namespace

ExactOperationPtr make_exact_attention(const LayerQuery& query) {
  const bool joined = query.integer_or("separate", 0) == 0;
  if (!joined || query.text_or("scale", "query") != "query") return nullptr;
  return std::make_unique<ExactAttention>(query);
}

}  // namespace harmonics::inline in_runtime
