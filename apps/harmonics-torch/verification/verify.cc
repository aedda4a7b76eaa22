// harmonics verify with --graph, --weights or --data: whether a chain is that of a model.
#include <algorithm>
#include <map>
#include <set>

#include <harmonics/base/error.h>
#include <harmonics/custody/breach.h>
#include <harmonics/graph/blob.h>
#include <harmonics/graph/partition.h>
#include <harmonics/runtime/safetensors.h>
#include <harmonics/schedule/checkpoint.h>
#include <harmonics/schedule/signed_weights.h>
#include <harmonics/schedule/stage_custody.h>
#include <harmonics/schedule/training_data.h>
#include <harmonics/verification/custody_export.h>
#include <harmonics/verification/verification.h>

#include "subcommands.h"
#include "verification/data_roots.h"
#include "verification/recompute_steps.h"

namespace harmonics::inline in_torch_program {
namespace {

using PartsByDigest = std::map<Digest, HarmonicGraph>;
using NamesByStage = std::map<std::string, std::vector<std::string>>;

// The stages that compute; beside each that gives something out stands one that reads it.
std::vector<StageEntry> computing_stages(const Opening& opening) {
  std::set<std::string> readers;
  for (const StageEntry& entry : opening.stages) readers.insert(reader_of(entry.stage));
  std::vector<StageEntry> stages;
  for (const StageEntry& entry : opening.stages) {
    if (!readers.contains(entry.stage)) stages.push_back(entry);
  }
  return stages;
}

// The graphs of the files, whole and cut as `harmonics train --parts` does.
PartsByDigest parts_of(const VerifyCommand& command, std::size_t count) {
  PartsByDigest parts;
  const auto add = [&](const HarmonicGraph& part) {
    parts.emplace(sha256(encode_graph(part)), part);
  };
  for (const std::filesystem::path& file : command.graphs) {
    const HarmonicGraph graph = bound_graph(file, command.data);
    add(graph);
    if (count > graph.layers().size()) continue;
    for (const HarmonicGraph& part : partition_graph(graph, count)) add(part);
  }
  return parts;
}

void compare_graphs(const VerifyCommand& command, const std::vector<StageEntry>& stages,
                    const PartsByDigest& parts) {
  for (const StageEntry& entry : stages) {
    if (parts.contains(entry.graph)) continue;
    fail_custody(
        Breach::kOtherRun,
        "stage '{}' computed the graph {}, which is not in '{}', whole or cut into {} "
        "parts: another graph was given, or it was cut in another way (then give the files "
        "of all parts with --graph)",
        entry.stage, digest_text(entry.graph), command.graphs.front().string(), stages.size());
  }
}

NamedTensors weights_of(const std::filesystem::path& path) {
  if (is_manifest(path)) return checkpoint_weights(path);
  constexpr std::string_view kModel = "model.";
  NamedTensors plain, model;
  for (const auto& [name, tensor] : read_safetensors(path).tensors) {
    if (name.starts_with(kModel)) {
      model.emplace(name.substr(kModel.size()), tensor);
    } else {
      plain.emplace(name, tensor);
    }
  }
  return model.empty() ? plain : model;
}

std::vector<std::string> parameter_names(const HarmonicGraph& part) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < part.layers().size(); ++i) {
    for (const ParameterSpec& spec : part.layer_shape(i).parameters) {
      if (spec.tied_to.empty() || spec.away) {
        names.push_back(parameter_name(part.layers()[i], spec));
      }
    }
  }
  return names;
}

// Which weights belong to which stage: as the graph says, or else as the checkpoint does.
NamesByStage names_of(const VerifyCommand& command, const std::vector<StageEntry>& stages,
                      const PartsByDigest& parts, const NamedTensors& weights) {
  NamesByStage names;
  if (stages.size() == 1) {
    for (const auto& [name, tensor] : weights) names[stages.front().stage].push_back(name);
    return names;
  }
  if (parts.empty()) names = checkpoint_signed_weights(command.weights);
  for (const StageEntry& entry : stages) {
    if (const auto part = parts.find(entry.graph); part != parts.end()) {
      names[entry.stage] = parameter_names(part->second);
    }
    if (names.contains(entry.stage)) continue;
    fail(ErrorCode::kInvalidArgument,
         "which weights of '{}' belong to stage '{}' is not known: give the model with --graph",
         command.weights.string(), entry.stage);
  }
  return names;
}

// The steps at which a stage announced these weights.
std::set<std::uint64_t> steps_of(const VerifyCommand& command, const StageReport& stage,
                                 const NamedTensors& weights) {
  const Digest root = weights_root(weights);
  std::set<std::uint64_t> steps;
  for (const WeightMark& mark : stage.weights) {
    if (mark.root == root) steps.insert(mark.step);
  }
  if (!steps.empty()) return steps;
  fail_custody(Breach::kWrongWeights,
               "'{}' does not hold weights that stage '{}' announced: their root is {}, the last "
               "announced is {} at step {}",
               command.weights.string(), stage.stage, digest_text(root),
               stage.weights.empty() ? "none" : digest_text(stage.weights.back().root),
               stage.weights.empty() ? 0 : stage.weights.back().step);
}

void compare_weights(const VerifyCommand& command, const VerifyReport& report,
                     const NamesByStage& names, const NamedTensors& weights,
                     ComparedModel& compared) {
  std::optional<std::set<std::uint64_t>> common;
  for (const StageReport& stage : report.stages) {
    const auto own_names = names.find(stage.stage);
    if (own_names == names.end()) continue;
    NamedTensors own;
    for (const std::string& name : own_names->second) {
      const auto found = weights.find(name);
      if (found == weights.end()) {
        fail_custody(Breach::kWrongWeights, "'{}' has no tensor '{}', which stage '{}' has",
                     command.weights.string(), name, stage.stage);
      }
      own.insert(*found);
    }
    const std::set<std::uint64_t> steps = steps_of(command, stage, own);
    compared.last_step = std::max(compared.last_step, stage.weights.back().step);
    if (common) {
      std::erase_if(*common, [&](std::uint64_t step) { return !steps.contains(step); });
    } else {
      common = steps;
    }
  }
  if (!common || common->empty()) {
    fail_custody(Breach::kWrongWeights, "the weights of '{}' are of different steps of the run",
                 command.weights.string());
  }
  compared.weights = command.weights.string();
  compared.weights_step = *common->rbegin();
}

// What verification and comparing with a model found.
struct VerifiedModel {
  Evidence evidence;
  VerifyReport report;
  ComparedModel compared;
};

VerifiedModel verified_model(const VerifyCommand& command) {
  VerifiedModel result{read_evidence(command.files, command.keys), {}, {}};
  const std::vector<Chain>& chains = result.evidence.chains;
  if (chains.empty()) {
    fail(ErrorCode::kInvalidArgument, "'{}' holds no chain to compare a model with",
         command.files.front().string());
  }
  const std::vector<StageEntry> stages = computing_stages(chains.front().opening);
  const PartsByDigest parts = parts_of(command, stages.size());
  VerifyOptions options;
  if (!command.data.empty()) {
    options.data = [known = data_roots(command, chains)](const std::string& producer,
                                                         const Digest& root) {
      const auto found = known.find(producer);
      return found == known.end() || found->second.contains(root);
    };
  }
  result.report = verify_evidence(command, result.evidence, std::move(options));
  if (!command.graphs.empty()) {
    compare_graphs(command, stages, parts);
    result.compared.graph = command.graphs.front().string();
  }
  if (!command.weights.empty()) {
    const NamedTensors weights = weights_of(command.weights);
    compare_weights(command, result.report, names_of(command, stages, parts, weights), weights,
                    result.compared);
  }
  return result;
}

}  // namespace

int verify(const VerifyCommand& command) {
  if (!command.data.empty() && command.graphs.empty()) {
    fail(ErrorCode::kInvalidArgument, "--data is bound to producers: give the model with --graph");
  }
  if (command.recomputes() && command.graphs.size() != 1) {
    fail(ErrorCode::kInvalidArgument,
         "what is computed again is a model: give its file, whole, with --graph");
  }
  VerifiedModel result = verified_model(command);
  if (command.recomputes()) {
    result.compared.recomputed = recompute_steps(
        command, result.evidence, computing_stages(result.evidence.chains.front().opening).size());
  }
  return print_verification(command, result.report, result.compared);
}

int custody_export(const CustodyExportCommand& command) {
  VerifyCommand comparing;
  comparing.files = command.files;
  comparing.keys = command.keys;
  comparing.weights = command.weights;
  if (!command.graph.empty()) comparing.graphs = {command.graph};
  const VerifiedModel result = verified_model(comparing);
  if (result.compared.weights_step != result.compared.last_step) {
    fail_custody(Breach::kWrongWeights,
                 "the weights of '{}' are those of step {}, and the run ended at step {}",
                 command.weights.string(), result.compared.weights_step, result.compared.last_step);
  }
  return export_chain(command, result.evidence, result.report,
                      {{command.weights.filename().string(), file_digest(command.weights)}});
}

}  // namespace harmonics::inline in_torch_program
