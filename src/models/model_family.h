// Families of models: their graph as text, and their names (private to models).
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/models/weight_source.h>

#include "model_config.h"

namespace harmonics::inline in_models {

/// One row of a family's table: a layer of ours (or a whole parameter) and what the source calls
/// it.
/// "$i" counts blocks from 1 and "$(i-1)" from 0. A name of theirs that begins with '/' does not
/// stand inside the base model ("/classifier" beside "bert.…").
struct NameRow {
  std::string own;
  std::string theirs;
  WeightLayout layout = {};
};

/// What a family makes of a configuration.
struct ModelDraft {
  /// Everything between "harmonic NAME {" and "}".
  std::string body;
  std::vector<NameRow> names;
  /// How often "$i" goes on.
  std::int64_t blocks = 0;
  /// Tensors of the source that are known and not needed: names, or endings with a leading '*'.
  std::vector<std::string> unneeded;
};

/// What a family is asked.
struct DraftRequest {
  ModelConfig& config;
  const WeightSource& source;
  /// "bert.", where the source's tensors begin so, else empty.
  std::string prefix;
  /// Ceiling of the axis of tokens; 0: what the configuration says.
  std::int64_t length = 0;
  /// Classes of a head that the source lacks; 0: there is none to add.
  std::int64_t classes = 0;

  /// Whether the source has such a tensor; names as in NameRow.
  [[nodiscard]] bool has(std::string_view theirs) const;
  /// Rows of such a tensor; a missing one is an Error that names it.
  [[nodiscard]] std::int64_t rows(std::string_view theirs) const;
  /// How many classes a head has whose weight is called so: its rows, or those of a new head.
  [[nodiscard]] std::int64_t class_count(std::string_view theirs) const;
  [[nodiscard]] std::string full_name(std::string_view theirs) const;
  /// "axis T <= 512;": the smaller of the request's ceiling and the model's.
  [[nodiscard]] std::string axis(std::int64_t ceiling) const;
};

struct ModelFamily {
  /// "model_type" of config.json.
  std::string model_type;
  /// The base model's tensors begin with this in models with a head.
  std::string prefix;
  /// Those that are built; the first is the base model.
  std::vector<std::string> architectures;
  std::function<ModelDraft(DraftRequest&, const std::string& architecture)> draft;
  /// The architecture that the base model becomes with a head for classes; empty: none is known.
  std::string classifier = {};
};

/// All that are known, by their file of code.
[[nodiscard]] std::vector<ModelFamily> bert_families();
[[nodiscard]] std::vector<ModelFamily> vit_families();
[[nodiscard]] std::vector<ModelFamily> gpt2_families();
[[nodiscard]] std::vector<ModelFamily> llama_families();

using Placeholders = std::map<std::string, std::string, std::less<>>;
/// `text` with %key% replaced by its value; a key without a value is a bug.
[[nodiscard]] std::string filled(std::string_view text, const Placeholders& values);

}  // namespace harmonics::inline in_models
