#include <algorithm>
#include <cstring>
#include <string>

#include <harmonics/base/random.h>

#include "exact_linear.h"
#include "exact_operation.h"
#include "exact_threads.h"

namespace harmonics::inline in_runtime {
namespace {

class ExactLinear final : public ExactOperation {
 public:
  explicit ExactLinear(bool has_bias) : has_bias_(has_bias) {}

  Tensor forward(const ExactCall& call, ExactKept&) const override {
    return linear_forward(call.kernels, call.inputs[0], call.parameters[0],
                          has_bias_ ? call.parameters[1] : Tensor());
  }

  std::vector<Tensor> backward(const ExactCall& call, const ExactKept&,
                               const Tensor& gradient) const override {
    linear_gradients(call.kernels, call.inputs[0], gradient, call.gradients[0],
                     has_bias_ ? call.gradients[1] : Tensor());
    if (!call.wanted[0]) return {Tensor()};
    return {linear_back(call.kernels, gradient, call.parameters[0])};
  }

 private:
  bool has_bias_;
};

/// The same bytes under another shape.
class ExactReshape final : public ExactOperation {
 public:
  explicit ExactReshape(Shape output) : output_(std::move(output)) {}

  Tensor forward(const ExactCall& call, ExactKept&) const override {
    Shape shape = output_;
    shape.insert(shape.begin(), call.rows());
    return call.inputs[0].reshaped(std::move(shape));
  }
  std::vector<Tensor> backward(const ExactCall& call, const ExactKept&,
                               const Tensor& gradient) const override {
    return {gradient.reshaped(call.inputs[0].shape())};
  }

 private:
  Shape output_;
};

/// Sums or products of tensors of one shape, from the first input to the last.
class ExactFold final : public ExactOperation {
 public:
  explicit ExactFold(bool sums) : sums_(sums) {}

  Tensor forward(const ExactCall& call, ExactKept&) const override {
    Tensor y = fold(call.kernels, call.inputs[0], call.inputs[1]);
    for (std::size_t i = 2; i < call.inputs.size(); ++i) y = fold(call.kernels, y, call.inputs[i]);
    return y;
  }

  // Of a product: the gradient times the others, in order.
  std::vector<Tensor> backward(const ExactCall& call, const ExactKept&,
                               const Tensor& gradient) const override {
    std::vector<Tensor> all(call.inputs.size());
    for (std::size_t own = 0; own < all.size(); ++own) {
      if (!call.wanted[own]) continue;
      all[own] = gradient;
      for (std::size_t other = 0; !sums_ && other < all.size(); ++other) {
        if (other != own) all[own] = fold(call.kernels, all[own], call.inputs[other]);
      }
    }
    return all;
  }

 private:
  [[nodiscard]] Tensor fold(const ExactKernels& kernels, const Tensor& a, const Tensor& b) const {
    Tensor y = Tensor::empty(a.shape());
    const auto function = sums_ ? kernels.add : kernels.times;
    const float *const one = numbers_of(a), *const other = numbers_of(b);
    float* const to = own_numbers(y);
    in_exact_threads(y.size(), kExactGrain, [&](std::int64_t begin, std::int64_t end) {
      function(end - begin, one + begin, other + begin, to + begin);
    });
    return y;
  }

  bool sums_;
};

/// Blocks of `width` numbers from one pitch to another.
struct BlockCopy {
  const float* from;
  std::int64_t from_pitch;
  float* to;
  std::int64_t to_pitch, width, count;
};

void copy_blocks(const BlockCopy& copy) {
  for (std::int64_t i = 0; i < copy.count; ++i) {
    std::memcpy(copy.to + i * copy.to_pitch, copy.from + i * copy.from_pitch,
                static_cast<std::size_t>(copy.width) * sizeof(float));
  }
}

class ExactConcat final : public ExactOperation {
 public:
  explicit ExactConcat(std::size_t axis) : axis_(axis) {}

  Tensor forward(const ExactCall& call, ExactKept&) const override {
    Shape shape = call.inputs[0].shape();
    shape[axis_] = 0;
    for (const Tensor& input : call.inputs) shape[axis_] += input.shape()[axis_];
    Tensor y = Tensor::empty(shape);
    const std::int64_t pitch = extent_from(shape, axis_);
    std::int64_t offset = 0;
    for (const Tensor& input : call.inputs) {
      const std::int64_t width = extent_from(input.shape(), axis_);
      copy_blocks({numbers_of(input), width, own_numbers(y) + offset, pitch, width,
                   width == 0 ? 0 : input.size() / width});
      offset += width;
    }
    return y;
  }

  std::vector<Tensor> backward(const ExactCall& call, const ExactKept&,
                               const Tensor& gradient) const override {
    std::vector<Tensor> all;
    const std::int64_t pitch = extent_from(gradient.shape(), axis_);
    std::int64_t offset = 0;
    for (const Tensor& input : call.inputs) {
      const std::int64_t width = extent_from(input.shape(), axis_);
      const Tensor& own = all.emplace_back(Tensor::empty(input.shape()));
      copy_blocks({numbers_of(gradient) + offset, pitch, own_numbers(own), width, width,
                   width == 0 ? 0 : input.size() / width});
      offset += width;
    }
    return all;
  }

 private:
  std::size_t axis_;
};

class ExactDropout final : public ExactOperation {
 public:
  explicit ExactDropout(double p) : p_(p) {}

  Tensor forward(const ExactCall& call, ExactKept&) const override {
    return call.training && p_ > 0 ? masked(call, call.inputs[0]) : call.inputs[0];
  }
  // The mask is drawn again rather than kept.
  std::vector<Tensor> backward(const ExactCall& call, const ExactKept&,
                               const Tensor& gradient) const override {
    return {p_ > 0 ? masked(call, gradient) : gradient};
  }

 private:
  Tensor masked(const ExactCall& call, const Tensor& x) const {
    Tensor y = Tensor::empty(x.shape());
    const std::int64_t rows = call.rows(), width = rows == 0 ? 0 : x.size() / rows;
    const auto threshold = static_cast<std::uint32_t>(p_ * 4294967296.0);
    const auto keep = static_cast<float>(1.0 / (1.0 - p_));
    const float* const from = numbers_of(x);
    float* const to = own_numbers(y);
    in_exact_threads(
        rows, kExactGrain / (width + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
          std::vector<std::uint32_t> drawn(static_cast<std::size_t>(width));
          for (std::int64_t row = begin; row < end; ++row) {
            fill_random(call.key, static_cast<std::uint32_t>(call.first_sample + row), call.step,
                        drawn);
            for (std::int64_t i = 0; i < width; ++i) {
              const float factor = drawn[static_cast<std::size_t>(i)] < threshold ? 0.0F : keep;
              to[row * width + i] = from[row * width + i] * factor;
            }
          }
        });
    return y;
  }

  double p_;
};

bool is_plain(const LayerQuery& query, const TensorSpec& output) {
  const auto alike = [&](const TensorSpec& spec) { return spec == output; };
  return !query.has("constant") && query.inputs.size() >= 2 &&
         std::ranges::all_of(query.inputs, alike);
}

}  // namespace

ExactOperationPtr make_exact_layer(const LayerQuery& query, const TensorSpec& output) {
  const std::string_view type = query.type;
  if (type == "flatten" || type == "reshape" || type == "identity") {
    return std::make_unique<ExactReshape>(output.shape);
  }
  if (output.dtype != DType::kFloat32) return nullptr;
  if (type == "embedding") return make_exact_token_layer(query);
  const auto is_float = [](const TensorSpec& spec) { return spec.dtype == DType::kFloat32; };
  if (!std::ranges::all_of(query.inputs, is_float)) return nullptr;
  if (type == "linear") return std::make_unique<ExactLinear>(query.integer("bias") != 0);
  if (type == "add" && is_plain(query, output)) return std::make_unique<ExactFold>(true);
  if (type == "mul" && is_plain(query, output)) return std::make_unique<ExactFold>(false);
  if (type == "concat") {
    return std::make_unique<ExactConcat>(static_cast<std::size_t>(query.integer("axis") + 1));
  }
  if (type == "dropout") return std::make_unique<ExactDropout>(query.number("p"));
  if (type == "attention") return make_exact_attention(query);
  if (ExactOperationPtr norm = make_exact_norm(query)) return norm;
  if (ExactOperationPtr tokens = make_exact_token_layer(query)) return tokens;
  return make_exact_window(query, output);
}

std::vector<std::string> exact_layer_names() {
  return {"adaptive_avg_pool",
          "adaptive_max_pool",
          "add",
          "attention",
          "avg_pool",
          "batch_norm",
          "class_token",
          "concat",
          "conv2d",
          "dropout",
          "embedding",
          "flatten",
          "identity",
          "layer_norm",
          "linear",
          "max_pool",
          "mean",
          "mul",
          "position",
          "reshape",
          "rms_norm",
          "select",
          "tokens"};
}

}  // namespace harmonics::inline in_runtime
