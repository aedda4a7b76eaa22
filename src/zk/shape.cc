#include <harmonics/base/error.h>
#include <harmonics/zk/zk.h>

#include "shape.h"

namespace harmonics::inline in_zk {
namespace {

void require_size(std::size_t is, std::size_t due, std::string_view what) {
  if (is == due) return;
  fail(ErrorCode::kInvalidArgument, "{} has {} elements, the shape needs {}", what, is, due);
}

void multiply_dense(const LinearShape& shape, std::span<const std::int8_t> input,
                    std::span<const std::int8_t> weights, std::vector<std::int32_t>& output) {
  for (std::size_t n = 0; n < shape.batch; ++n) {
    const std::int8_t* x = input.data() + n * shape.inputs;
    for (std::size_t o = 0; o < shape.outputs; ++o) {
      const std::int8_t* w = weights.data() + o * shape.inputs;
      std::int32_t sum = 0;
      for (std::size_t i = 0; i < shape.inputs; ++i) sum += std::int32_t{x[i]} * w[i];
      output[n * shape.outputs + o] = sum;
    }
  }
}

// Adds one tap of one pair of channels to one output plane.
void add_tap(const LinearShape& shape, const std::int8_t* in, std::size_t tap, std::int32_t weight,
             std::int32_t* out) {
  for_each_shift(shape, tap, [&](std::size_t source, std::size_t target) {
    out[target] += weight * in[source];
  });
}

void multiply_conv(const LinearShape& shape, std::span<const std::int8_t> input,
                   std::span<const std::int8_t> weights, std::vector<std::int32_t>& output) {
  const std::size_t pixels = shape.pixels();
  for (std::size_t n = 0; n < shape.batch; ++n) {
    for (std::size_t o = 0; o < shape.outputs; ++o) {
      std::int32_t* out = output.data() + (n * shape.outputs + o) * pixels;
      for (std::size_t tap = 0; tap < shape.inputs * kTaps; ++tap) {
        const std::int8_t* in = input.data() + (n * shape.inputs + tap / kTaps) * pixels;
        add_tap(shape, in, tap % kTaps, weights[o * shape.inputs * kTaps + tap], out);
      }
    }
  }
}

}  // namespace

std::size_t LinearShape::input_rows() const {
  return kind == Kind::kDense ? batch : std::size_t{batch} * inputs;
}
std::size_t LinearShape::input_columns() const { return kind == Kind::kDense ? inputs : pixels(); }
std::size_t LinearShape::weight_columns() const {
  return kind == Kind::kDense ? inputs : inputs * kTaps;
}
std::size_t LinearShape::output_rows() const {
  return kind == Kind::kDense ? batch : std::size_t{batch} * outputs;
}
std::size_t LinearShape::output_columns() const {
  return kind == Kind::kDense ? outputs : pixels();
}

std::string shape_problem(const LinearShape& shape) {
  const bool dense = shape.kind == LinearShape::Kind::kDense;
  if (!dense && shape.kind != LinearShape::Kind::kConv3x3) return "an unknown kind of map";
  if (shape.batch == 0 || shape.inputs == 0 || shape.outputs == 0 || shape.pixels() == 0) {
    return "an extent of zero";
  }
  if (dense && shape.pixels() != 1) return "a dense map with pixels";
  const std::size_t most = kMaxProofRows;
  if (shape.batch > most || shape.inputs > most || shape.outputs > most || shape.height > most ||
      shape.width > most || shape.input_rows() > most || shape.output_rows() > most ||
      shape.weight_columns() > most || shape.pixels() > most) {
    return format("more than {} rows or columns", most);
  }
  return "";
}

void require_sizes(const LinearShape& shape, std::size_t input, std::size_t weights,
                   std::size_t output) {
  if (const std::string problem = shape_problem(shape); !problem.empty()) {
    fail(ErrorCode::kInvalidArgument, "this map cannot be proven: {}", problem);
  }
  require_size(input, shape.input_rows() * shape.input_columns(), "the input");
  require_size(weights, shape.outputs * shape.weight_columns(), "the weights");
  require_size(output, shape.output_rows() * shape.output_columns(), "the output");
}

std::vector<std::int32_t> linear_product(const LinearShape& shape,
                                         std::span<const std::int8_t> input,
                                         std::span<const std::int8_t> weights) {
  require_sizes(shape, input.size(), weights.size(), shape.output_rows() * shape.output_columns());
  std::vector<std::int32_t> output(shape.output_rows() * shape.output_columns(), 0);
  if (shape.kind == LinearShape::Kind::kDense) {
    multiply_dense(shape, input, weights, output);
  } else {
    multiply_conv(shape, input, weights, output);
  }
  return output;
}

}  // namespace harmonics::inline in_zk
