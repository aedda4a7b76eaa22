// Models of others as graphs of ours: Hugging Face folders, GGUF and ONNX files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/graph/graph.h>
#include <harmonics/models/weight_source.h>

namespace harmonics::inline in_models {

inline constexpr std::size_t kMaxConfigBytes = std::size_t{4} << 20;

struct ImportOptions {
  /// The graph's name; empty: by the architecture.
  std::string name = {};
  /// Ceiling of the axis of tokens; 0: what the model was made for.
  std::int64_t length = 0;
  /// Not 0: a model without a head gets one for so many classes, whose start values are drawn as
  /// transformers draws them (normal, of the deviation `initializer_range`; biases 0). Models that
  /// have a head, or of a family without such heads, refuse it.
  std::int64_t classes = 0;
  /// Shapes of inputs that the source leaves open, without the batch, and inputs that become
  /// constants. For ONNX files; folders and GGUF files have neither, and refuse them.
  std::map<std::string, Shape> shapes = {};
  std::map<std::string, std::vector<double>> values = {};
  /// ONNX: which axis of every input is the batch; below 0 none, a whole tensor is one sample.
  /// Unset: the first that can be (docs/formats/onnx.md).
  std::optional<std::int64_t> batch = {};
};

struct ImportedModel {
  /// "LlamaForCausalLM", or "ONNX".
  std::string architecture;
  /// The graph as .harp text, with its groups and repeats, and what it says.
  std::string harp;
  HarmonicGraph graph;
  /// The parameters under our names, still where the source keeps them; `source_name` is theirs.
  WeightSource weights;
  /// config.json as it was, or as it follows from a GGUF file; null for ONNX.
  Json config;
  /// Chance in training that the graph does not have, such as "hidden_dropout_prob = 0.1".
  std::vector<std::string> left_out;
  /// What makes inputs of texts and pictures, in the source's folder; empty where it has none.
  std::filesystem::path tokenizer;
  std::filesystem::path preprocessor;
  /// ONNX: the parameters that are initializers of the file; others were worked out of them.
  std::map<std::string, WeightOrigin> origins;
  /// Parameters of a head that the source does not have: they are to be trained.
  std::vector<std::string> fresh;
};

/// Reads what `source` is: a folder with config.json and safetensors, a GGUF file or an ONNX file
/// (one that ends in .onnx). But for ONNX, whose weights are computed where they are not plain,
/// only heads of files are looked at. An unknown architecture is an Error that lists the known
/// ones; so is a value of the configuration that is not honoured, a missing tensor and one that has
/// no place.
[[nodiscard]] ImportedModel import_model(const std::filesystem::path& source,
                                         const ImportOptions& options = {});

/// "BertModel", "GPT2LMHeadModel", …: all that import_model knows, in order.
[[nodiscard]] std::vector<std::string> known_architectures();

/// Copy: a safetensors file of our own. Link: a map of names to places in the source's files.
enum class WeightsMode { kCopy, kLink };

struct WrittenModel {
  std::filesystem::path harp;
  std::filesystem::path weights;
  std::uint64_t weight_bytes = 0;
  /// Copies of the tokenizer and the preprocessor.
  std::vector<std::filesystem::path> beside;
};

/// Writes NAME.harp and beside it NAME.safetensors or NAME.weights.json. Both appear whole, the
/// weights first; an Error leaves what was there. A tokenizer and a preprocessor are copied to
/// NAME.tokenizer.json and NAME.preprocessor.json, or named where they lie, and the weights section
/// of the file says so, for `text:` and `images:`. `on_progress` hears of bytes written and of all.
WrittenModel write_model(
    const ImportedModel& model, const std::filesystem::path& harp, WeightsMode mode,
    const std::function<void(std::uint64_t done, std::uint64_t all)>& on_progress = {});

}  // namespace harmonics::inline in_models
