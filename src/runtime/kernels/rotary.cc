#include "rotary.h"

#include <ATen/ATen.h>

#include <numbers>

namespace harmonics::inline in_runtime {
namespace {

at::Tensor llama3_scaled(const at::Tensor& plain, const LayerQuery& q) {
  const double factor = q.number("rope_factor"), original = q.number("rope_original");
  const double low = q.number("rope_low"), high = q.number("rope_high");
  const at::Tensor wave = plain.reciprocal() * (2 * std::numbers::pi);
  const at::Tensor stretched = at::where(wave.gt(original / low), plain / factor, plain);
  const at::Tensor smooth = (wave.reciprocal() * original - low) / (high - low);
  const at::Tensor between = (1 - smooth) * stretched / factor + smooth * stretched;
  const at::Tensor medium = wave.ge(original / high).logical_and(wave.le(original / low));
  return at::where(medium, between, stretched);
}

}  // namespace

at::Tensor rotary_frequencies(const LayerQuery& q) {
  if (q.text_or("rope", "none") == "none") return {};
  const std::int64_t head_dim =
      q.has("head_dim") ? q.integer("head_dim") : q.inputs[0].shape[1] / q.integer("heads");
  const auto dims =
      static_cast<std::int64_t>(static_cast<double>(head_dim) * q.number_or("rope_fraction", 1));
  const at::Tensor exponents = at::arange(0, dims, 2, at::kLong).to(at::kFloat) / dims;
  const at::Tensor plain = at::pow(q.number_or("rope_theta", 10000), exponents).reciprocal();
  const std::string scaling = q.text_or("rope_scaling", "none");
  if (scaling == "linear") return plain / q.number("rope_factor");
  return scaling == "llama3" ? llama3_scaled(plain, q) : plain;
}

RotaryTurns rotary_turns(const at::Tensor& frequencies, std::int64_t length,
                         const at::Tensor& like) {
  const at::Tensor own = frequencies.to(like.device());
  const at::Tensor places = at::arange(length, own.options()).unsqueeze(1);
  const at::Tensor half = places * own;
  const at::Tensor angles = at::cat({half, half}, -1);
  return {angles.cos().to(like.scalar_type()), angles.sin().to(like.scalar_type())};
}

at::Tensor rotated(const at::Tensor& x, const RotaryTurns& turns) {
  const std::int64_t dims = turns.cosine.size(-1), half = dims / 2, rest = x.size(-1) - dims;
  const at::Tensor turning = rest == 0 ? x : x.narrow(-1, 0, dims);
  const at::Tensor turned =
      at::cat({-turning.narrow(-1, half, half), turning.narrow(-1, 0, half)}, -1);
  const at::Tensor result = turning * turns.cosine + turned * turns.sine;
  return rest == 0 ? result : at::cat({result, x.narrow(-1, dims, rest)}, -1);
}

}  // namespace harmonics::inline in_runtime
