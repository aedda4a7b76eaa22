// RemoteRunner: one part of a run whose other parts are in other processes (private to schedule).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include <harmonics/runtime/batch_runner.h>
#include <harmonics/schedule/remote_scheduler.h>

#include "peers.h"

namespace harmonics {

/// Computes the one stage of its chain on the caller's thread and talks to the neighbours. After an
/// Error the other parts are told by an Error of their own, and every further call is one.
class RemoteRunner final : public BatchRunner {
 public:
  RemoteRunner(Peers peers, PartRecord own, const RemoteOptions& options);
  ~RemoteRunner() override;

  /// Meets the other parts first, if that has not happened.
  [[nodiscard]] bool await_batch(std::uint64_t step) override;
  [[nodiscard]] std::int64_t rows(const NamedTensors& data) const override;
  [[nodiscard]] SliceResults run(std::span<Stage> stages, const SlicedBatch& batch) override;
  [[nodiscard]] NamedTensors infer(std::span<Stage> stages, const NamedTensors& data) override;
  void for_each(std::span<Stage> stages,
                const std::function<void(std::size_t, Stage&)>& visit) override;
  [[nodiscard]] std::map<std::string, double> all_square_sums(std::map<std::string, double> own,
                                                              std::uint64_t step) override;
  void end_epoch() override;
  [[nodiscard]] bool learns() const override { return map_ && map_->learns(); }
  [[nodiscard]] bool paces_epochs() const override { return !own_.entering.empty(); }

  /// True once it has tried to meet the others: from then on they depend on it.
  [[nodiscard]] bool has_begun() const { return begun_; }
  /// Lets go of the other parts, which get an Error; `why` is told in every later call.
  void abandon(const std::string& why);

 private:
  void check_alive() const;
  void meet(std::uint64_t step);
  [[nodiscard]] Nanoseconds patience() const { return options_.pipeline.deadline; }

  Peers peers_;
  PartRecord own_;
  const RemoteOptions options_;
  bool begun_ = false;
  std::optional<PartMap> map_;
  std::size_t width_ = 0;
  std::size_t depth_ = 1;
  /// Of the batch under way, when neighbours send it.
  std::optional<BatchHead> head_;
  std::uint64_t step_ = 0;
  std::string stopped_by_;
};

}  // namespace harmonics
