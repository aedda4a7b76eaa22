// Plans pipelines beside the loop, which must not wait for it (private to server).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <thread>

#include <harmonics/base/channel.h>
#include <harmonics/cluster/event.h>

#include "pipeline_plan.h"

namespace harmonics {

/// Ports that stages meet at, below those that systems give to outgoing connections.
inline constexpr std::uint16_t kFirstStagePort = 20'000;
inline constexpr std::uint16_t kLastStagePort = 31'999;

/// Answers every question with a plan or with why there is none. Besides the plan it gives a run
/// what all stages must share: a secret, a port for each, and a folder for the checkpoint, made
/// here, with a file by which a stage knows that it sees the same folder. What workers have
/// measured lies beside these folders; where a pipeline wants that and it is not there, the first
/// plan is to measure. One thread of its own.
class PlanService {
 public:
  /// `folder` is where checkpoints go unless a pipeline names a folder. `answer` is called from the
  /// thread.
  PlanService(std::filesystem::path folder, std::function<void(PlanMade)> answer);
  /// Ends the thread; what was not answered stays so.
  ~PlanService();
  PlanService(const PlanService&) = delete;
  PlanService& operator=(const PlanService&) = delete;

  void ask(AskPlan question);

 private:
  void run();
  [[nodiscard]] PlanMade make(const AskPlan& question);
  /// What all stages of the run share.
  [[nodiscard]] Json access_of(const AskPlan& question);
  [[nodiscard]] std::filesystem::path parent_of(const PipelineSpec& spec) const;

  const std::filesystem::path folder_;
  const std::function<void(PlanMade)> answer_;
  std::uint32_t next_port_;
  Channel<AskPlan> questions_;
  std::thread thread_;
};

}  // namespace harmonics
