#include <harmonics/runtime/stage.h>

#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/custody/digest.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/runtime/stage_backend.h>
#include <harmonics/runtime/stage_prover.h>

#include "backends.h"
#include "inputs.h"
#include "paced_backend.h"
#include "torch/recomputed_backend.h"

namespace harmonics::inline in_runtime {
namespace {

// Why the fpga backend cannot compute this graph; empty when it can.
std::string opencl_obstacle(const HarmonicGraph& graph) {
  if (!computes_in_float32(graph)) {
    return "computes in float64, the fpga backend only in float32";
  }
  if (!graph.axes().empty()) {
    return format(
        "follows the axis {}, the fpga backend computes fixed shapes: fix it with --axis {}={}",
        graph.axes().front().name, graph.axes().front().name, graph.axes().front().value);
  }
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    if (is_frozen(graph.layers()[i])) {
      return format("freezes layer '{}', the fpga backend trains all layers or none",
                    graph.layers()[i].name);
    }
    if (graph.layer_shape(i).given_weight >= 0) {
      return format("takes the weight of layer '{}' from another part, the fpga backend ties none",
                    graph.layers()[i].name);
    }
    for (const ParameterSpec& spec : graph.layer_shape(i).parameters) {
      if (spec.tied_to.empty()) continue;
      return format("ties layer '{}' to '{}', the fpga backend ties no parameters",
                    graph.layers()[i].name, spec.tied_to);
    }
  }
  return {};
}

std::unique_ptr<StageBackend> make_libtorch(HarmonicGraph graph, const RuntimeOptions& options,
                                            Device device) {
  return options.recompute == 1 ? make_torch_backend(std::move(graph), options, device)
                                : make_recomputed_backend(graph, options, device);
}

std::unique_ptr<StageBackend> make_stage_backend(HarmonicGraph graph,
                                                 const RuntimeOptions& options) {
  if (options.secure.proofs != nullptr) {
    if (options.backend == Backend::GPU || options.backend == Backend::FPGA) {
      fall_back_to_cpu(ErrorCode::kUnimplemented,
                       format("graph '{}' is to be proven, which the CPU does", graph.name()),
                       options.strict);
    }
    return options.secure.proofs->make_stage(std::move(graph));
  }
  if (options.reproducible) return make_exact_backend(std::move(graph), options);
  const BackendChoice choice = resolve_backend(options);
  if (choice.backend != Backend::FPGA)
    return make_libtorch(std::move(graph), options, choice.device);
  const std::string obstacle =
      options.recompute == 1
          ? opencl_obstacle(graph)
          : "is to be computed again in stretches, the fpga backend keeps everything";
  if (obstacle.empty()) {
    return make_opencl_backend(std::move(graph), options, choice.opencl_device);
  }
  fall_back_to_cpu(ErrorCode::kUnimplemented, format("graph '{}' {}", graph.name(), obstacle),
                   options.strict);
  return make_libtorch(std::move(graph), options, {});
}

}  // namespace

TapReport& TapReport::operator+=(const TapReport& other) {
  loss_sum += other.loss_sum;
  judged += other.judged;
  correct += other.correct;
  return *this;
}

Stage::Stage(HarmonicGraph graph, const RuntimeOptions& options) {
  options.check();
  if (!graph.resolved()) {
    fail(
        ErrorCode::kFailedPrecondition,
        "the shape of producer '{}' of graph '{}' is not known: declare it, or bind its data first",
        graph.unresolved().front(), graph.name());
  }
  if (options.threads > 0) use_compute_threads(options.threads);
  use_deterministic_operations(options.deterministic);
  const auto trace = options.pass_traces.find(graph.name());
  backend_ = make_paced_backend(
      make_stage_backend(std::move(graph), options),
      trace == options.pass_traces.end() ? std::filesystem::path() : trace->second);
}

void StageBackend::set_gradients(const NamedTensors& /*values*/) {
  fail(ErrorCode::kUnimplemented, "a stage on {} takes no gradients from replicas: use the CPU",
       place());
}

void StageBackend::listen_for_gradients(std::uint32_t /*last_micro_batch*/,
                                        GradientListener /*listener*/) {}

std::vector<std::pair<std::string, Tensor>> StageBackend::layer_values(std::uint32_t) {
  fail(ErrorCode::kUnimplemented,
       "what the layers of '{}' gave cannot be told on {}: do not ask for it to be signed",
       graph().name(), place());
}

void StageBackend::load_parameters(const ParameterReader& read) {
  NamedTensors all;
  for (const auto& [name, own] : parameters()) all.emplace(name, read(name));
  set_parameters(all);
}

NamedTensors StageBackend::buffers() const {
  const NamedTensors all = parameters();
  NamedTensors found;
  for (std::size_t i = 0; i < graph().layers().size(); ++i) {
    for (const ParameterSpec& spec : graph().layer_shape(i).parameters) {
      if (spec.trainable) continue;
      const std::string name = parameter_name(graph().layers()[i], spec);
      found.emplace(name, concat_rows(std::vector<Tensor>{all.at(name)}));
    }
  }
  return found;
}

void StageBackend::set_buffers(const NamedTensors& values) {
  NamedTensors all = parameters();
  for (const auto& [name, tensor] : buffers()) {
    if (const auto given = values.find(name); given != values.end()) all.at(name) = given->second;
  }
  set_parameters(all);
}

Digest weights_root(const NamedTensors& weights) {
  Sha256 digest;
  for (const auto& [name, value] : weights) {
    ByteWriter head;
    head.text(name);
    head.text(dtype_name(value.dtype()));
    head.number(static_cast<std::uint32_t>(value.shape().size()));
    for (const std::int64_t axis : value.shape()) head.number(axis);
    digest.update(head.bytes()).update(value.bytes());
  }
  return digest.finish();
}

std::string weights_digest(const NamedTensors& weights) {
  return digest_text(weights_root(weights));
}

}  // namespace harmonics::inline in_runtime
