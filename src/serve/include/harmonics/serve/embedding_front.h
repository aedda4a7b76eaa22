// EmbeddingFront: an encoder behind OpenAI's API over HTTP.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <harmonics/schedule/text_embedder.h>
#include <harmonics/serve/listen_address.h>

namespace harmonics::inline in_serve {

/// Answers /v1/embeddings, /v1/models, /health and /metrics from construction on. Texts of several
/// requests are computed together, up to `batch_tokens`; each vector is the one that its text has
/// alone. A client that leaves before its turn costs nothing. /health and /metrics need no token.
class EmbeddingFront {
 public:
  struct Terms {
    /// What the model is called in /v1/models.
    std::string name;
    /// Requests that may wait; a further one is answered with 503.
    std::size_t max_waiting = 256;
    std::int64_t batch_tokens = 1024;
  };

  /// An Error when it cannot listen there. The embedder must outlive it; from now on it is used by
  /// threads of this.
  EmbeddingFront(TextEmbedder& embedder, const Terms& terms, const ListenAddress& address,
                 const FrontAccess& access);
  /// Takes no more requests; those that were taken have a few seconds to be answered.
  ~EmbeddingFront();
  EmbeddingFront(const EmbeddingFront&) = delete;
  EmbeddingFront& operator=(const EmbeddingFront&) = delete;

  [[nodiscard]] std::uint16_t port() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace harmonics::inline in_serve
