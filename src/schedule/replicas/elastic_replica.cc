// What a replica does that may lose others, and find them again.
#include <algorithm>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>

#include "replica_runner.h"

namespace harmonics::inline in_schedule {
namespace {

constexpr const char* kCommit = "@commit";

/// Whether another replica may be gone, rather than something wrong.
bool may_be_gone(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kAborted:
    case ErrorCode::kCancelled:
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kUnavailable: return true;
    default: return false;
  }
}

}  // namespace

void ReplicaRunner::meet_company(std::uint64_t steps,
                                 const std::function<void(const std::filesystem::path&)>& hand_on) {
  if (reducer_ && !newcomer_is_due_) return;
  newcomer_is_due_ = false;
  reducer_.reset();
  adopt(company_->regroup({steps, false, true, shares_.text()}, hand_on), steps);
}

SliceResults ReplicaRunner::run_elastic(std::span<Stage> stages, SlicedBatch batch) {
  const std::uint64_t step = batch.micro_batches.front().step;
  const NamedTensors before = collect(stages, &StageBackend::buffers);
  for (;;) {
    std::optional<Summed> held;
    bool all_have_it = false;
    failed_here_ = false;
    try {
      held = sum_share(stages, batch, before);
      commit(step);
      all_have_it = true;
    } catch (const Error& error) {
      if (failed_here_ || !may_be_gone(error)) throw;
      log_info("schedule", "replica {}: {}", number_, error.what());
    }
    if (all_have_it) return take_over(stages, batch, *held, before);
    reducer_.reset();
    const auto hands_on_nothing = [](const std::filesystem::path&) {};
    ReplicaGroup group =
        company_->regroup({step, held.has_value(), false, shares_.text()}, hands_on_nothing);
    if (group.take_over) {
      SliceResults results = take_over(stages, batch, held.value(), before);
      adopt(std::move(group), step + 1);
      return results;
    }
    for (Stage& stage : stages) {
      stage->reset();
      stage->set_buffers(before);
    }
    adopt(std::move(group), step);
    batch = cut_anew(batch);
  }
}

// Who gets the sum knows that all others have given to it, and so that they have the sums of the
// step: whoever takes those over is not alone with them.
void ReplicaRunner::commit(std::uint64_t step) {
  static_cast<void>(reducer_->sum({{kCommit, Tensor::zeros({1}, DType::kFloat64)}}, step));
}

void ReplicaRunner::adopt(ReplicaGroup group, std::uint64_t step) {
  members_ = std::move(group.members);
  reducer_.emplace(std::move(group.ends), reduction_);
  introduced_ = false;  // the weights are compared anew
  rates_.clear();
  most_rows_ = 0;
  shares_ = BatchShares::parse(group.shares);
  if (!shares_.change(step, weights_of_members())) {
    fail(ErrorCode::kResourceExhausted,
         "replicas went away and came back {} times: go on from a checkpoint", kMaxShareChanges);
  }
}

ShareWeights ReplicaRunner::weights_of_members() const {
  const ShareWeights* const given = runtime_.shares.at(0);
  ShareWeights weights(replicas_, 0);
  bool some = false;
  for (const std::size_t member : members_) {
    weights[member] = given == nullptr ? 1 : (*given)[member];
    some = some || weights[member] > 0;
  }
  if (some) return weights;
  for (const std::size_t member : members_) weights[member] = 1;  // only idle ones are left
  return weights;
}

SlicedBatch ReplicaRunner::cut_anew(const SlicedBatch& batch) {
  NamedTensors whole;
  for (const auto& [name, first] : batch.slices.front()) {
    std::vector<Tensor> slices;
    for (const NamedTensors& slice : batch.slices) slices.push_back(slice.at(name));
    whole.emplace(name, concat_rows(slices));
  }
  const MicroBatch& first = batch.micro_batches.front();
  RuntimeOptions options = runtime_;
  options.micro_batches = static_cast<int>(micro_batches_);
  SlicedBatch anew = slice_batch(whole, cut(first.batch_samples, options, first.step), first.step);
  anew.loss_scale = batch.loss_scale;
  anew.keep_outputs = batch.keep_outputs;
  return anew;
}

}  // namespace harmonics::inline in_schedule
