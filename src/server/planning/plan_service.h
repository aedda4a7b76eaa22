// Plans pipelines beside the loop, which must not wait for it (private to server).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <thread>
#include <variant>

#include <harmonics/base/channel.h>
#include <harmonics/cluster/event.h>

#include "pipeline_plan.h"
#include "profile_store.h"

namespace harmonics::inline in_server {

/// Ports that stages meet at, below those that systems give to outgoing connections.
inline constexpr std::uint16_t kFirstStagePort = 20'000;
inline constexpr std::uint16_t kLastStagePort = 31'999;

/// Answers every question with a plan or with why there is none. Besides the plan it gives a run
/// what all stages must share: a secret, a port for each, and a folder for the checkpoint, made
/// here, with a file by which a stage knows that it sees the same folder. Plans rest on
/// what workers have measured, where that is known, and on estimates; stages tell what they measure
/// as they train. Where a pipeline wants profiles and one is missing, the first plan is to make it.
/// One thread of its own.
class PlanService {
 public:
  struct Options {
    std::filesystem::path folder;  ///< Where checkpoints go unless a pipeline names a folder.
    bool tls = false;              ///< Stages are to speak TLS, with their workers' certificates.
  };
  /// `answer` is called from the thread.
  PlanService(Options options, std::function<void(PlanMade)> answer);
  /// Ends the thread; what was not answered stays so.
  ~PlanService();
  PlanService(const PlanService&) = delete;
  PlanService& operator=(const PlanService&) = delete;

  void ask(AskPlan question);
  /// Later plans of the same model know it.
  void learn(StageMeasured measured);

 private:
  void run();
  [[nodiscard]] PlanMade make(const AskPlan& question);
  [[nodiscard]] PipelinePlan measure_first(const AskPlan& question,
                                           std::vector<std::size_t> unmeasured, Json& access);
  [[nodiscard]] PipelinePlan plan_now(const AskPlan& question,
                                      const std::vector<StagePlace>& places, Json& access);
  /// What all stages of the run share.
  [[nodiscard]] Json access_of(const AskPlan& question);
  [[nodiscard]] std::filesystem::path parent_of(const PipelineSpec& spec) const;

  const Options options_;
  const ProfileStore profiles_;
  const std::function<void(PlanMade)> answer_;
  std::uint32_t next_port_;
  Channel<std::variant<AskPlan, StageMeasured>> questions_;
  std::thread thread_;
};

}  // namespace harmonics::inline in_server
