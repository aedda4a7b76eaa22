// ReplicaRunner: makes a row of stages one of several copies that learn together (private to
// schedule).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <harmonics/runtime/options.h>
#include <harmonics/schedule/batch_runner.h>
#include <harmonics/schedule/reduction.h>
#include <harmonics/schedule/replica_company.h>
#include <harmonics/schedule/secure_run.h>

#include "replica_share.h"
#include "share_rates.h"

namespace harmonics::inline in_schedule {

/// Takes this replica's share of each batch through the stages with the runner that it is built
/// around, and sums gradients, losses and running statistics over all replicas before it returns:
/// clipping and the optimiser then see the whole batch's. Gradients are summed while the backward
/// pass that computes the next ones goes on. After an Error every further step is one,
/// save a loss that is not finite, which all replicas see in the same step.
class ReplicaRunner final : public BatchRunner {
 public:
  /// `runtime` is compared with that of the other replicas, and so are the weights. Shares that are
  /// not for as many replicas are an Error. `secure` is make_replica_custody's of the row, and must
  /// outlive it; null: nothing is signed.
  ReplicaRunner(std::unique_ptr<BatchRunner> inner, Reducer reducer, const RuntimeOptions& runtime,
                SecureRun* secure = nullptr);
  /// With replicas that may go away and come back. An Error that says that one has gone is then
  /// none here: the company says who computes the step again. Meet it before the first batch.
  ReplicaRunner(std::unique_ptr<BatchRunner> inner, std::unique_ptr<ReplicaCompany> company,
                const RuntimeOptions& runtime, const ReductionOptions& reduction);

  /// Between two steps, of which there were `steps`: lets in who has come back, and meets the
  /// company the first time.
  void meet_company(std::uint64_t steps,
                    const std::function<void(const std::filesystem::path&)>& hand_on);

  [[nodiscard]] SliceResults run(std::span<Stage> stages, const SlicedBatch& batch) override;
  [[nodiscard]] std::vector<std::int64_t> cut(std::int64_t rows, const RuntimeOptions& options,
                                              std::uint64_t step) override;
  [[nodiscard]] const BatchShares* dealt() const override { return &shares_; }

  void for_each(std::span<Stage> stages,
                const std::function<void(std::size_t, Stage&)>& visit) override {
    inner_->for_each(stages, visit);
  }
  [[nodiscard]] std::vector<Computed> compute(std::span<Stage> stages,
                                              std::span<const NamedTensors> batches,
                                              bool measure) override;
  [[nodiscard]] std::size_t batches_ahead() const override { return inner_->batches_ahead(); }
  void forget_rests() override { inner_->forget_rests(); }
  void begin_fit() override;
  /// A wish travels with the sums of the next step, so that all replicas hear of it in that step.
  [[nodiscard]] bool wish_end(bool own) override;

 private:
  /// What a batch came to in all replicas, before the stages take it over.
  struct Summed {
    ReplicaShare share;
    std::optional<ReplicaSums> sums;
    SliceResults results;
    NamedTensors reduced;
  };

  /// The first time: tells the others what this one is, and comes to one opening with them.
  void introduce(std::span<Stage> stages, std::uint64_t step);
  [[nodiscard]] Summed sum_share(std::span<Stage> stages, const SlicedBatch& batch,
                                 const NamedTensors& before);
  /// `failed` becomes the first replica whose loss is not finite, if there is one: then nothing of
  /// the batch was taken over.
  [[nodiscard]] SliceResults take_over(std::span<Stage> stages, const SlicedBatch& batch,
                                       Summed& summed, const NamedTensors& before);
  [[nodiscard]] SliceResults run_elastic(std::span<Stage> stages, SlicedBatch batch);
  /// Waits until all replicas have the sums of the step.
  void commit(std::uint64_t step);
  /// Goes on with these replicas from this step on.
  void adopt(ReplicaGroup group, std::uint64_t step);
  [[nodiscard]] ShareWeights weights_of_members() const;
  /// The same batch cut for those who are left.
  [[nodiscard]] SlicedBatch cut_anew(const SlicedBatch& batch);
  /// What this replica computes of the batch.
  [[nodiscard]] ReplicaShare share_of(const SlicedBatch& batch) const;
  /// Where shares follow rates: perhaps others from the next step on, the same ones in all
  /// replicas.
  void deal_anew(const SlicedBatch& batch, std::span<const double> seconds_per_row);
  /// Takes the share through the stages while gradients that are complete are summed already.
  [[nodiscard]] SliceResults pass(std::span<Stage> stages, const SlicedBatch& own);
  /// What nobody was told of in the backward pass is given after it; the names of all parameters
  /// that have a gradient.
  [[nodiscard]] std::set<std::string> give_rest(std::span<Stage> stages, const ReplicaSums& sums);
  /// The stages go on with these gradients, and the memory of the old ones takes the next sums.
  void take_gradients(std::span<Stage> stages, const NamedTensors& sums);
  /// One of the stages' named tensors, of all stages.
  [[nodiscard]] NamedTensors collect(std::span<Stage> stages,
                                     NamedTensors (StageBackend::*tensors)() const);

  /// The two tensors that a parameter's gradients lie in by turns.
  struct Gradients {
    Tensor held;   // what the stage was given last, and may still compute in
    Tensor given;  // what this replica gave to the sum of this step
    Tensor spare;  // what it gave to the last one: nobody reads it any more
  };

  std::unique_ptr<BatchRunner> inner_;
  SecureRun* const secure_ = nullptr;
  std::unique_ptr<ReplicaCompany> company_;  // null: who takes part stays as it is
  const ReductionOptions reduction_ = {};
  std::optional<Reducer> reducer_;  // nothing while the replica has no group
  std::size_t number_ = 0;
  std::size_t replicas_ = 1;                    // of the run, whoever lives
  std::vector<std::size_t> members_;            // those that live, by rank
  std::map<std::string, Gradients> gradients_;  // its keys change between passes only
  const RuntimeOptions runtime_;
  BatchShares shares_;  // given ones, or those that were dealt so far; empty: equal ones
  ShareRates rates_;
  std::int64_t most_rows_ = 0;      // of a batch
  std::int64_t micro_batches_ = 1;  // of a share, as the last batch was cut
  bool warned_ = false;
  bool introduced_ = false;
  bool wishes_end_ = false;
  bool end_is_wished_ = false;         // by some replica
  bool newcomer_is_due_ = false;       // some replica has heard of one
  bool failed_here_ = false;           // what was thrown last
  std::optional<std::size_t> failed_;  // whose loss is not finite
  std::string stopped_by_;
};

}  // namespace harmonics::inline in_schedule
