// A GGUF file as the model that it was made of (private to models).
#pragma once

#include <harmonics/models/gguf.h>

namespace harmonics::inline in_models {

/// Configuration and tensors under the names that Hugging Face gives them.
struct GgufModel {
  Json config;
  WeightSource weights;
};

/// Llama and Qwen2. Another architecture, a setting of it or a tensor that is not known is an Error
/// that names it.
[[nodiscard]] GgufModel gguf_model(const GgufFile& file, std::string_view origin);

}  // namespace harmonics::inline in_models
