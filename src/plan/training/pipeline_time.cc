#include <harmonics/plan/pipeline_time.h>

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>

#include <harmonics/base/check.h>
#include <harmonics/base/error.h>

namespace harmonics::inline in_plan {
namespace {

constexpr double kNotYet = -1;

/// Something that a host hands to another one when a pass is over.
struct Parcel {
  double ready_s = 0;
  std::size_t number = 0;  // of those that are ready at the same time the first one made
  std::size_t from = 0;    // hosts
  std::size_t to = 0;
  std::size_t stage = 0;  // that takes it
  Pass pass;              // that it is for
  bool operator>(const Parcel& other) const {
    return std::tie(ready_s, number) > std::tie(other.ready_s, other.number);
  }
};

/// A host of a stage and where it is in its passes.
struct PlayedHost {
  std::size_t stage = 0;
  std::vector<Pass> passes;
  std::size_t next = 0;
  double computes_until_s = 0;
  double sends_until_s = 0;
  double takes_until_s = 0;
};

class PlayedBatch {
 public:
  PlayedBatch(std::span<const StagePasses> stages, PipelineOrder order, std::uint32_t micro_batches)
      : stages_(stages) {
    came_.assign(stages.size(), std::vector<CameAt>(micro_batches));
    for (CameAt& one : came_.front()) one.forward_s = 0;
    for (CameAt& one : came_.back()) one.backward_s = 0;
    for (std::size_t k = 0; k < stages.size(); ++k) {
      first_host_.push_back(hosts_.size());
      const auto passes = pipeline_passes(order, micro_batches, stages.size() - k);
      for (std::size_t copy = 0; copy < stages[k].copies; ++copy) {
        PlayedHost& host = hosts_.emplace_back(PlayedHost{.stage = k, .passes = {}});
        std::ranges::copy_if(passes, std::back_inserter(host.passes), [&](const Pass& pass) {
          return pass.micro_batch % stages[k].copies == copy;
        });
      }
    }
  }

  double play() {
    for (std::size_t h = 0; h < hosts_.size(); ++h) compute(h);
    // Parcels of later passes are ready no earlier, so that they go in the order in which they are.
    while (!parcels_.empty()) {
      const Parcel parcel = parcels_.top();
      parcels_.pop();
      came(parcel) = deliver(parcel);
      compute(parcel.to);
    }
    double end_s = 0;
    for (const PlayedHost& host : hosts_) {
      HARMONICS_CHECK(host.next == host.passes.size(), "a stage waits for what nobody sends");
      end_s = std::max(end_s, host.computes_until_s);
    }
    return end_s;
  }

 private:
  struct CameAt {
    double forward_s = kNotYet;
    double backward_s = kNotYet;
  };

  double& came(const Parcel& parcel) {
    CameAt& one = came_[parcel.stage][parcel.pass.micro_batch];
    return parcel.pass.direction == Pass::Direction::kForward ? one.forward_s : one.backward_s;
  }

  // All passes of a host whose inputs have come.
  void compute(std::size_t h) {
    PlayedHost& host = hosts_[h];
    const StagePasses& costs = stages_[host.stage];
    for (; host.next < host.passes.size(); ++host.next) {
      const Pass& pass = host.passes[host.next];
      const bool forward = pass.direction == Pass::Direction::kForward;
      const CameAt& input = came_[host.stage][pass.micro_batch];
      const double came_s = forward ? input.forward_s : input.backward_s;
      if (came_s == kNotYet) return;
      host.computes_until_s =
          std::max(host.computes_until_s, came_s) + (forward ? costs.forward_s : costs.backward_s);
      hand_on(h, pass);
    }
  }

  void hand_on(std::size_t h, const Pass& pass) {
    const bool forward = pass.direction == Pass::Direction::kForward;
    const std::size_t stage = hosts_[h].stage;
    if (forward ? stage + 1 == stages_.size() : stage == 0) return;
    const std::size_t to = forward ? stage + 1 : stage - 1;
    const std::size_t host = first_host_[to] + pass.micro_batch % stages_[to].copies;
    parcels_.push({hosts_[h].computes_until_s, made_++, h, host, to, pass});
  }

  double deliver(const Parcel& parcel) {
    const bool forward = parcel.pass.direction == Pass::Direction::kForward;
    const StagePasses& link = stages_[forward ? parcel.stage - 1 : parcel.stage];
    const double bytes = forward ? link.sent_bytes : link.returned_bytes;
    if (bytes == 0) return parcel.ready_s + link.latency_s;
    double& sends = hosts_[parcel.from].sends_until_s;
    double& takes = hosts_[parcel.to].takes_until_s;
    sends = takes = std::max({parcel.ready_s, sends, takes}) + bytes / link.bytes_per_s;
    return sends + link.latency_s;
  }

  std::span<const StagePasses> stages_;
  std::vector<std::vector<CameAt>> came_;  // by stage and micro-batch
  std::vector<PlayedHost> hosts_;          // stage after stage
  std::vector<std::size_t> first_host_;    // of each stage
  std::priority_queue<Parcel, std::vector<Parcel>, std::greater<>> parcels_;
  std::size_t made_ = 0;
};

}  // namespace

double batch_time_s(std::span<const StagePasses> stages, PipelineOrder order,
                    std::uint32_t micro_batches) {
  if (stages.empty() || micro_batches == 0) return 0;
  if (stages.size() > kMaxPlayedPasses / micro_batches) {
    fail(ErrorCode::kResourceExhausted,
         "{} micro-batches in {} stages are more than the {} passes that can be predicted: take "
         "fewer micro-batches",
         micro_batches, stages.size(), kMaxPlayedPasses);
  }
  for (const StagePasses& stage : stages) {
    if (stage.copies == 0) fail(ErrorCode::kInvalidArgument, "a stage has no host");
  }
  return PlayedBatch(stages, order, micro_batches).play();
}

}  // namespace harmonics::inline in_plan
