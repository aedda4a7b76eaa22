// What a checkpoint keeps of a secure run (private).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/schedule/stage_row.h>

namespace harmonics::inline in_schedule {

/// The state of the row's custody, whose heads are signed as those of this step; null when there
/// is nothing to keep.
[[nodiscard]] Json custody_json(const StageRow& row);

/// The names of the weights that each stage signed, as these states say; by stage.
[[nodiscard]] std::map<std::string, std::vector<std::string>> signed_names(
    const std::vector<Json>& states);

/// Hands what the files of a checkpoint keep, whose states these are, to the row's custody. Where
/// the run is secure, `weights` must be those that the stages signed when they saved, however the
/// graph is cut now: others are a CustodyError (kWrongWeights) that names stage, step and both
/// roots, and nothing has changed.
void restore_custody(const std::filesystem::path& folder, const std::vector<Json>& states,
                     const NamedTensors& weights, const StageRow& row);

}  // namespace harmonics::inline in_schedule
