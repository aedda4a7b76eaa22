// How layers are taken in inference on the CPU.
#include <ATen/ops/cat.h>

#include <algorithm>

#include "torch_backend.h"

namespace harmonics::inline in_runtime {
namespace {

/// What a tensor between layers may take of the cache; a sample of it is taken whole in any case.
constexpr std::size_t kCachedBytes = std::size_t{4} << 20;

}  // namespace

// What entered stays: its memory, which layers may hand on as their own, is the caller's.
void TorchBackend::drop(const std::vector<std::uint32_t>& slots, Tensors& values) const {
  for (const std::uint32_t slot : slots) {
    if (slot >= graph_.producers().size()) values[slot].reset();
  }
}

void TorchBackend::infer_steps(std::size_t first, std::size_t end, Tensors& values,
                               const AxisValues& axes) {
  Tensors inputs;
  for (std::size_t i = first; i < end; ++i) {
    const LayerStep& step = program_.layers[i];
    inputs.clear();
    for (const Use& input : step.inputs) inputs.push_back(values[input.slot]);
    const Tensors own = own_parameters(step, parameters_, inputs);
    // What nobody reads later belongs to the layer alone.
    drop(step.last_reads, values);
    LayerCall call;
    call.inputs = inputs;
    if (step.given_weight < 0) call.kept = &kept_[i];
    at::Tensor output = compute(step, call, own);
    check_output(step, output, axes);
    values[step.output] = std::move(output);
  }
}

void TorchBackend::infer_run(const SampleRun& run, std::int64_t chunk, Tensors& values,
                             const AxisValues& axes) {
  const std::int64_t samples = values[run.entering.front()].size(0);
  std::vector<Tensors> left(run.leaving.size());
  for (std::int64_t begin = 0; begin < samples; begin += chunk) {
    Tensors some(values.size());
    for (const std::uint32_t slot : run.entering) {
      some[slot] = values[slot].narrow(0, begin, std::min(chunk, samples - begin));
    }
    infer_steps(run.first, run.end, some, axes);
    for (std::size_t i = 0; i < left.size(); ++i) {
      left[i].push_back(std::move(some[run.leaving[i]]));
    }
  }
  for (std::size_t i = run.first; i < run.end; ++i) {
    drop(program_.layers[i].last_reads, values);
  }
  for (std::size_t i = 0; i < left.size(); ++i) values[run.leaving[i]] = at::cat(left[i]);
}

void TorchBackend::infer_layers(Tensors& values, const AxisValues& axes) {
  kept_.resize(program_.layers.size());
  std::size_t at = 0;
  for (const SampleRun& run : program_.sample_runs) {
    infer_steps(at, run.first, values, axes);
    const auto chunk = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(kCachedBytes / std::max<std::size_t>(run.sample_bytes, 1)));
    if (values[run.entering.front()].size(0) > chunk) {
      infer_run(run, chunk, values, axes);
    } else {
      infer_steps(run.first, run.end, values, axes);
    }
    at = run.end;
  }
  infer_steps(at, program_.layers.size(), values, axes);
}

}  // namespace harmonics::inline in_runtime
