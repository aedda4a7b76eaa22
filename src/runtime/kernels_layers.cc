#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "kernels.h"

namespace harmonics::inline in_runtime {
namespace {

// Casting to the dtype a tensor already has is free.
at::Tensor as(const at::Tensor& tensor, at::ScalarType dtype) {
  return tensor.scalar_type() == dtype ? tensor : tensor.to(dtype);
}

// Norms and losses run in the precision of their parameters, never in 16 bits.
at::Tensor as_parameter(const LayerCall& call) {
  return as(call.inputs[0], call.parameters[0].scalar_type());
}

at::Tensor optional_bias(const LayerCall& call, std::size_t index) {
  return call.parameters.size() > index ? as(call.parameters[index], call.compute) : at::Tensor();
}

// One number for both axes, or two.
std::vector<std::int64_t> pair_of(const LayerQuery& q, std::string_view name) {
  Shape value = q.list(name);
  if (value.size() == 1) value.push_back(value[0]);
  return value;
}

LayerForward make_linear(const LayerQuery& q) {
  const bool has_bias = q.integer("bias") != 0;
  return [has_bias](const LayerCall& call) {
    return at::linear(as(call.inputs[0], call.compute), as(call.parameters[0], call.compute),
                      has_bias ? as(call.parameters[1], call.compute) : at::Tensor());
  };
}

LayerForward make_conv2d(const LayerQuery& q) {
  const bool has_bias = q.integer("bias") != 0;
  const std::vector<std::int64_t> one = {1, 1};
  return [has_bias, one, stride = pair_of(q, "stride"), padding = pair_of(q, "padding"),
          groups = q.integer("groups")](const LayerCall& call) {
    return at::conv2d(as(call.inputs[0], call.compute), as(call.parameters[0], call.compute),
                      has_bias ? as(call.parameters[1], call.compute) : at::Tensor(), stride,
                      padding, one, groups);
  };
}

struct Window {
  std::vector<std::int64_t> kernel, stride, padding;
  explicit Window(const LayerQuery& q)
      : kernel(pair_of(q, "kernel")),
        stride(q.has("stride") ? pair_of(q, "stride") : kernel),
        padding(pair_of(q, "padding")) {}
};

LayerForward make_max_pool(const LayerQuery& q) {
  return [w = Window(q)](const LayerCall& call) {
    return at::max_pool2d(call.inputs[0], w.kernel, w.stride, w.padding);
  };
}

LayerForward make_avg_pool(const LayerQuery& q) {
  return [w = Window(q)](const LayerCall& call) {
    return at::avg_pool2d(call.inputs[0], w.kernel, w.stride, w.padding);
  };
}

LayerForward make_adaptive_avg_pool(const LayerQuery& q) {
  return [size = pair_of(q, "size")](const LayerCall& call) {
    return at::adaptive_avg_pool2d(call.inputs[0], size);
  };
}

LayerForward make_adaptive_max_pool(const LayerQuery& q) {
  return [size = pair_of(q, "size")](const LayerCall& call) {
    return std::get<0>(at::adaptive_max_pool2d(call.inputs[0], size));
  };
}

LayerForward make_flatten(const LayerQuery&) {
  return [](const LayerCall& call) { return call.inputs[0].flatten(1); };
}

LayerForward make_reshape(const LayerQuery& q) {
  return [shape = q.list("shape")](const LayerCall& call) {
    std::vector<std::int64_t> whole = {call.inputs[0].size(0)};
    whole.insert(whole.end(), shape.begin(), shape.end());
    return call.inputs[0].reshape(whole);
  };
}

LayerForward make_batch_norm(const LayerQuery& q) {
  return [eps = q.number("eps"), momentum = q.number("momentum")](const LayerCall& call) {
    // A GPU reads and writes 16 bits here but computes in those of the parameters.
    const at::Tensor x = call.inputs[0].is_cuda() ? call.inputs[0] : as_parameter(call);
    return at::batch_norm(x, call.parameters[0], call.parameters[1], call.parameters[2],
                          call.parameters[3], call.training, momentum, eps,
                          /*cudnn_enabled=*/true);
  };
}

LayerForward make_layer_norm(const LayerQuery& q) {
  return [eps = q.number("eps")](const LayerCall& call) {
    return at::layer_norm(as_parameter(call), call.parameters[0].sizes(), call.parameters[0],
                          call.parameters[1], eps);
  };
}

LayerForward make_dropout(const LayerQuery& q) {
  return [p = q.number("p")](const LayerCall& call) {
    return call.training && p > 0 ? counter_dropout(call.inputs[0], p, call)
                                  : at::alias(call.inputs[0]);
  };
}

LayerForward make_embedding(const LayerQuery&) {
  return [](const LayerCall& call) {
    return at::embedding(call.parameters[0], as(call.inputs[0], at::kLong));
  };
}

// Multi-head self-attention over {batch, length, width}; heads are contiguous slices of the width.
LayerForward make_attention(const LayerQuery& q) {
  const std::int64_t heads = q.integer("heads");
  const bool causal = q.integer("causal") != 0;
  const bool project = q.integer("project") != 0;
  return [heads, causal, project](const LayerCall& call) {
    const at::Tensor x = as(call.inputs[0], call.compute);
    const std::int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
    const at::Tensor qkv =
        at::linear(x, as(call.parameters[0], call.compute), as(call.parameters[1], call.compute))
            .reshape({batch, length, 3, heads, width / heads})
            .permute({2, 0, 3, 1, 4});
    const at::Tensor query = qkv[0], key = qkv[1], value = qkv[2];
    const auto joined = [&](const at::Tensor& mixed) {
      const at::Tensor rows = mixed.transpose(1, 2).reshape({batch, length, width});
      return project
                 ? at::linear(rows, as(call.parameters[2], call.compute), optional_bias(call, 3))
                 : rows;
    };
#if TORCH_VERSION_MAJOR >= 2
    // One fused kernel on a GPU; its softmax runs in float32.
    if (x.is_cuda())
      return joined(at::scaled_dot_product_attention(query, key, value, {}, 0.0, causal));
#endif
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

LayerForward make_add(const LayerQuery&) {
  return [](const LayerCall& call) {
    at::Tensor sum = call.inputs[0];
    for (std::size_t i = 1; i < call.inputs.size(); ++i) sum = sum + call.inputs[i];
    return sum;
  };
}

LayerForward make_mul(const LayerQuery&) {
  return [](const LayerCall& call) {
    at::Tensor product = call.inputs[0];
    for (std::size_t i = 1; i < call.inputs.size(); ++i) product = product * call.inputs[i];
    return product;
  };
}

LayerForward make_concat(const LayerQuery& q) {
  return [axis = q.integer("axis") + 1](const LayerCall& call) {
    return at::cat(std::vector<at::Tensor>(call.inputs.begin(), call.inputs.end()), axis);
  };
}

LayerForward make_identity(const LayerQuery&) {
  return [](const LayerCall& call) { return at::alias(call.inputs[0]); };
}

LayerForward make_tokens(const LayerQuery&) {
  return [](const LayerCall& call) { return call.inputs[0].flatten(2).transpose(1, 2); };
}

LayerForward make_class_token(const LayerQuery&) {
  return [](const LayerCall& call) {
    const at::Tensor& x = call.inputs[0];
    const at::Tensor token =
        as(call.parameters[0], x.scalar_type()).view({1, 1, -1}).expand({x.size(0), 1, x.size(2)});
    return at::cat({token, x}, 1);
  };
}

LayerForward make_position(const LayerQuery&) {
  return [](const LayerCall& call) {
    return call.inputs[0] + as(call.parameters[0], call.inputs[0].scalar_type());
  };
}

LayerForward make_select(const LayerQuery& q) {
  return [index = q.integer("index")](const LayerCall& call) {
    return call.inputs[0].select(1, index);
  };
}

LayerForward make_mean(const LayerQuery&) {
  return [](const LayerCall& call) { return call.inputs[0].mean(1); };
}

}  // namespace

std::map<std::string, TorchLayer, std::less<>> builtin_layers() {
  return {{"linear", make_linear},
          {"conv2d", make_conv2d},
          {"max_pool", make_max_pool},
          {"avg_pool", make_avg_pool},
          {"adaptive_avg_pool", make_adaptive_avg_pool},
          {"adaptive_max_pool", make_adaptive_max_pool},
          {"flatten", make_flatten},
          {"reshape", make_reshape},
          {"batch_norm", make_batch_norm},
          {"layer_norm", make_layer_norm},
          {"dropout", make_dropout},
          {"embedding", make_embedding},
          {"attention", make_attention},
          {"add", make_add},
          {"mul", make_mul},
          {"concat", make_concat},
          {"identity", make_identity},
          {"tokens", make_tokens},
          {"class_token", make_class_token},
          {"position", make_position},
          {"select", make_select},
          {"mean", make_mean}};
}

}  // namespace harmonics::inline in_runtime
