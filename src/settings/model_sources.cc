#include "model_sources.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include <harmonics/settings/source_text.h>

namespace harmonics::inline in_settings {
namespace {

constexpr std::array<std::string_view, 4> kTextColumns = {"input_ids", "attention_mask",
                                                          "token_type_ids", "labels"};
constexpr std::array<std::string_view, 8> kPictureSettings = {
    "preprocessor", "size", "shortest", "crop", "resample", "scale", "mean", "std"};

// What the weights section names, as a path from anywhere.
std::optional<std::string> named_file(const HarpDocument& document, std::string_view key) {
  const Setting* const setting = document.weights.find(key);
  if (setting == nullptr) return std::nullopt;
  return std::filesystem::absolute(document.folder / setting->value).lexically_normal().string();
}

// How many numbers a row of the producer has at most; nothing where that follows from the data.
std::optional<std::int64_t> row_length(const HarmonicGraph& graph, const ProducerNode& producer) {
  if (!producer.extents.empty() && producer.extents.front().position == 0) {
    const auto axis =
        std::ranges::find(graph.axes(), producer.extents.front().axis, &AxisNode::name);
    if (axis != graph.axes().end()) return axis->ceiling;
  }
  if (!producer.shape || producer.shape->empty()) return std::nullopt;
  return producer.shape->front();
}

void complete_text(const HarpDocument& document, const ProducerNode& producer,
                   SourceBinding& binding) {
  const auto tokenizer = named_file(document, "tokenizer");
  if (!tokenizer || has_setting(binding.spec, "tokenizer")) return;
  binding.spec = with_setting(binding.spec, "tokenizer", *tokenizer);
  const auto length = row_length(document.graph, producer);
  if (length && !has_setting(binding.spec, "length")) {
    binding.spec = with_setting(binding.spec, "length", std::to_string(*length));
  }
  const bool known = std::ranges::find(kTextColumns, producer.name) != kTextColumns.end();
  if (known && !has_setting(binding.spec, "column")) {
    binding.spec = with_setting(binding.spec, "column", producer.name);
  }
}

void complete_images(const HarpDocument& document, const ProducerNode& producer,
                     SourceBinding& binding) {
  const auto preprocessor = named_file(document, "preprocessor");
  if (!preprocessor || has_setting(binding.spec, "column")) return;
  if (producer.dtype == DType::kInt64) {
    binding.spec = with_setting(binding.spec, "column", "label");
    return;
  }
  const bool said = std::ranges::any_of(
      kPictureSettings, [&](std::string_view key) { return has_setting(binding.spec, key); });
  if (!said) binding.spec = with_setting(binding.spec, "preprocessor", *preprocessor);
}

}  // namespace

void complete_sources(const HarpDocument& document, std::span<SourceBinding> bindings) {
  for (SourceBinding& binding : bindings) {
    const ProducerNode& producer =
        document.graph.producers()[document.graph.producer_index(binding.name).value()];
    if (binding.spec.starts_with("text:")) complete_text(document, producer, binding);
    if (binding.spec.starts_with("images:")) complete_images(document, producer, binding);
  }
}

}  // namespace harmonics::inline in_settings
