#include "remote_runner.h"

#include <utility>

namespace harmonics::inline in_schedule {

std::vector<Computed> RemoteRunner::compute(std::span<Stage> stages,
                                            std::span<const NamedTensors> batches, bool measure) {
  std::vector<Computed> all;
  for (const NamedTensors& batch : batches) {
    SlicedBatch one;
    one.micro_batches.push_back({agreement_.step(), 0, 0, agreement_.rows(batch)});
    one.slices.push_back(batch);
    all.push_back(std::move(agreement_.pipeline().compute(stages, one, measure).front()));
  }
  return all;
}

}  // namespace harmonics::inline in_schedule
