// The first step: text into the form in which the vocabulary spells it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "section.h"

namespace harmonics::inline in_text {

/// Never changes; many threads. Texts are valid UTF-8 and stay so.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  [[nodiscard]] virtual std::string apply(std::string_view text) const = 0;
};

using NormalizerPtr = std::unique_ptr<const Normalizer>;

/// Reads a section: BertNormalizer, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend,
/// Replace or a Sequence of them. Another type is an Error.
[[nodiscard]] NormalizerPtr read_normalizer(const Section& section);
[[nodiscard]] NormalizerPtr read_bert_normalizer(const Section& section);

}  // namespace harmonics::inline in_text
