#include <harmonics/schedule/text_embedder.h>

#include <algorithm>
#include <cmath>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/json.h>

namespace harmonics::inline in_schedule {
namespace {

constexpr std::size_t kMaxRecipeBytes = 1 << 20;
constexpr double kLeastLength = 1e-12;

Json read_recipe(const std::filesystem::path& file) {
  return Json::parse(read_text_file(file, kMaxRecipeBytes), file.string());
}

EmbeddingRecipe::Pooling pooling_of(const std::filesystem::path& file) {
  const std::string prefix = "pooling_mode_";
  std::vector<std::string> modes;
  const Json config = read_recipe(file);
  for (const auto& [key, value] : config.as_object()) {
    if (!key.starts_with(prefix) || value.dump() != "true") continue;
    modes.push_back(key.substr(prefix.size()));
  }
  if (modes == std::vector<std::string>{"mean_tokens"}) return EmbeddingRecipe::Pooling::kMean;
  if (modes == std::vector<std::string>{"cls_token"}) return EmbeddingRecipe::Pooling::kFirst;
  if (modes == std::vector<std::string>{"max_tokens"}) return EmbeddingRecipe::Pooling::kMax;
  fail(ErrorCode::kUnimplemented,
       "'{}' asks for {} kinds of pooling: one of mean_tokens, cls_token and max_tokens is known",
       file.string(), modes.size());
}

void add_tokens(EmbeddingRecipe::Pooling pooling, std::span<const float> state,
                std::vector<double>& sums) {
  const std::size_t width = sums.size();
  const std::size_t rows = state.size() / width;
  for (std::size_t row = 0; row < rows; ++row) {
    const float* const own = state.data() + row * width;
    for (std::size_t i = 0; i < width; ++i) {
      const bool largest = pooling == EmbeddingRecipe::Pooling::kMax && row > 0;
      sums[i] = largest ? std::max<double>(sums[i], own[i]) : sums[i] + own[i];
    }
    if (pooling == EmbeddingRecipe::Pooling::kFirst) return;
  }
  if (pooling != EmbeddingRecipe::Pooling::kMean) return;
  for (double& sum : sums) sum /= static_cast<double>(rows);
}

std::vector<float> pooled(const EmbeddingRecipe& recipe, const Tensor& state) {
  std::vector<double> sums(static_cast<std::size_t>(state.shape().back()));
  add_tokens(recipe.pooling, state.values<float>(), sums);
  double length = 1;
  if (recipe.normalizes) {
    double squares = 0;
    for (const double value : sums) squares += value * value;
    length = std::max(std::sqrt(squares), kLeastLength);
  }
  std::vector<float> vector;
  for (const double value : sums) vector.push_back(static_cast<float>(value / length));
  return vector;
}

}  // namespace

EmbeddingRecipe embedding_recipe(const std::filesystem::path& folder) {
  EmbeddingRecipe recipe;
  const std::filesystem::path modules = folder / "modules.json";
  if (!std::filesystem::exists(modules)) return recipe;
  const Json list = read_recipe(modules);
  for (const Json& module : list.as_array()) {
    const std::string& type = module.at("type").as_string();
    const std::string kind = type.substr(type.rfind('.') + 1);
    const std::filesystem::path place = folder / module.at("path").as_string();
    if (kind == "Pooling") {
      recipe.pooling = pooling_of(place / "config.json");
    } else if (kind == "Normalize") {
      recipe.normalizes = true;
    } else if (kind == "Transformer") {
      const std::filesystem::path file = place / "sentence_bert_config.json";
      if (!std::filesystem::exists(file)) continue;
      const Json config = read_recipe(file);
      const Json* const length = config.find("max_seq_length");
      if (length && length->is_integer()) recipe.max_length = length->as_integer();
    } else {
      fail(ErrorCode::kUnimplemented,
           "'{}' names a module '{}': Transformer, Pooling and Normalize are known",
           modules.string(), type);
    }
  }
  return recipe;
}

TextEmbedder::TextEmbedder(const HarmonicGraph& graph, const WeightSource& weights,
                           const std::filesystem::path& folder, int threads)
    : recipe_(embedding_recipe(folder)),
      tokenizer_(Tokenizer::load(folder)),
      encoder_(graph, weights, threads),
      max_length_(recipe_.max_length > 0 ? std::min(recipe_.max_length, encoder_.max_length())
                                         : encoder_.max_length()),
      vocabulary_(encoder_.vocabulary()) {}

std::vector<std::int64_t> TextEmbedder::ids(const std::string& text) const {
  EncodeOptions options;
  options.max_length = static_cast<std::size_t>(max_length_);
  return tokenizer_.encode(text, options).ids;
}

void TextEmbedder::check(const std::vector<std::int64_t>& ids) const {
  if (ids.empty() || static_cast<std::int64_t>(ids.size()) > max_length_) {
    fail(ErrorCode::kInvalidArgument, "a text of {} tokens: 1 to {} can be", ids.size(),
         max_length_);
  }
  for (const std::int64_t id : ids) {
    if (id >= 0 && id < vocabulary_) continue;
    fail(ErrorCode::kInvalidArgument, "id {} is none of the {} of the model", id, vocabulary_);
  }
}

std::vector<std::vector<float>> TextEmbedder::embed(
    std::span<const std::vector<std::int64_t>> texts) {
  std::vector<std::vector<float>> vectors;
  for (const Tensor& state : encoder_.encode(texts)) vectors.push_back(pooled(recipe_, state));
  return vectors;
}

}  // namespace harmonics::inline in_schedule
