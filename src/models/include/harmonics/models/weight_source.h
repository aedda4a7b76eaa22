// WeightSource: tensors by name, out of files that are mapped and not read.
//
// Opening one looks at headers alone. A process that needs a few tensors of a large model touches
// those and no others.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/models/mapped_file.h>
#include <harmonics/tensor/tensor.h>

namespace harmonics::inline in_models {

/// Ceilings; a source that goes beyond them is an Error before memory is taken for it.
inline constexpr std::size_t kMaxWeightTensors = 200'000;
inline constexpr std::size_t kMaxWeightFiles = 10'000;
inline constexpr std::size_t kMaxWeightName = 512;
inline constexpr std::size_t kMaxWeightAxes = 8;
inline constexpr std::size_t kMaxWeightText = std::size_t{64} << 20;

/// How the numbers of a tensor lie in its file: one by one, or in blocks that are unpacked to
/// float32 when they are read. The names of the packed ones are those of GGUF.
enum class Packing : std::uint8_t { kPlain, kQ8_0, kQ4_0, kQ4_1, kQ6_K };

/// "plain", "q8_0", …
[[nodiscard]] std::string_view packing_name(Packing packing);
/// Numbers in one block and bytes that a block takes; 1 and 0 for kPlain.
struct PackingSize {
  std::int64_t numbers = 1;
  std::int64_t bytes = 0;
};
[[nodiscard]] PackingSize packing_size(Packing packing);

/// Which tensor of its source a parameter is, number by number.
struct WeightOrigin {
  std::string name;
  /// Ours is the transposed matrix of theirs.
  bool turned = false;
  bool operator==(const WeightOrigin&) const = default;
};

/// What is done to a stored tensor to make ours of it.
struct WeightLayout {
  /// The stored matrix has inputs as rows.
  bool transposed = false;
  /// Ours is as many rows as it has from this one on of the stored one (of the transposed one,
  /// where it is transposed); -1: all of it.
  std::int64_t first_row = -1;
  /// Not 0: the rows of each of so many heads lie in pairs, as rotary positions turn them; ours has
  /// the first of all pairs, then the second.
  std::int64_t paired_heads = 0;
  /// The row where ours begins.
  [[nodiscard]] std::int64_t begin() const { return first_row < 0 ? 0 : first_row; }
  bool operator==(const WeightLayout&) const = default;
};

/// In place of a file: the tensor is held in memory, since no file has it.
inline constexpr std::size_t kHeldInMemory = static_cast<std::size_t>(-1);

/// One tensor: where it is stored, and what it is here.
struct WeightEntry {
  /// Which of the source's files, or kHeldInMemory.
  std::size_t file = 0;
  std::uint64_t offset = 0;
  Packing packing = Packing::kPlain;
  /// As it is stored; packed ones are float32.
  TensorSpec stored;
  /// As it is read.
  Shape shape;
  WeightLayout layout = {};
  /// What the file that it came from calls it.
  std::string source_name = {};

  [[nodiscard]] TensorSpec spec() const { return {shape, stored.dtype}; }
  /// What it takes in its file.
  [[nodiscard]] std::uint64_t stored_bytes() const;
};

using WeightEntries = std::map<std::string, WeightEntry, std::less<>>;

/// Owns the mappings. A value whose copies share them; any thread. Tensors that it gives keep what
/// they need alive.
class WeightSource {
 public:
  WeightSource() = default;
  /// Checks that every entry lies within its file and that its shapes fit together; an Error
  /// (kDataLoss) names the first that does not.
  WeightSource(std::vector<MappedFilePtr> files, WeightEntries entries,
               std::map<std::string, std::string> metadata = {});

  /// Adds tensors that were worked out and lie in no file; `read` gives them as they are. A name
  /// that is there already is an Error. `source_names`: what the source would call them, where that
  /// is not their own name.
  void hold(std::map<std::string, Tensor> tensors,
            const std::map<std::string, std::string>& source_names = {});

  /// Opens what the path is: a safetensors file, a GGUF file, a map (NAME.weights.json), an index
  /// of safetensors files, or a folder of a model that holds one of these. Anything else is an
  /// Error that says what was looked for.
  [[nodiscard]] static WeightSource open(const std::filesystem::path& path);

  [[nodiscard]] const WeightEntries& entries() const { return entries_; }
  [[nodiscard]] const std::vector<MappedFilePtr>& files() const { return files_; }
  /// Texts that a safetensors file carries along.
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// The entry, or an Error that lists near names.
  [[nodiscard]] const WeightEntry& at(std::string_view name) const;

  /// The tensor: plain ones share the mapped memory, others are unpacked into memory of their own.
  [[nodiscard]] Tensor read(std::string_view name) const;
  /// Lets go of the mapped pages of a tensor that has been copied elsewhere.
  void forget(std::string_view name) const;

 private:
  std::vector<MappedFilePtr> files_;
  WeightEntries entries_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, Tensor, std::less<>> held_;
};

/// Whether the path is a folder, an index, a map or a GGUF file: what only WeightSource opens.
[[nodiscard]] bool is_mapped_source(const std::filesystem::path& path);

}  // namespace harmonics::inline in_models
