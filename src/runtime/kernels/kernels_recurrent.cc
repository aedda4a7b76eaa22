#include <ATen/ATen.h>

#include "kernel_casts.h"
#include "kernels.h"

namespace harmonics::inline in_runtime {
namespace {

/// What LSTM and GRU share. A sequence starts from the states that come, else from zeros.
struct Recurrent {
  std::int64_t width, directions;
  bool reverse, bias, states;

  explicit Recurrent(const LayerQuery& q)
      : width(q.integer("width")),
        directions(q.integer("directions")),
        reverse(q.integer("reverse") != 0),
        bias(q.integer("bias") != 0),
        states(q.integer_or("states", 0) != 0) {}

  [[nodiscard]] static std::vector<at::Tensor> parameters(const LayerCall& call) {
    std::vector<at::Tensor> all;
    for (const at::Tensor& parameter : call.parameters) all.push_back(as(parameter, call.compute));
    return all;
  }
  // {batch, length, in}, from the last row to the first where it is read so.
  [[nodiscard]] at::Tensor rows(const LayerCall& call) const {
    const at::Tensor x = as(call.inputs[0], call.compute);
    return reverse ? x.flip({1}) : x;
  }
  [[nodiscard]] at::Tensor in_order(const at::Tensor& y) const { return reverse ? y.flip({1}) : y; }
  // Behind the rows of `y` the states {directions, batch, width} after the last step, a row each.
  [[nodiscard]] at::Tensor and_states(const at::Tensor& y, std::vector<at::Tensor> last) const {
    if (!states) return y;
    for (at::Tensor& state : last) state = state.transpose(0, 1).reshape({y.size(0), 1, y.size(2)});
    last.insert(last.begin(), y);
    return at::cat(last, 1);
  }
  // {directions, batch, width}
  [[nodiscard]] at::Tensor start(const LayerCall& call, std::size_t input) const {
    if (call.inputs.size() > input) {
      return as(call.inputs[input], call.compute).transpose(0, 1).contiguous();
    }
    return at::zeros({directions, call.inputs[0].size(0), width},
                     call.inputs[0].options().dtype(call.compute));
  }
};

LayerForward make_lstm(const LayerQuery& q) {
  return [r = Recurrent(q)](const LayerCall& call) {
    const auto [y, h, c] = at::lstm(
        r.rows(call), {r.start(call, 1), r.start(call, 2)}, Recurrent::parameters(call), r.bias,
        /*num_layers=*/1, /*dropout=*/0.0, call.training, r.directions == 2,
        /*batch_first=*/true);
    return r.and_states(r.in_order(y), {h, c});
  };
}

// ONNX's other GRU: the reset gate is applied before the hidden product, not behind it.
at::Tensor reset_first(const at::Tensor& x, at::Tensor h, std::span<const at::Tensor> parameters,
                       bool bias) {
  const std::vector<at::Tensor> u = parameters[1].chunk(3, 0);
  const at::Tensor none = at::zeros({parameters[0].size(0)}, x.options());
  const std::vector<at::Tensor> c = (bias ? parameters[3] : none).chunk(3, 0);
  const at::Tensor from_x = at::linear(x, parameters[0], bias ? parameters[2] : at::Tensor());
  std::vector<at::Tensor> rows;
  for (std::int64_t t = 0; t < x.size(1); ++t) {
    const std::vector<at::Tensor> g = from_x.select(1, t).chunk(3, 1);
    const at::Tensor reset = at::sigmoid(g[0] + at::linear(h, u[0], c[0]));
    const at::Tensor update = at::sigmoid(g[1] + at::linear(h, u[1], c[1]));
    const at::Tensor candidate = at::tanh(g[2] + at::linear(reset * h, u[2], c[2]));
    h = (1 - update) * candidate + update * h;
    rows.push_back(h);
  }
  return at::stack(rows, 1);
}

LayerForward make_gru(const LayerQuery& q) {
  const Recurrent r(q);
  if (q.integer("linear_before_reset") != 0) {
    return [r](const LayerCall& call) {
      const auto [y, h] =
          at::gru(r.rows(call), r.start(call, 1), Recurrent::parameters(call), r.bias,
                  /*num_layers=*/1, /*dropout=*/0.0, call.training, r.directions == 2,
                  /*batch_first=*/true);
      return r.and_states(r.in_order(y), {h});
    };
  }
  return [r](const LayerCall& call) {
    const std::vector<at::Tensor> all = Recurrent::parameters(call);
    const at::Tensor x = r.rows(call), h = r.start(call, 1);
    const std::size_t own = all.size() / static_cast<std::size_t>(r.directions);
    const at::Tensor there = reset_first(x, h[0], std::span(all).first(own), r.bias);
    if (r.directions == 1)
      return r.and_states(r.in_order(there), {there.select(1, -1).unsqueeze(0)});
    const at::Tensor back =
        reset_first(x.flip({1}), h[1], std::span(all).subspan(own), r.bias).flip({1});
    return r.and_states(at::cat({there, back}, 2),
                        {at::stack({there.select(1, -1), back.select(1, 0)}, 0)});
  };
}

}  // namespace

LayerKernels recurrent_kernels() { return {{"lstm", make_lstm}, {"gru", make_gru}}; }

}  // namespace harmonics::inline in_runtime
