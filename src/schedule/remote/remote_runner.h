// RemoteRunner: passes through stages whose neighbours are in other processes (private to
// schedule).
#pragma once

#include <functional>
#include <span>
#include <vector>

#include <harmonics/schedule/batch_runner.h>

#include "remote_agreement.h"

namespace harmonics::inline in_schedule {

/// Runs what its agreement has settled: one part on the caller's thread, several on threads of
/// their own. Before the parts have met, or after an Error, a call is an Error.
class RemoteRunner final : public BatchRunner {
 public:
  /// `agreement` must outlive it.
  explicit RemoteRunner(RemoteAgreement& agreement) : agreement_(agreement) {}

  [[nodiscard]] SliceResults run(std::span<Stage> stages, const SlicedBatch& batch) override {
    return agreement_.pipeline_for(batch).run(stages, batch);
  }
  void for_each(std::span<Stage> stages,
                const std::function<void(std::size_t, Stage&)>& visit) override {
    agreement_.pipeline().for_each(stages, visit);
  }
  [[nodiscard]] std::vector<Computed> compute(std::span<Stage> stages,
                                              std::span<const NamedTensors> batches,
                                              bool measure) override;
  [[nodiscard]] StreamOutcome stream(std::span<Stage> stages, const StreamWork& work) override {
    return agreement_.pipeline().stream(stages, work);
  }
  [[nodiscard]] bool streams_whole() const override { return false; }
  void forget_rests() override { agreement_.forget_rests(); }
  [[nodiscard]] std::int64_t own_batch(std::int64_t number) const override {
    return agreement_.pipeline().own_batch(number);
  }

 private:
  RemoteAgreement& agreement_;
};

}  // namespace harmonics::inline in_schedule
