// The way back: tokens into text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "section.h"

namespace harmonics::inline in_text {

/// Never changes; many threads. The text is what the tokens are in the end, one behind another.
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

using DecoderPtr = std::unique_ptr<const Decoder>;

/// Reads a section: WordPiece, ByteLevel, BPEDecoder, Metaspace, ByteFallback, Fuse, Strip, Replace
/// or a Sequence of them. Another type is an Error.
[[nodiscard]] DecoderPtr read_decoder(const Section& section);

}  // namespace harmonics::inline in_text
