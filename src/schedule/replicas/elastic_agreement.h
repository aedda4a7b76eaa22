// ElasticAgreement: lets replicas come back between two steps (private to schedule).
#pragma once

#include <filesystem>
#include <functional>
#include <utility>

#include <harmonics/schedule/run_agreement.h>

#include "replica_runner.h"

namespace harmonics::inline in_schedule {

/// For a row that is whole in this process and whose runner is that replica.
class ElasticAgreement final : public RunAgreement {
 public:
  using HandOn = std::function<void(const std::filesystem::path&)>;

  /// The runner must outlive it; `hand_on` writes the state of the run to a file.
  ElasticAgreement(ReplicaRunner& replica, HandOn hand_on)
      : replica_(replica), hand_on_(std::move(hand_on)) {}

  [[nodiscard]] bool await_batch(std::uint64_t step) override {
    replica_.meet_company(step, hand_on_);
    return true;
  }

 private:
  ReplicaRunner& replica_;
  const HandOn hand_on_;
};

}  // namespace harmonics::inline in_schedule
