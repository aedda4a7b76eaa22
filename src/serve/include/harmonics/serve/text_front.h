// TextFront: a language model behind OpenAI's API over HTTP.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <harmonics/schedule/text_side.h>
#include <harmonics/schedule/token_pipeline.h>
#include <harmonics/serve/listen_address.h>

namespace harmonics::inline in_serve {

struct TextTerms {
  /// What the model is called in /v1/models.
  std::string name;
  /// Sequences that are computed at the same time, requests that may wait, and tokens of prompts in
  /// one step.
  std::size_t max_sequences = 16;
  std::size_t max_waiting = 256;
  std::int64_t prefill_chunk = 128;
  /// The most tokens of an answer, and what one has that does not say.
  std::int64_t max_tokens = 1024;
};

/// Answers /v1/chat/completions, /v1/completions, /v1/models, /health and /metrics from
/// construction on; requests join the running ones at any token. A client that leaves ends its
/// answer. /health and /metrics need no token.
class TextFront {
 public:
  /// An Error when it cannot listen there. Pipeline and texts must outlive it; from now on they are
  /// used by threads of this.
  TextFront(TokenPipeline& pipeline, const TextSide& texts, const TextTerms& terms,
            const ListenAddress& address, const FrontAccess& access);
  /// Takes no more requests; those that run have a few seconds to end.
  ~TextFront();
  TextFront(const TextFront&) = delete;
  TextFront& operator=(const TextFront&) = delete;

  [[nodiscard]] std::uint16_t port() const;
  /// Empty while the stages work; else why they do not.
  [[nodiscard]] std::string failure() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace harmonics::inline in_serve
