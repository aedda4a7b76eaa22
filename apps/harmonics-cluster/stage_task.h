// What runs one stage of a pipeline on a worker: `harmonics stage`, told by the task and its plan.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace harmonics::inline in_cluster_program {

/// What a worker tells a stage.
struct StageOrders {
  std::string pipeline;            ///< JSON: bindings, settings, checkpoint_every.
  std::string graph;               ///< .harp text.
  std::string plan;                ///< docs/formats/pipeline-plan.md
  std::vector<std::string> hosts;  ///< Of all stages, in order.
  std::size_t rank = 0;
  std::string run;  ///< The attempt: stages of another one are strangers.
  bool has_devices = false;
  std::string tls;                ///< JSON: files of this worker's certificate; empty: it has none.
  std::filesystem::path scratch;  ///< A folder of its own, where model and plan are written.
};

/// The words after `harmonics` that run the stage. The boundaries that enter it meet at its own
/// host, those that leave it at the next. An Error when the orders do not fit together, when the
/// stages are to speak TLS and this worker has no certificate, or when this machine does not see
/// the folder that the server made for the checkpoint.
[[nodiscard]] std::vector<std::string> stage_words(const StageOrders& orders);

/// Reads its orders from the environment that a worker gives to a stage, and becomes that stage.
int stage_task();

}  // namespace harmonics::inline in_cluster_program
