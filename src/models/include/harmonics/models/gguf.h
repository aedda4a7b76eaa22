// GGUF files: settings and tensors of a model in one file (versions 2 and 3).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/models/weight_source.h>

namespace harmonics::inline in_models {

inline constexpr std::size_t kMaxGgufSettings = 10'000;
inline constexpr std::size_t kMaxGgufKey = 1'000;
/// A longer text is left out of the settings; so are lists, of which the length is kept.
inline constexpr std::size_t kMaxGgufText = 65'536;
inline constexpr int kMaxGgufDepth = 4;

struct GgufFile {
  /// Numbers, truths and texts by key; a list is an object {"count": n}.
  std::map<std::string, Json, std::less<>> settings;
  WeightSource weights;
};

/// Lists of texts and of whole numbers by key, such as the tokens of a vocabulary.
struct GgufLists {
  std::map<std::string, std::vector<std::string>, std::less<>> texts;
  std::map<std::string, std::vector<std::int64_t>, std::less<>> numbers;
};
/// The most items of a list that is kept.
inline constexpr std::size_t kMaxGgufItems = std::size_t{1} << 21;

/// True where the first bytes say so.
[[nodiscard]] bool is_gguf(const MappedFile& file);

/// Reads the head of a file and checks it: every count, length and place against what is there.
/// What does not fit is an Error (kDataLoss); a way of packing that is not known is named.
[[nodiscard]] GgufFile open_gguf(const MappedFilePtr& file);

/// The lists among the settings; longer ones than kMaxGgufItems are an Error.
[[nodiscard]] GgufLists gguf_lists(const MappedFilePtr& file);

}  // namespace harmonics::inline in_models
