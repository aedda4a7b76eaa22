// What files of custody hold: chains, or statements with chains inside.
#pragma once

#include <filesystem>
#include <vector>

#include <harmonics/custody/chain.h>
#include <harmonics/custody/provenance.h>

namespace harmonics::inline in_verification {

struct Evidence {
  std::vector<Chain> chains;
  /// Empty where the files are chains themselves.
  std::vector<SignedStatement> statements;
};

/// The folder that --keys names, or the user's.
[[nodiscard]] std::filesystem::path key_folder_or_default(const std::filesystem::path& folder);

/// Reads chains and statements; files may be of both kinds. The signatures of statements are
/// checked against the keys in `keys`. A file that is neither is an Error that says so.
[[nodiscard]] Evidence read_evidence(const std::vector<std::filesystem::path>& files,
                                     const std::filesystem::path& keys);

/// Whether a file is the signature of a model.
[[nodiscard]] bool is_model_signature(const std::filesystem::path& file);

}  // namespace harmonics::inline in_verification
