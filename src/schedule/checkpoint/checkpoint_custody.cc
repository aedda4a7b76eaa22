#include "checkpoint_custody.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>
#include <harmonics/custody/breach.h>
#include <harmonics/custody/hex.h>
#include <harmonics/graph/blob.h>
#include <harmonics/schedule/secure_run.h>

namespace harmonics::inline in_schedule {
namespace {

// The names of the weights that each stage signed, by stage.
using SignedNames = std::map<std::string, std::vector<std::string>>;

struct KeptCustody {
  SavedCustody custody;
  SignedNames names;
};

Bytes bytes_from_hex(const std::string& digits) {
  Bytes bytes(digits.size() / 2);
  if (!from_hex(digits, bytes)) {
    fail(ErrorCode::kDataLoss, "the custody in the checkpoint is damaged: no hexadecimal digits");
  }
  return bytes;
}

std::vector<std::string> parameter_names(const Stage& stage) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : stage->parameters()) names.push_back(name);
  return names;
}

// Of however many files; those of one step are of one run.
KeptCustody custody_from(const std::vector<Json>& states) {
  KeptCustody kept;
  for (const Json& state : states) {
    const Json* custody = state.find("custody");
    if (custody == nullptr) continue;
    Bytes opening = bytes_from_hex(custody->at("opening").as_string());
    if (!kept.custody.opening.empty() && kept.custody.opening != opening) {
      fail(ErrorCode::kDataLoss, "the files of the checkpoint are of different secure runs");
    }
    kept.custody.opening = std::move(opening);
    for (const auto& [stage, log] : custody->at("logs").as_object()) {
      kept.custody.logs[stage] = bytes_from_hex(log.as_string());
    }
    const Json* names = custody->find("weights");
    if (names == nullptr) continue;
    for (const auto& [stage, list] : names->as_object()) {
      for (const Json& name : list.as_array()) kept.names[stage].push_back(name.as_string());
    }
  }
  return kept;
}

// Older checkpoints do not say which weights a stage signed: a stage that is the same here does.
void add_own_names(const Opening& opening, const StageRow& row, SignedNames& names) {
  for (const Stage& stage : row.stages()) {
    const StageEntry* entry = opening.stage(stage->graph().name());
    if (entry == nullptr || names.contains(entry->stage)) continue;
    if (entry->graph == sha256(encode_graph(stage->graph()))) {
      names[entry->stage] = parameter_names(stage);
    }
  }
}

void require_signed(const std::filesystem::path& folder, const std::string& stage,
                    const WeightMark& mark, const NamedTensors& weights) {
  const Digest here = weights_root(weights);
  if (here == mark.root) return;
  fail_custody(Breach::kWrongWeights,
               "the checkpoint in '{}' does not hold the weights that stage '{}' signed at step "
               "{}: their root is {}, the signed one is {}. The file was changed after it was "
               "saved: go on from another checkpoint of the run, or begin a run of its own with "
               "these weights as start weights",
               folder.empty() ? "." : folder.string(), stage, mark.step, digest_text(here),
               digest_text(mark.root));
}

void require_signed_weights(const std::filesystem::path& folder, KeptCustody& kept,
                            const NamedTensors& weights, const StageRow& row) {
  const Opening opening = decode_opening(kept.custody.opening);
  add_own_names(opening, row, kept.names);
  std::set<std::string, std::less<>> compared;
  for (const auto& [stage, log] : kept.custody.logs) {
    const auto names = kept.names.find(stage);
    if (names == kept.names.end()) continue;
    if (opening.stage(stage) == nullptr) {
      fail_custody(Breach::kOtherRun, "the checkpoint has a log of '{}', which is no stage", stage);
    }
    NamedTensors own;
    for (const std::string& name : names->second) {
      if (const auto found = weights.find(name); found != weights.end()) own.insert(*found);
      compared.insert(name);
    }
    require_signed(folder, stage, saved_weights(opening, stage, log), own);
  }
  for (const auto& [name, tensor] : row.parameters()) {
    if (compared.contains(name)) continue;
    log_warn("schedule",
             "the checkpoint in '{}' does not say which part signed '{}': its weights cannot be "
             "compared with those that were signed",
             folder.string(), name);
    return;
  }
}

}  // namespace

Json custody_json(const StageRow& row) {
  if (row.custody() == nullptr) return {};
  const SavedCustody saved =
      row.custody()->save(row.stages(), static_cast<std::uint64_t>(row.state().steps));
  if (saved.opening.empty()) return {};
  Json logs = Json::object();
  for (const auto& [stage, state] : saved.logs) logs.set(stage, to_hex(state));
  Json weights = Json::object();
  for (std::size_t i = 0; i < row.stages().size(); ++i) {
    Json names = Json::array();
    for (const std::string& name : parameter_names(row.stages()[i])) names.push(name);
    weights.set(row.custody()->parts()[i].stage, std::move(names));
  }
  return Json()
      .set("opening", to_hex(saved.opening))
      .set("logs", std::move(logs))
      .set("weights", std::move(weights));
}

std::map<std::string, std::vector<std::string>> signed_names(const std::vector<Json>& states) {
  return custody_from(states).names;
}

void restore_custody(const std::filesystem::path& folder, const std::vector<Json>& states,
                     const NamedTensors& weights, const StageRow& row) {
  KeptCustody kept = custody_from(states);
  if (row.custody() != nullptr) {
    if (!kept.custody.opening.empty()) require_signed_weights(folder, kept, weights, row);
    row.custody()->restore(std::move(kept.custody));
  } else if (!kept.custody.opening.empty()) {
    log_warn("schedule", "the checkpoint in '{}' is of a secure run, which goes on without custody",
             folder.string());
  }
}

}  // namespace harmonics::inline in_schedule
