// A tokenizer in its parts.
#pragma once

#include <memory>
#include <optional>

#include <harmonics/text/tokenizer.h>

#include "steps/added_tokens.h"
#include "steps/decoder.h"
#include "steps/normalizer.h"
#include "steps/post_processor.h"
#include "steps/pre_tokenizer.h"
#include "token_model.h"

namespace harmonics::inline in_text {

enum class Side { kLeft, kRight };

struct Tokenizer::Parts {
  /// Reads a whole file.
  explicit Parts(const Section& file);

  NormalizerPtr normalizer;       // may be null
  PreTokenizerPtr pre_tokenizer;  // may be null
  TokenModelPtr model;
  std::unique_ptr<const AddedTokens> added;
  PostProcessor post_processor;
  DecoderPtr decoder;  // may be null: tokens with spaces between them
  Side cut_side = Side::kRight;
  Side fill_side = Side::kRight;
  std::int64_t pad_id = 0;
  std::int64_t pad_type = 0;

 private:
  void read_lengths(const Section& file);
};

}  // namespace harmonics::inline in_text
