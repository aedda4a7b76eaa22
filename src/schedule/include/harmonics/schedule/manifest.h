// The manifest of a checkpoint of several stages: which files belong together, and their digests.
//
// A JSON text of its own, renamed into place once all files that it names are written.
// docs/formats/checkpoint.md is the page of this format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace harmonics::inline in_schedule {

inline constexpr std::size_t kMaxManifestBytes = std::size_t{4} << 20;
/// The most stages of one saved step.
inline constexpr std::size_t kMaxManifestStages = 1024;

/// One stage's file, which lies in the folder of the manifest.
struct StageFile {
  /// The stage's graph.
  std::string stage;
  std::string file;
  /// As it stands in the file. Empty: not known, so that it is not compared.
  std::string sha256;
  bool operator==(const StageFile&) const = default;
};

/// All stages at one step. Step 0 without stages is the beginning of a run.
struct SavedStep {
  std::int64_t step = 0;
  std::vector<StageFile> stages;
  bool operator==(const SavedStep&) const = default;
};

struct Manifest {
  SavedStep latest;
  /// The one before it, which machines of their own folders may all still have when one of them
  /// died while the latest was completed.
  std::optional<SavedStep> previous;
  bool operator==(const Manifest&) const = default;
};

[[nodiscard]] std::string encode_manifest(const Manifest& manifest);
/// Text that is no manifest, names of files that lead elsewhere, or too many stages are an Error
/// (kDataLoss) that says what; `name` says in it what was read.
[[nodiscard]] Manifest decode_manifest(std::string_view text, std::string_view name);

/// True when the file begins like a manifest; any other checkpoint is a safetensors file. A file
/// that cannot be read is an Error.
[[nodiscard]] bool is_manifest(const std::filesystem::path& path);
[[nodiscard]] Manifest read_manifest(const std::filesystem::path& path);
/// Whole or not at all.
void write_manifest(const std::filesystem::path& path, const Manifest& manifest);

}  // namespace harmonics::inline in_schedule
