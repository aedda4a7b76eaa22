// In harmonics-text-torch: a GPU by libtorch.
#include <map>

#include <harmonics/runtime/devices.h>
#include <harmonics/runtime/torch_token_stage.h>

#include "token_device.h"

namespace harmonics::inline in_text_program {
namespace {

// What most numbers of the matrices are kept in.
DType numbers_of(const WeightSource& weights) {
  std::map<DType, std::int64_t> counts;
  for (const auto& [name, entry] : weights.entries()) {
    if (entry.shape.size() < 2) continue;
    DType kept = entry.packing == Packing::kPlain ? entry.stored.dtype : DType::kBFloat16;
    if (kept != DType::kBFloat16 && kept != DType::kFloat16) kept = DType::kFloat32;
    counts[kept] += element_count(entry.shape);
  }
  DType most = DType::kFloat32;
  for (const auto& [kept, count] : counts) {
    if (count > counts[most]) most = kept;
  }
  return most;
}

}  // namespace

TokenDevice token_device(const TextComputing& computing, const WeightSource& weights) {
  if (computing.backend == TextBackend::kCpu) return {};
  if (computing.backend == TextBackend::kAuto && !cuda_available()) return {};
  TorchTokenOptions torch;
  torch.device = resolve_device(Backend::GPU, std::nullopt, /*strict=*/false);
  if (torch.device.kind == DeviceKind::kCpu) return {};
  torch.numbers = numbers_of(weights);
  torch.deterministic = computing.deterministic;
  return {[torch](const HarmonicGraph& graph, const WeightSource& source,
                  const TokenStageOptions& options) {
    return make_torch_token_stage(graph, source, options, torch);
  }};
}

}  // namespace harmonics::inline in_text_program
