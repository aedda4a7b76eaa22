// What `harmonics run` and `harmonics stage --infer` have in common: from a command to the parts of
// a graph and the data that flows through them.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include <harmonics/graph/deployment.h>
#include <harmonics/graph/graph.h>
#include <harmonics/options/commands.h>
#include <harmonics/plan/plan_file.h>
#include <harmonics/runtime/options.h>
#include <harmonics/schedule/stream.h>
#include <harmonics/settings/train_settings.h>
#include <harmonics/transport/packing.h>

#include "stage_flow.h"

namespace harmonics::inline in_torch_program {

struct InferenceJob {
  /// With the weights that the file names where no flag does.
  RunCommand command;
  TrainSettings settings;
  /// Resolved.
  HarmonicGraph graph;
  /// As --parts, --plan or --deploy cut it.
  std::vector<HarmonicGraph> parts = {};
  PlanFile plan = {};
  DeploymentDescriptor deploy = {};
  /// What parts compute with that prove it; null where none do.
  std::shared_ptr<const ProvingStages> proofs = nullptr;
  /// Bits of the boundaries between the parts.
  BoundaryPacking packing = {};
  /// Rows in batches, in the order of the data.
  NamedProducers producers = {};
  /// The targets of all taps are bound: loss and accuracy are measured.
  bool measured = false;

  /// Seconds that were planned for a part; nothing where the plan does not say.
  [[nodiscard]] std::optional<double> planned_s(std::size_t part) const;
  /// What a part did here, with what was planned for it.
  [[nodiscard]] StageFlow staged(std::size_t part, PartFlow flow) const;
  /// The same of a part that ran elsewhere: adds the plan alone.
  void add_plan(std::size_t part, StageFlow& flow) const;
  [[nodiscard]] std::int64_t rows() const;
};

/// Reads the model, opens its data and cuts it. No weights for a graph with parameters, a plan that
/// is not for this model or batch size, data that does not fit are an Error each.
[[nodiscard]] InferenceJob prepare_inference(const RunCommand& command);
/// The same with the data of one part alone; sources of other parts are only looked at where the
/// graph's shapes follow from them.
[[nodiscard]] InferenceJob prepare_part_inference(const StageCommand& command);

/// The same without data, for requests: every producer that layers or consumers use must have a
/// shape, its own or that of the data that is bound to it.
[[nodiscard]] InferenceJob prepare_service(const RunCommand& command);
/// The producers of a part, or of a whole graph, that requests have to bring.
[[nodiscard]] std::vector<std::string> requested_inputs(const HarmonicGraph& graph);

[[nodiscard]] RuntimeOptions inference_options(const InferenceJob& job);

}  // namespace harmonics::inline in_torch_program
