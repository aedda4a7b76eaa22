#include <ATen/ATen.h>
#include <torch/version.h>  // without it every libtorch looks like the first

#include <cmath>
#include <limits>

#include "kernel_casts.h"
#include "kernels.h"
#include "rotary.h"

namespace harmonics::inline in_runtime {
namespace {

// Of {batch, length, 3, heads, head_dim}, each {batch, heads, length, head_dim}. Their gradients
// come back into one tensor in one go; those of three slices would be added up over zeros.
std::vector<at::Tensor> parts_of(const at::Tensor& joined) {
  std::vector<at::Tensor> parts = joined.unbind(2);
  for (at::Tensor& part : parts) part = part.transpose(1, 2);
  return parts;
}

// The first form: joined parameters, the query scaled, no mask but the causal one. Multi-head
// self-attention over {batch, length, width}; heads are contiguous slices of the width.
LayerForward make_plain_attention(const LayerQuery& q) {
  const std::int64_t heads = q.integer("heads");
  const bool causal = q.integer("causal") != 0;
  const bool project = q.integer("project") != 0;
  return [heads, causal, project](const LayerCall& call) {
    const at::Tensor x = as(call.inputs[0], call.compute);
    const std::int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
    const at::Tensor all =
        linear_of(call, x, 0, 1).reshape({batch, length, 3, heads, width / heads});
    const auto joined = [&](const at::Tensor& mixed) {
      const at::Tensor rows = mixed.transpose(1, 2).reshape({batch, length, width});
      return project ? linear_of(call, rows, 2, 3) : rows;
    };
#if TORCH_VERSION_MAJOR >= 2
    // One fused kernel on a GPU; its softmax runs in float32.
    if (x.is_cuda()) {
      const std::vector<at::Tensor> parts = parts_of(all);
      return joined(
          at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, causal));
    }
#endif
    const at::Tensor qkv = all.permute({2, 0, 3, 1, 4});
    const at::Tensor query = qkv[0], key = qkv[1], value = qkv[2];
    const double scale = 1.0 / std::sqrt(static_cast<double>(width / heads));
    at::Tensor scores = at::matmul(query * scale, key.transpose(-2, -1));
    if (causal) {
      const at::Tensor future =
          at::ones({length, length}, x.options().dtype(at::kBool)).triu(/*diagonal=*/1);
      scores = scores.masked_fill(future, -INFINITY);
    }
    const at::ScalarType exact = call.parameters[0].scalar_type();
    const at::Tensor weights = as(at::softmax(as(scores, exact), -1), call.compute);
    return joined(at::matmul(weights, value));
  };
}

/// Attention whose scores are scaled: with separate parameters, groups, masks, rotary positions.
///
/// The order of operations is promised, since it is that of Hugging Face's eager code (BERT, ViT,
/// Llama, Mistral, Qwen2; GPT-2 with joined parameters) and gives its bits on the CPU: projections,
/// turns, keys and values repeated for their group, q·kᵀ divided by sqrt(head_dim), plus 0 or the
/// dtype's lowest number, softmax in the parameters' precision, ·v, output projection.
class ScaledScores {
 public:
  explicit ScaledScores(const LayerQuery& q)
      : heads_(q.integer("heads")),
        window_(q.integer_or("window", 0)),
        causal_(q.integer("causal") != 0),
        project_(q.integer("project") != 0),
        separate_(q.integer_or("separate", 0) != 0),
        bias_(q.integer_or("bias", 1) != 0),
        frequencies_(rotary_frequencies(q)) {}

  at::Tensor operator()(const LayerCall& call) const {
    Operands operands = separate_ ? separate_operands(call) : joined_operands(call);
    if (frequencies_.defined()) {
      const RotaryTurns turns = rotary_turns(frequencies_, operands.query.size(2), operands.query);
      operands.query = rotated(operands.query, turns);
      operands.key = rotated(operands.key, turns);
    }
    operands.key = repeated(operands.key);
    operands.value = repeated(operands.value);
    const at::Tensor rows = mix(call, operands).transpose(1, 2).flatten(2);
    if (!project_) return rows;
    return linear_of(call, rows, operands.used, operands.used + 1);
  }

 private:
  /// {batch, heads, length, head_dim} each; `used` parameters made them.
  struct Operands {
    at::Tensor query, key, value;
    std::size_t used = 0;
  };

  Operands separate_operands(const LayerCall& call) const {
    const at::Tensor x = as(call.inputs[0], call.compute);
    const std::int64_t head_dim = call.parameters[0].size(0) / heads_;
    std::size_t used = 0;
    const auto next = [&] {
      const std::size_t weight = used++;
      const std::size_t bias = bias_ ? used++ : call.parameters.size();
      return linear_of(call, x, weight, bias)
          .reshape({x.size(0), x.size(1), -1, head_dim})
          .transpose(1, 2);
    };
    const at::Tensor query = next(), key = next(), value = next();
    return {query, key, value, used};
  }

  Operands joined_operands(const LayerCall& call) const {
    const at::Tensor x = as(call.inputs[0], call.compute);
    const std::int64_t width = x.size(2);
    const at::Tensor all = linear_of(call, x, 0, 1);
    if (x.is_cuda()) {
      const std::vector<at::Tensor> parts =
          parts_of(all.reshape({x.size(0), x.size(1), 3, heads_, width / heads_}));
      return {parts[0], parts[1], parts[2], 2};
    }
    const auto part = [&](std::int64_t index) {
      return all.narrow(2, index * width, width)
          .reshape({x.size(0), x.size(1), heads_, width / heads_})
          .transpose(1, 2);
    };
    return {part(0), part(1), part(2), 2};
  }

  // One copy of a key or value per query head of its group.
  at::Tensor repeated(const at::Tensor& shared) const {
    const std::int64_t groups = shared.size(1), copies = heads_ / groups;
    if (copies == 1) return shared;
    return shared.unsqueeze(2)
        .expand({shared.size(0), groups, copies, shared.size(2), shared.size(3)})
        .flatten(1, 2);
  }

  // True where a query must not look; undefined when it may look everywhere.
  at::Tensor excluded(const LayerCall& call) const {
    const std::int64_t length = call.inputs[0].size(1);
    at::Tensor hidden;
    if (causal_) {
      const at::Tensor all = at::ones({length, length}, call.inputs[0].options().dtype(at::kBool));
      hidden = all.triu(/*diagonal=*/1);
      if (window_ > 0 && window_ < length) hidden = hidden.logical_or(all.tril(-window_));
    }
    if (call.inputs.size() > 1) {
      const at::Tensor padding = call.inputs[1].eq(0).view({-1, 1, 1, length});
      hidden = hidden.defined() ? hidden.logical_or(padding) : padding;
    }
    return hidden;
  }

  static double lowest(at::ScalarType dtype) {
    switch (dtype) {
      case at::kHalf: return std::numeric_limits<at::Half>::lowest();
      case at::kBFloat16: return std::numeric_limits<at::BFloat16>::lowest();
      case at::kDouble: return std::numeric_limits<double>::lowest();
      default: return std::numeric_limits<float>::lowest();
    }
  }

  at::Tensor mix(const LayerCall& call, const Operands& o) const {
    const auto additive = [&]() -> at::Tensor {
      const at::Tensor hidden = excluded(call);
      if (!hidden.defined()) return {};
      return at::zeros(hidden.sizes(), o.query.options())
          .masked_fill(hidden, lowest(o.query.scalar_type()));
    };
#if TORCH_VERSION_MAJOR >= 2
    // Fused kernels differ in what a query sees whose every key is hidden; only masks hide them.
    if (o.query.is_cuda() && call.inputs.size() == 1 && window_ == 0)
      return at::scaled_dot_product_attention(o.query, o.key, o.value, {}, 0.0, causal_);
#endif
    at::Tensor scores = at::matmul(o.query, o.key.transpose(-2, -1));
    const double root = std::sqrt(static_cast<double>(o.query.size(-1)));
    const at::Tensor mask = additive();
    if (call.kept != nullptr) {  // nobody else sees the scores
      scores.div_(root);
      if (mask.defined()) scores.add_(mask);
    } else {
      scores = scores / root;
      if (mask.defined()) scores = scores + mask;
    }
    const at::Tensor weights = at::softmax(as(scores, call.parameters[0].scalar_type()), -1);
    return at::matmul(as(weights, call.compute), o.value);
  }

  std::int64_t heads_;
  std::int64_t window_;
  bool causal_;
  bool project_;
  bool separate_;
  bool bias_;
  at::Tensor frequencies_;
};

LayerForward make_attention(const LayerQuery& q) {
  const bool separate = q.integer_or("separate", 0) != 0;
  if (!separate && q.text_or("scale", "query") == "query") return make_plain_attention(q);
  return ScaledScores(q);
}

}  // namespace

LayerKernels attention_kernels() { return {{"attention", make_attention}}; }

}  // namespace harmonics::inline in_runtime
