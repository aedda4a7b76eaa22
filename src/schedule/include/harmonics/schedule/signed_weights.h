// Which weights the stages of a secure run signed, as its checkpoint says.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace harmonics::inline in_schedule {

/// The names of the weights that each stage signed, by stage; of a checkpoint, or of the latest
/// step of a manifest. Empty where it does not say.
[[nodiscard]] std::map<std::string, std::vector<std::string>> checkpoint_signed_weights(
    const std::filesystem::path& path);

}  // namespace harmonics::inline in_schedule
