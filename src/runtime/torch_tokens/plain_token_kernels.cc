#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include <harmonics/base/error.h>

#include "tokens/block_tables.h"
#include "torch_tokens/token_kernels.h"

namespace harmonics::inline in_runtime {
namespace {

// With `steady`: rows of a product, and blocks of tokens that attention takes at a time. OpenBLAS's
// kernels for Haswell and Zen compute the last columns of sixteen in another order than the first
// twelve, so on a CPU each row stands alone.
constexpr std::int64_t kSteadyRows = 16;
constexpr std::int64_t kSteadyRowsOnCpu = 1;
constexpr std::int64_t kSteadyBlocks = 8;
// Numbers of keys that are gathered at a time.
constexpr std::int64_t kMostGathered = std::int64_t{1} << 26;
// Below every score, and finite, so that what is far below it is zero and not no number.
constexpr double kLowest = -1e30;

at::Tensor in_float(const at::Tensor& x) { return x.to(at::kFloat); }

class PlainTokenKernels final : public TokenKernels {
 public:
  explicit PlainTokenKernels(bool steady) : steady_(steady) {}

  at::Tensor product(const ProductPlan& plan, const at::Tensor& x,
                     const at::Tensor& summand) override {
    at::Tensor y = multiplied(plan, x);
    if (plan.gated) {
      const auto halves = y.chunk(2, 1);
      const at::Tensor active = steady_ ? halves[0].contiguous() : halves[0];
      y = activated(active, plan.activation) * halves[1];
    } else {
      y = activated(y, plan.activation);
    }
    if (summand.defined()) y = y + summand;
    return plan.wide ? in_float(y) : y;
  }

  at::Tensor norm(const at::Tensor& x, const at::Tensor& weight, double eps) override {
    return row_norm(x, weight, at::Tensor(), eps);
  }

  at::Tensor project(const AttentionPlan& plan, const at::Tensor& x,
                     const TorchTokenPass& pass) override {
    const std::int64_t rows = pass.rows(), dim = plan.head_dim;
    const at::Tensor all = multiplied(plan.project, x).reshape({rows, -1, dim});
    at::Tensor turned = all.narrow(1, 0, plan.heads + plan.groups);
    if (plan.cosines.defined()) turned = turned_heads(plan, turned, pass.positions);
    keep(plan, 0, turned.narrow(1, plan.heads, plan.groups), pass.slots);
    keep(plan, 1, all.narrow(1, plan.heads + plan.groups, plan.groups), pass.slots);
    return turned.narrow(1, 0, plan.heads).reshape({rows, plan.heads * dim});
  }

  at::Tensor mix(const AttentionPlan& plan, const at::Tensor& queries,
                 const TorchTokenPass& pass) override {
    const std::int64_t each =
        pass.blocks.size(1) * BlockTables::kTokens * plan.groups * plan.head_dim;
    const std::int64_t rows = pass.rows();
    const std::int64_t most = std::max<std::int64_t>(1, kMostGathered / each);
    std::vector<at::Tensor> pieces;
    for (std::int64_t first = 0; first < rows; first += most) {
      const std::int64_t count = std::min(most, rows - first);
      pieces.push_back(mixed_rows(plan, queries.narrow(0, first, count),
                                  pass.positions.narrow(0, first, count),
                                  pass.blocks.narrow(0, first, count)));
    }
    return pieces.size() == 1 ? pieces.front() : at::cat(pieces);
  }

 private:
  at::Tensor multiplied(const ProductPlan& plan, const at::Tensor& x) const {
    const at::Tensor input =
        plan.norm.defined() ? row_norm(x, plan.norm, at::Tensor(), plan.eps) : x;
    const at::Tensor bias =
        plan.bias.defined() ? plan.bias.to(plan.weight.scalar_type()) : at::Tensor();
    if (!steady_) return at::linear(input, plan.weight, bias);
    if (!plan.gated) return steady_linear(input, plan.weight, bias);
    // As the two layers that they are, wherever the graph is cut.
    const std::int64_t half = plan.weight.size(0) / 2;
    std::vector<at::Tensor> halves;
    for (const std::int64_t first : {std::int64_t{0}, half}) {
      halves.push_back(steady_linear(input, plan.weight.narrow(0, first, half),
                                     bias.defined() ? bias.narrow(0, first, half) : bias));
    }
    return at::cat(halves, 1);
  }

  static at::Tensor steady_linear(const at::Tensor& x, const at::Tensor& weight,
                                  const at::Tensor& bias) {
    const std::int64_t each = x.is_cpu() ? kSteadyRowsOnCpu : kSteadyRows;
    const std::int64_t rows = x.size(0), rest = rows % each;
    const at::Tensor filled = rest == 0 ? x : at::constant_pad_nd(x, {0, 0, 0, each - rest});
    std::vector<at::Tensor> pieces;
    for (const at::Tensor& piece : filled.split(each)) {
      pieces.push_back(at::linear(piece.contiguous(), weight, bias));
    }
    return at::cat(pieces).narrow(0, 0, rows);
  }

  static at::Tensor turned_heads(const AttentionPlan& plan, const at::Tensor& x,
                                 const at::Tensor& positions) {
    const at::Tensor cosine = plan.cosines.index_select(0, positions).unsqueeze(1);
    const at::Tensor sine = plan.sines.index_select(0, positions).unsqueeze(1);
    const std::int64_t half = plan.cosines.size(1);
    const at::Tensor first = in_float(x.narrow(2, 0, half));
    const at::Tensor second = in_float(x.narrow(2, half, half));
    const at::Tensor turned =
        at::cat({first * cosine - second * sine, second * cosine + first * sine}, 2)
            .to(x.scalar_type());
    const std::int64_t rest = plan.head_dim - 2 * half;
    return rest == 0 ? turned : at::cat({turned, x.narrow(2, 2 * half, rest)}, 2);
  }

  // Blocks and heads as one index: {…} to {…, groups}.
  static at::Tensor by_head(const at::Tensor& blocks, std::int64_t groups) {
    return blocks.unsqueeze(1) * groups + at::arange(groups, blocks.options()).view({1, groups, 1});
  }

  static void keep(const AttentionPlan& plan, std::int64_t which, const at::Tensor& x,
                   const at::Tensor& slots) {
    const at::Tensor block = at::bitwise_right_shift(slots, at::Scalar(4));
    const at::Tensor place = at::bitwise_and(slots, at::Scalar(BlockTables::kTokens - 1));
    const at::Tensor at =
        by_head(block.unsqueeze(1), plan.groups) * BlockTables::kTokens + place.view({-1, 1, 1});
    plan.cache.select(0, which)
        .view({-1, plan.head_dim})
        .index_copy_(0, at.reshape({-1}), x.reshape({-1, plan.head_dim}));
  }

  at::Tensor mixed_rows(const AttentionPlan& plan, const at::Tensor& queries,
                        const at::Tensor& positions, const at::Tensor& blocks) const {
    const std::int64_t rows = queries.size(0), columns = blocks.size(1);
    const std::int64_t each = steady_ ? std::min(kSteadyBlocks, columns) : columns;
    const std::int64_t copies = plan.heads / plan.groups;
    const at::Tensor asked = queries.reshape({rows * plan.groups, copies, plan.head_dim});
    const auto floats = queries.options().dtype(at::kFloat);
    at::Tensor most = at::full({rows * plan.groups, copies, 1}, kLowest, floats);
    at::Tensor sum = at::zeros_like(most);
    at::Tensor out = at::zeros({rows * plan.groups, copies, plan.head_dim}, floats);
    for (std::int64_t first = 0; first < columns; first += each) {
      const at::Tensor where = by_head(blocks.narrow(1, first, each), plan.groups).reshape({-1});
      const auto gathered = [&](std::int64_t which) {
        return plan.cache.select(0, which)
            .view({-1, BlockTables::kTokens * plan.head_dim})
            .index_select(0, where)
            .view({rows * plan.groups, each * BlockTables::kTokens, plan.head_dim});
      };
      at::Tensor scores = in_float(at::bmm(asked, gathered(0).transpose(1, 2))) /
                          std::sqrt(static_cast<double>(plan.head_dim));
      scores = hidden(plan, scores, positions, first * BlockTables::kTokens);
      const at::Tensor higher = at::maximum(most, scores.amax({2}, /*keepdim=*/true));
      const at::Tensor shares = at::exp(scores - higher), fade = at::exp(most - higher);
      sum = sum * fade + shares.sum({2}, /*keepdim=*/true);
      out = out * fade + in_float(at::bmm(shares.to(queries.scalar_type()), gathered(1)));
      most = higher;
    }
    return (out / sum).to(queries.scalar_type()).reshape({rows, plan.heads * plan.head_dim});
  }

  // Scores of tokens that a row does not see, from `first` on, are nothing.
  static at::Tensor hidden(const AttentionPlan& plan, const at::Tensor& scores,
                           const at::Tensor& positions, std::int64_t first) {
    const std::int64_t rows = positions.size(0), tokens = scores.size(2);
    const at::Tensor token = at::arange(first, first + tokens, positions.options()).unsqueeze(0);
    const at::Tensor own = positions.unsqueeze(1);
    at::Tensor unseen = token > own;
    if (plan.window > 0) unseen = unseen.logical_or(token <= own - plan.window);
    return scores.reshape({rows, -1, tokens})
        .masked_fill(unseen.unsqueeze(1), -INFINITY)
        .reshape(scores.sizes());
  }

  bool steady_;
};

}  // namespace

std::unique_ptr<TokenKernels> make_plain_token_kernels(bool steady) {
  return std::make_unique<PlainTokenKernels>(steady);
}

at::Tensor activated(const at::Tensor& x, const std::string& activation) {
  if (activation.empty()) return x;
  if (activation == "silu") return at::silu(x);
  if (activation == "gelu") return at::gelu(x);
  if (activation == "gelu_tanh") return at::gelu(x, "tanh");
  if (activation == "relu") return at::relu(x);
  if (activation == "sigmoid") return at::sigmoid(x);
  if (activation == "tanh") return at::tanh(x);
  fail(ErrorCode::kInternal, "no activation '{}' for tokens", activation);
}

at::Tensor row_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                    double eps) {
  const at::Tensor wide = in_float(x);
  if (bias.defined()) {
    return at::layer_norm(wide, {x.size(1)}, weight, bias, eps).to(x.scalar_type());
  }
  const at::Tensor factor = at::rsqrt(wide.square().mean({1}, /*keepdim=*/true) + eps);
  return (wide * factor * weight).to(x.scalar_type());
}

}  // namespace harmonics::inline in_runtime
