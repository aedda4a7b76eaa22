// Layers that bring numbers to one scale.
#include <harmonics/base/format.h>

#include "builtin.h"
#include "builtin_attributes.h"

namespace harmonics::inline in_graph {
namespace {

void need_eps(const LayerQuery& q) {
  if (!(q.number("eps") >= 0)) q.refuse("'eps' must be at least 0");
}

LayerShape infer_batch_norm(const LayerQuery& q) {
  need_floating(q);
  const std::size_t rank = q.inputs[0].shape.size();
  if (rank != 1 && rank != 3)
    q.refuse("needs an input of shape {features} or {channels, height, width}");
  const std::int64_t channels = q.inputs[0].shape[0];
  LayerShape result{q.inputs[0], {}, 8.0 * elements(q.inputs[0].shape)};
  result.parameters = {{"weight", {channels}, Init::kConstant, 1},
                       {"bias", {channels}, Init::kConstant, 0},
                       {"running_mean", {channels}, Init::kConstant, 0, false},
                       {"running_var", {channels}, Init::kConstant, 1, false}};
  return result;
}

LayerShape infer_layer_norm(const LayerQuery& q) {
  need_floating(q);
  need_an_axis(q);
  const std::int64_t width = q.inputs[0].shape.back();
  LayerShape result{q.inputs[0], {}, 8.0 * elements(q.inputs[0].shape)};
  result.parameters = {{"weight", {width}, Init::kConstant, 1},
                       {"bias", {width}, Init::kConstant, 0}};
  return result;
}

// Each number against the squares of `size` channels around its own.
LayerShape infer_local_response_norm(const LayerQuery& q) {
  need_floating(q);
  need_rank(q, 3, "{channels, height, width}");
  const std::int64_t size = q.integer("size", 1);
  for (const char* name : {"alpha", "beta", "k"}) static_cast<void>(q.number(name));
  return {q.inputs[0], {}, static_cast<double>(size + 4) * elements(q.inputs[0].shape)};
}

LayerShape infer_rms_norm(const LayerQuery& q) {
  need_floating(q);
  need_an_axis(q);
  need_eps(q);
  const std::int64_t width = q.inputs[0].shape.back();
  return {
      q.inputs[0], {{"weight", {width}, Init::kConstant, 1}}, 5.0 * elements(q.inputs[0].shape)};
}

LayerShape infer_normalize(const LayerQuery& q) {
  need_floating(q);
  need_an_axis(q);
  need_eps(q);
  return {q.inputs[0], {}, 3.0 * elements(q.inputs[0].shape)};
}

LayerShape per_channel(const LayerQuery& q, const char* axes) {
  need_floating(q);
  if (q.inputs[0].shape.size() < 2) q.refuse(format("needs an input of shape {}", axes));
  need_eps(q);
  const std::int64_t channels = q.inputs[0].shape[0];
  LayerShape result{q.inputs[0], {}, 8.0 * elements(q.inputs[0].shape)};
  result.parameters = {{"weight", {channels}, Init::kConstant, 1},
                       {"bias", {channels}, Init::kConstant, 0}};
  return result;
}

LayerShape infer_group_norm(const LayerQuery& q) {
  LayerShape result = per_channel(q, "{channels, …}");
  const std::int64_t channels = q.inputs[0].shape[0], groups = q.integer("groups", 1);
  if (channels % groups != 0) {
    q.refuse(format("groups={} must divide the {} channels", groups, channels));
  }
  return result;
}

LayerShape infer_instance_norm(const LayerQuery& q) { return per_channel(q, "{channels, …}"); }

}  // namespace

std::vector<LayerType> norm_layer_types() {
  return {
      {"batch_norm",
       {with_default("eps", 1e-5), with_default("momentum", 0.1)},
       1,
       1,
       infer_batch_norm},
      {"layer_norm", {with_default("eps", 1e-5)}, 1, 1, infer_layer_norm},
      {"group_norm", {required("groups"), with_default("eps", 1e-5)}, 1, 1, infer_group_norm},
      {"instance_norm", {with_default("eps", 1e-5)}, 1, 1, infer_instance_norm},
      {"local_response_norm",
       {required("size"), with_default("alpha", 1e-4), with_default("beta", 0.75),
        with_default("k", 1.0)},
       1,
       1,
       infer_local_response_norm},
      {"rms_norm", {with_default("eps", 1e-6)}, 1, 1, infer_rms_norm},
      {"normalize", {with_default("eps", 1e-12)}, 1, 1, infer_normalize},
  };
}

}  // namespace harmonics::inline in_graph
