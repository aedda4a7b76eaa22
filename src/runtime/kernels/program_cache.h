// Programs for accelerators on disk, so that a second start does not compile (private to runtime).
//
// $XDG_CACHE_HOME/harmonics/opencl and …/cuda (or ~/.cache/…) hold one file per program: its name
// is the SHA-256 of everything that the binary depends on (source, options, platform, device,
// driver), so a new driver never sees an old binary. A file appears whole or not at all, whoever
// else writes it; one that is damaged is a miss. Nothing here throws for want of a place to write.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace harmonics::inline in_runtime {

/// A larger binary is not kept.
inline constexpr std::size_t kMaxProgramBytes = std::size_t{64} << 20;
/// When more files than this lie in the folder, the oldest are removed.
inline constexpr std::size_t kMaxCachedPrograms = 64;

class ProgramCache {
 public:
  /// An empty folder switches the cache off.
  explicit ProgramCache(std::filesystem::path folder) : folder_(std::move(folder)) {}
  /// One of the folders named above, "opencl" or "cuda", as the environment gives it.
  [[nodiscard]] static std::filesystem::path standard_folder(std::string_view kind);

  /// The name under which a program lies: a digest over all of `parts`.
  [[nodiscard]] static std::string key(std::span<const std::string> parts);

  [[nodiscard]] std::optional<std::string> load(const std::string& key) const;
  void store(const std::string& key, std::string_view binary) const;
  /// Forgets a binary that the driver would not take.
  void remove(const std::string& key) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace harmonics::inline in_runtime
