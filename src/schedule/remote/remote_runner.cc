#include "remote_runner.h"

#include <utility>

namespace harmonics::inline in_schedule {

std::vector<Computed> RemoteRunner::compute(std::span<Stage> stages,
                                            std::span<const NamedTensors> batches, bool measure) {
  std::vector<Computed> all;
  const bool proves = stages.front()->prover() != nullptr;
  for (const NamedTensors& batch : batches) {
    const std::int64_t rows = agreement_.rows(batch);
    // A proof is for one batch: no two have the same number.
    const std::uint64_t step = proves ? agreement_.pipeline().next_computed() : agreement_.step();
    SlicedBatch one;
    one.micro_batches.push_back({step, 0, 0, rows});
    one.slices.push_back(batch);
    all.push_back(std::move(agreement_.pipeline().compute(stages, one, measure).front()));
  }
  return all;
}

}  // namespace harmonics::inline in_schedule
