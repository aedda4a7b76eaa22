// One source of data for several replicas (private to schedule).
#pragma once

#include <cstddef>
#include <vector>

#include <harmonics/base/clock.h>
#include <harmonics/data/producer.h>

namespace harmonics::inline in_schedule {

/// How many tensors one reader may be ahead of the slowest. Replicas that learn together need two;
/// while they evaluate, nothing else keeps them in step.
inline constexpr std::size_t kMaxReplicaLead = 8;

/// Readers that each yield everything that `source` yields, in its order; every tensor is read once
/// and shared. Each reader belongs to one thread at a time; different readers may be used at the
/// same time. All of them must make the same passes (begin_epoch or seek). A reader that is
/// kMaxReplicaLead tensors ahead of another waits for it; after `patience`, or when one is left
/// behind in an earlier pass, that is an Error. The source is used by the readers alone.
[[nodiscard]] std::vector<ProducerPtr> share_producer(const ProducerPtr& source,
                                                      std::size_t readers, Nanoseconds patience);

}  // namespace harmonics::inline in_schedule
