#include "torch/fused_layers.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <bit>

#include "kernels/kernel_casts.h"
#include "torch/fused_program.h"
#include "torch/fused_sources.h"

namespace harmonics::inline in_runtime {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr int kEight = 8;                 // numbers that a thread takes at once
constexpr int kBlock = 256;               // threads
constexpr std::int64_t kMaxWidth = 1024;  // of layer norm: a warp holds a row
constexpr int kRowsAtOnce = 4;            // of layer norm, in a block: WARPS in its source

unsigned processors() {
  return static_cast<unsigned>(at::cuda::getCurrentDeviceProperties()->multiProcessorCount);
}

bool is_short(const at::Tensor& x) {
  return x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf;
}

// bf16 has conversions of its own from 8.0 on.
bool can_compute(const at::Tensor& x) {
  return x.is_cuda() && at::cuda::getDeviceProperties(x.device().index())->major >= 8;
}

bool is_aligned(const at::Tensor& x) {
  return reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

bool is_float(const at::Tensor& parameter, std::int64_t width) {
  return parameter.scalar_type() == at::kFloat && parameter.dim() == 1 &&
         parameter.size(0) == width && parameter.is_contiguous();
}

std::vector<std::string> options_for(at::ScalarType type, std::vector<std::string> options = {}) {
  if (type == at::kHalf) options.emplace_back("-DHALF");
  return options;
}

const void* in(const at::Tensor& x) { return x.const_data_ptr(); }
void* out(const at::Tensor& x) { return x.mutable_data_ptr(); }

const FusedProgram* norm_program(at::ScalarType type, bool relu) {
  static const std::string source = std::string(kEightsSource) + std::string(kBatchNormSource);
  return FusedProgram::find(source, options_for(type, relu ? std::vector<std::string>{"-DRELU"}
                                                           : std::vector<std::string>{}));
}

const FusedProgram* row_program(at::ScalarType type, std::int64_t width, bool wide) {
  static const std::string source = std::string(kEightsSource) + std::string(kLayerNormSource);
  std::vector<std::string> options{"-DWIDTH=" + std::to_string(width)};
  if (wide) options.emplace_back("-DWIDE");
  return FusedProgram::find(source, options_for(type, std::move(options)));
}

/// {rows, channels} as blocks of threads take it: see kBatchNormSource.
struct Table {
  long long rows = 0;
  int eights = 0;
  int rows_each = 0;
  LaunchShape shape;

  Table(const at::Tensor& x, std::int64_t channels, unsigned blocks_per_processor) {
    rows = x.numel() / channels;
    eights = static_cast<int>(channels / kEight);
    shape.threads_x = std::bit_floor(static_cast<unsigned>(std::min(eights, 32)));
    shape.threads_y = kBlock / shape.threads_x;
    shape.blocks_x = (static_cast<unsigned>(eights) + shape.threads_x - 1) / shape.threads_x;
    const long long down = shape.threads_y;
    const long long wanted =
        std::max<long long>(1, processors() * blocks_per_processor / shape.blocks_x);
    const long long chunks = std::clamp<long long>((rows + down - 1) / down, 1, wanted);
    const long long each = (rows + chunks - 1) / chunks;
    rows_each = static_cast<int>((each + down - 1) / down * down);
    shape.blocks_y = static_cast<unsigned>((rows + rows_each - 1) / rows_each);
  }
  int chunks() const { return static_cast<int>(shape.blocks_y); }
};

constexpr unsigned kSumBlocks = 4, kApplyBlocks = 16;  // for each processor

LaunchShape by_column(std::int64_t columns) {
  return {.blocks_x = static_cast<unsigned>((columns + 31) / 32), .threads_x = 32, .threads_y = 32};
}

at::MemoryFormat way_of(const at::Tensor& x) {
  return x.dim() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

struct ChannelNorm {
  at::Tensor running_mean, running_var;
  float momentum = 0, eps = 0;
  bool relu = false;
};

class BatchNorm : public Function<BatchNorm> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& gamma,
                            const at::Tensor& beta, const ChannelNorm& norm) {
    const FusedProgram& program = *norm_program(x.scalar_type(), norm.relu);
    const std::int64_t channels = x.size(1);
    const auto floats = x.options().dtype(at::kFloat);
    const Table sums(x, channels, kSumBlocks), apply(x, channels, kApplyBlocks);
    const at::Tensor partial = at::empty({sums.chunks(), 2, channels}, floats);
    const at::Tensor numbers = at::empty({4, channels}, floats);
    const at::Tensor y = at::empty_like(x);
    program.launch("norm_sums", sums.shape, in(x), out(partial), sums.rows, sums.eights,
                   sums.rows_each);
    program.launch("norm_numbers", by_column(channels), in(partial), sums.chunks(), in(x),
                   in(gamma), in(beta), out(norm.running_mean), out(norm.running_var), out(numbers),
                   sums.rows, static_cast<int>(channels), norm.momentum, norm.eps);
    program.launch("norm_apply", apply.shape, in(x), in(numbers), out(y), apply.rows, apply.eights,
                   apply.rows_each);
    context->save_for_backward({x, numbers});
    context->saved_data["relu"] = norm.relu;
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& numbers = saved[1];
    const c10::cuda::CUDAGuard guard(x.device());
    const FusedProgram& program =
        *norm_program(x.scalar_type(), context->saved_data["relu"].toBool());
    const at::Tensor dy = gradients[0].contiguous(way_of(x));
    const std::int64_t channels = x.size(1);
    const auto floats = numbers.options();
    const Table sums(x, channels, kSumBlocks), apply(x, channels, kApplyBlocks);
    const at::Tensor partial = at::empty({sums.chunks(), 2, channels}, floats);
    const at::Tensor slopes = at::empty({3, channels}, floats);
    const at::Tensor dgamma = at::empty({channels}, floats), dbeta = at::empty({channels}, floats);
    const at::Tensor dx = at::empty_like(x);
    program.launch("norm_back_sums", sums.shape, in(x), in(dy), in(numbers), out(partial),
                   sums.rows, sums.eights, sums.rows_each);
    program.launch("norm_back_numbers", by_column(channels), in(partial), sums.chunks(),
                   in(numbers), out(slopes), out(dgamma), out(dbeta), sums.rows,
                   static_cast<int>(channels));
    program.launch("norm_back_apply", apply.shape, in(x), in(dy), in(numbers), in(slopes), out(dx),
                   apply.rows, apply.eights, apply.rows_each);
    return {dx, dgamma, dbeta, {}};
  }
};

struct RowNorm {
  float eps = 0;
  at::ScalarType type = at::kBFloat16;  // of what comes out
};

class LayerNorm : public Function<LayerNorm> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& gamma,
                            const at::Tensor& beta, const RowNorm& norm) {
    const long long rows = x.numel() / gamma.size(0);
    const at::Tensor y = at::empty(x.sizes(), x.options().dtype(norm.type));
    const at::Tensor moments = at::empty({2, rows}, gamma.options());
    row_program(norm.type, gamma.size(0), x.scalar_type() == at::kFloat)
        ->launch("row_norm", shape_for(rows, 16), in(x), in(gamma), in(beta), out(y), out(moments),
                 rows, norm.eps);
    context->save_for_backward({x, gamma, moments});
    context->saved_data["type"] = static_cast<std::int64_t>(norm.type);
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &gamma = saved[1], &moments = saved[2];
    const c10::cuda::CUDAGuard guard(x.device());
    const auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
    const FusedProgram& program = *row_program(type, gamma.size(0), x.scalar_type() == at::kFloat);
    const at::Tensor dy = gradients[0].to(type).contiguous();
    const long long rows = x.numel() / gamma.size(0);
    const LaunchShape shape = shape_for(rows, 3);
    const at::Tensor partial =
        at::empty({static_cast<std::int64_t>(shape.blocks_x), 2, gamma.size(0)}, moments.options());
    const at::Tensor dx = at::empty_like(x);
    const at::Tensor dgamma = at::empty_like(gamma.detach()), dbeta = at::empty_like(dgamma);
    program.launch("row_norm_back", shape, in(x), in(dy), in(gamma), in(moments), out(dx),
                   out(partial), rows);
    program.launch("row_norm_finish", by_column(gamma.size(0)), in(partial),
                   static_cast<int>(shape.blocks_x), out(dgamma), out(dbeta));
    return {dx, dgamma, dbeta, {}};
  }

 private:
  static LaunchShape shape_for(long long rows, unsigned blocks_per_processor) {
    const long long needed = (rows + kRowsAtOnce - 1) / kRowsAtOnce;
    return {.blocks_x = static_cast<unsigned>(
                std::min<long long>(needed, processors() * blocks_per_processor)),
            .threads_x = 32 * kRowsAtOnce};
  }
};

class AddRelu : public Function<AddRelu> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor y = at::empty_like(a);
    norm_program(a.scalar_type(), false)
        ->launch("add_relu", shape_for(a), in(a), in(b), out(y), count(a));
    context->save_for_backward({y});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor y = context->get_saved_variables()[0];
    const c10::cuda::CUDAGuard guard(y.device());
    at::Tensor dy = gradients[0];
    if (dy.strides() != y.strides()) dy = at::empty_like(y).copy_(dy);
    const at::Tensor dx = at::empty_like(y);
    norm_program(y.scalar_type(), false)
        ->launch("relu_back", shape_for(y), in(y), in(dy), out(dx), count(y));
    return {dx, dx};
  }

 private:
  static long long count(const at::Tensor& x) { return x.numel() / kEight; }
  static LaunchShape shape_for(const at::Tensor& x) {
    const long long needed = (count(x) + kBlock - 1) / kBlock;
    return {.blocks_x = static_cast<unsigned>(std::min<long long>(needed, processors() * 32LL)),
            .threads_x = kBlock};
  }
};

const FusedProgram* linear_program(at::ScalarType type) {
  static const std::string source = std::string(kEightsSource) + std::string(kLinearSource);
  return FusedProgram::find(source, options_for(type));
}

/// What a bias learns from the gradients {…, channels} of its layer's output. With `before`, what
/// GELU was applied to, `dy` is behind it and becomes what is before it.
at::Tensor bias_gradient(at::Tensor& dy, const at::Tensor& before) {
  const std::int64_t channels = dy.size(-1);
  const FusedProgram& program = *linear_program(dy.scalar_type());
  const Table table(dy, channels, kSumBlocks);
  const auto floats = dy.options().dtype(at::kFloat);
  const at::Tensor partial = at::empty({table.chunks(), 2, channels}, floats);
  const at::Tensor sums = at::empty({channels}, floats);
  if (before.defined()) {
    const at::Tensor dx = at::empty_like(dy);
    program.launch("gelu_back", table.shape, in(before), in(dy), out(dx), out(partial), table.rows,
                   table.eights, table.rows_each);
    dy = dx;
  } else {
    program.launch("column_sums", table.shape, in(dy), out(partial), table.rows, table.eights,
                   table.rows_each);
  }
  program.launch("columns_finish", by_column(channels), in(partial), table.chunks(), out(sums),
                 static_cast<int>(channels));
  return sums;
}

struct LinearTerms {
  at::Tensor bias;  // in the 16 bits of the output; it learns in 32
  bool gelu = false;
};

class Linear : public Function<Linear> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const LinearTerms& terms) {
    static_cast<void>(bias);
    const at::Tensor y = at::linear(x, weight, terms.bias);
    variable_list saved{x, weight};
    if (terms.gelu) saved.push_back(y);
    context->save_for_backward(saved);
    context->saved_data["x"] = x.requires_grad();
    return terms.gelu ? at::gelu(y) : y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const c10::cuda::CUDAGuard guard(x.device());
    at::Tensor dy = gradients[0].contiguous();
    const at::Tensor dbias = bias_gradient(dy, saved.size() > 2 ? saved[2] : at::Tensor());
    const at::Tensor rows = dy.reshape({-1, dy.size(-1)});
    at::Tensor dx;
    if (context->saved_data["x"].toBool()) dx = rows.mm(weight).view(x.sizes());
    return {dx, rows.t().mm(x.reshape({-1, x.size(-1)})), dbias, {}};
  }
};

at::Tensor linear(const at::Tensor& x, const LayerCall& call, FusedPlaces places, bool gelu) {
  if (places.bias >= call.parameters.size()) return {};
  const at::Tensor weight = matrix_parameter(call, places.weight);
  const at::Tensor& bias = call.parameters[places.bias];
  const std::int64_t channels = weight.size(0);
  if (!is_short(x) || weight.scalar_type() != x.scalar_type() || !can_compute(x)) return {};
  if (channels % kEight != 0 || x.numel() == 0 || !is_float(bias, channels)) return {};
  const c10::cuda::CUDAGuard guard(x.device());
  if (linear_program(x.scalar_type()) == nullptr) return {};
  return Linear::apply(x, weight, bias,
                       LinearTerms{matrix_parameter(call, places.bias).detach(), gelu});
}

at::Tensor fused_batch_norm(const LayerCall& call, double momentum, double eps, bool relu) {
  const at::Tensor& x = call.inputs[0];
  if (!call.training || !is_short(x) || x.scalar_type() != call.compute || !can_compute(x))
    return {};
  if ((x.dim() != 4 && x.dim() != 2) || x.size(1) % kEight != 0 || x.numel() == 0) return {};
  if (!x.is_contiguous(way_of(x)) || !is_aligned(x)) return {};
  const auto& p = call.parameters;
  for (const at::Tensor& parameter : p) {
    if (!is_float(parameter, x.size(1))) return {};
  }
  const c10::cuda::CUDAGuard guard(x.device());
  if (norm_program(x.scalar_type(), relu) == nullptr) return {};
  return BatchNorm::apply(x, p[0], p[1],
                          ChannelNorm{p[2].detach(), p[3].detach(), static_cast<float>(momentum),
                                      static_cast<float>(eps), relu});
}

at::Tensor fused_layer_norm(const LayerCall& call, double eps) {
  const at::Tensor& x = call.inputs[0];
  const bool mixed = call.compute == at::kBFloat16 || call.compute == at::kHalf;
  if (!mixed || (x.scalar_type() != call.compute && x.scalar_type() != at::kFloat)) return {};
  const std::int64_t width = x.size(-1);
  if (!can_compute(x) || width % kEight != 0 || width > kMaxWidth || x.numel() == 0) return {};
  if (!x.is_contiguous() || !is_aligned(x)) return {};
  if (!is_float(call.parameters[0], width) || !is_float(call.parameters[1], width)) return {};
  const c10::cuda::CUDAGuard guard(x.device());
  if (row_program(call.compute, width, x.scalar_type() == at::kFloat) == nullptr) return {};
  return LayerNorm::apply(x, call.parameters[0], call.parameters[1],
                          RowNorm{static_cast<float>(eps), call.compute});
}

at::Tensor fused_add_relu(const LayerCall& call) {
  if (call.inputs.size() != 2) return {};
  const at::Tensor &a = call.inputs[0], &b = call.inputs[1];
  if (!is_short(a) || a.scalar_type() != b.scalar_type() || !can_compute(a)) return {};
  if (a.sizes() != b.sizes() || a.strides() != b.strides() || !a.is_non_overlapping_and_dense())
    return {};
  if (a.numel() == 0 || a.numel() % kEight != 0 || !is_aligned(a) || !is_aligned(b)) return {};
  const c10::cuda::CUDAGuard guard(a.device());
  if (norm_program(a.scalar_type(), false) == nullptr) return {};
  return AddRelu::apply(a, b);
}

}  // namespace

at::Tensor fused_linear(const at::Tensor& x, const LayerCall& call, FusedPlaces places) {
  return linear(x, call, places, /*gelu=*/false);
}

LayerForward make_fused_forward(const LayerQuery& query, std::string_view activation) {
  if (query.type == "linear" && activation == "gelu" && query.integer("bias") != 0) {
    return [](const LayerCall& call) {
      return linear(as(call.inputs[0], call.compute), call, {0, 1}, /*gelu=*/true);
    };
  }
  const bool relu = activation == "relu";
  if (!relu && !activation.empty()) return {};
  if (query.type == "batch_norm") {
    return [momentum = query.number("momentum"), eps = query.number("eps"),
            relu](const LayerCall& call) { return fused_batch_norm(call, momentum, eps, relu); };
  }
  if (query.type == "layer_norm" && !relu) {
    return
        [eps = query.number("eps")](const LayerCall& call) { return fused_layer_norm(call, eps); };
  }
  if (query.type == "add" && relu && !query.has("constant")) return fused_add_relu;
  return {};
}

}  // namespace harmonics::inline in_runtime
