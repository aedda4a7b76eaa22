#include <algorithm>
#include <cmath>

#include "device_operations.h"
#include "exact_sources.h"

namespace harmonics::inline in_runtime {

void multiply_on(ExactDevice& device, const DeviceProduct& p) {
  if (p.m == 0 || p.n == 0 || p.count == 0) return;
  const std::int64_t down = (p.m + kExactTile - 1) / kExactTile;
  const std::int64_t across = (p.n + kExactTile - 1) / kExactTile;
  const std::int64_t inner = std::max<std::int64_t>(p.inner > 0 ? p.inner : p.k, 1);
  const ExactArray& first = p.first.defined() ? p.first : p.c.array;
  device.run("product", down * across * p.count * kExactGroup,
             {p.a.array,
              p.a.offset,
              p.a.row,
              p.a.column,
              p.a.outer,
              p.a.near,
              p.a.far,
              p.b.array,
              p.b.offset,
              p.b.row,
              p.b.column,
              p.b.outer,
              p.b.near,
              p.b.far,
              p.c.array,
              p.c.offset,
              p.c.row,
              p.c.near,
              p.c.far,
              first,
              p.first_offset,
              static_cast<int>(p.start),
              p.m,
              p.n,
              p.k,
              inner,
              p.near,
              down,
              across});
}

ExactArray linear_forward_on(ExactDevice& device, const ExactArray& x, const ExactArray& weight,
                             const ExactArray& bias) {
  const std::int64_t in = x.shape.back(), out = weight.shape[0];
  Shape shape = x.shape;
  shape.back() = out;
  const ExactArray y = device.empty(shape);
  multiply_on(device, {.m = in == 0 ? 0 : x.size() / in,
                       .n = out,
                       .k = in,
                       .a = {x, 0, in},
                       .b = {weight, 0, 1, in},
                       .c = {y, 0, out},
                       .start = bias.defined() ? SumStart::kFirstByColumn : SumStart::kZero,
                       .first = bias});
  return y;
}

ExactArray linear_back_on(ExactDevice& device, const ExactArray& gradient,
                          const ExactArray& weight) {
  const std::int64_t out = weight.shape[0], in = weight.shape[1];
  Shape shape = gradient.shape;
  shape.back() = in;
  const ExactArray answer = device.empty(shape);
  multiply_on(device, {.m = gradient.size() / out,
                       .n = in,
                       .k = out,
                       .a = {gradient, 0, out},
                       .b = {weight, 0, in},
                       .c = {answer, 0, in}});
  return answer;
}

void linear_gradients_on(ExactDevice& device, const DeviceLinearGradients& all) {
  const std::int64_t in = all.x.shape.back(), out = all.gradient.shape.back();
  const std::int64_t rows = in == 0 ? 0 : all.x.size() / in;
  multiply_on(device, {.m = out,
                       .n = in,
                       .k = rows,
                       .a = {all.gradient, 0, 1, out},
                       .b = {all.x, 0, in},
                       .c = {all.to_weight, 0, in},
                       .start = SumStart::kWhatIsThere});
  if (all.to_bias.defined()) device.run("add_rows", out, {all.gradient, out, rows, all.to_bias, 0});
}

namespace {

class DeviceLinear final : public PlacedOperation {
 public:
  DeviceLinear(ExactDevice& device, bool has_bias) : device_(device), has_bias_(has_bias) {}

  ExactArray forward(const PlacedCall& call, PlacedKept&) const override {
    return linear_forward_on(device_, call.inputs[0], call.parameters[0],
                             has_bias_ ? call.parameters[1] : ExactArray());
  }

  std::vector<ExactArray> backward(const PlacedCall& call, const PlacedKept&,
                                   const ExactArray& gradient) const override {
    linear_gradients_on(device_, {call.inputs[0], gradient, call.gradients[0],
                                  has_bias_ ? call.gradients[1] : ExactArray()});
    if (!call.wanted[0]) return {ExactArray()};
    return {linear_back_on(device_, gradient, call.parameters[0])};
  }

 private:
  ExactDevice& device_;
  bool has_bias_;
};

/// As ExactAttention (exact_attention.cc) has it.
class DeviceAttention final : public PlacedOperation {
 public:
  DeviceAttention(ExactDevice& device, const LayerQuery& query)
      : device_(device),
        heads_(query.integer("heads")),
        causal_(query.integer("causal") != 0),
        project_(query.integer("project") != 0) {}

  ExactArray forward(const PlacedCall& call, PlacedKept& kept) const override {
    const Sizes s(call.inputs[0], heads_);
    const ExactArray all =
        linear_forward_on(device_, call.inputs[0], call.parameters[0], call.parameters[1]);
    scale_queries(s, all);
    const ExactArray shares = device_.empty({s.batch, heads_, s.length, s.length});
    const ExactArray mixed = device_.empty(call.inputs[0].shape);
    multiply(s.scores(s.part(all, 0), s.part(all, 1, 1, s.pitch), shares));
    device_.run("softmax", shares.size() / s.length * kExactLanesPerRow,
                {shares, s.length, period(s), shares});
    multiply(s.mixture(s.table(shares), s.part(all, 2), s.row(mixed)));
    if (call.training) kept.there = {all, shares, mixed};
    if (!project_) return mixed;
    return linear_forward_on(device_, mixed, call.parameters[2], call.parameters[3]);
  }

  std::vector<ExactArray> backward(const PlacedCall& call, const PlacedKept& kept,
                                   const ExactArray& gradient) const override {
    const Sizes s(call.inputs[0], heads_);
    const ExactArray &all = kept.there[0], &shares = kept.there[1], &mixed = kept.there[2];
    ExactArray to_mixed = gradient;
    if (project_) {
      linear_gradients_on(device_, {mixed, gradient, call.gradients[2], call.gradients[3]});
      to_mixed = linear_back_on(device_, gradient, call.parameters[2]);
    }
    const ExactArray to_all = device_.empty(all.shape), to_shares = device_.empty(shares.shape);
    multiply(s.scores(s.row(to_mixed), s.part(all, 2, 1, s.pitch), to_shares));
    multiply(s.mixture(s.turned(shares), s.row(to_mixed), s.part(to_all, 2)));
    device_.run("softmax_back", shares.size() / s.length * kExactLanesPerRow,
                {shares, to_shares, s.length, period(s), to_shares});
    multiply(s.mixture(s.table(to_shares), s.part(all, 1), s.part(to_all, 0)));
    multiply(s.mixture(s.turned(to_shares), s.part(all, 0), s.part(to_all, 1)));
    scale_queries(s, to_all);
    linear_gradients_on(device_, {call.inputs[0], to_all, call.gradients[0], call.gradients[1]});
    if (!call.wanted[0]) return {ExactArray()};
    return {linear_back_on(device_, to_all, call.parameters[0])};
  }

 private:
  struct Sizes {
    std::int64_t batch, length, width, heads, head, pitch;
    float scale;

    Sizes(const ExactArray& x, std::int64_t head_count)
        : batch(x.shape[0]),
          length(x.shape[1]),
          width(x.shape[2]),
          heads(head_count),
          head(width / heads),
          pitch(3 * width),
          scale(static_cast<float>(1.0 / std::sqrt(static_cast<double>(head)))) {}

    // Queries (0), keys (1), values (2) of {batch, length, 3 * width}.
    [[nodiscard]] DeviceMatrix part(const ExactArray& all, std::int64_t which) const {
      return part(all, which, pitch, 1);
    }
    [[nodiscard]] DeviceMatrix part(const ExactArray& all, std::int64_t which, std::int64_t row,
                                    std::int64_t column) const {
      return {all, which * width, row, column, 0, head, length * pitch};
    }
    // Of {batch, length, width}.
    [[nodiscard]] DeviceMatrix row(const ExactArray& x) const {
      return {x, 0, width, 1, 0, head, length * width};
    }
    // Of {batch, heads, length, length}, as it is and transposed.
    [[nodiscard]] DeviceMatrix table(const ExactArray& shares) const {
      return {shares, 0, length, 1, 0, length * length, heads * length * length};
    }
    [[nodiscard]] DeviceMatrix turned(const ExactArray& shares) const {
      return {shares, 0, 1, length, 0, length * length, heads * length * length};
    }
    [[nodiscard]] DeviceProduct scores(const DeviceMatrix& a, const DeviceMatrix& b,
                                       const ExactArray& c) const {
      return {.m = length,
              .n = length,
              .k = head,
              .a = a,
              .b = b,
              .c = table(c),
              .count = batch * heads,
              .near = heads};
    }
    [[nodiscard]] DeviceProduct mixture(const DeviceMatrix& a, const DeviceMatrix& b,
                                        const DeviceMatrix& c) const {
      return {.m = length,
              .n = head,
              .k = length,
              .a = a,
              .b = b,
              .c = c,
              .count = batch * heads,
              .near = heads};
    }
  };

  void multiply(const DeviceProduct& product) const { multiply_on(device_, product); }
  [[nodiscard]] std::int64_t period(const Sizes& s) const { return causal_ ? s.length : 0; }
  void scale_queries(const Sizes& s, const ExactArray& all) const {
    device_.run("scale_blocks", s.batch * s.length * s.width, {all, s.pitch, s.width, s.scale});
  }

  ExactDevice& device_;
  std::int64_t heads_;
  bool causal_;
  bool project_;
};

}  // namespace

PlacedOperationPtr make_linear_on(ExactDevice& device, const LayerQuery& query) {
  if (query.type != "linear") return nullptr;
  return std::make_unique<DeviceLinear>(device, query.integer("bias") != 0);
}

PlacedOperationPtr make_attention_on(ExactDevice& device, const LayerQuery& query) {
  if (query.type != "attention") return nullptr;
  return std::make_unique<DeviceAttention>(device, query);
}

}  // namespace harmonics::inline in_runtime
