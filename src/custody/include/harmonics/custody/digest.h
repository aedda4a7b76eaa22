// SHA-256, the digest of checkpoints, weights and custody links, and what is made of it.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include <harmonics/base/bytes.h>

namespace harmonics::inline in_custody {

using Digest = std::array<std::byte, 32>;

/// Computes SHA-256 over bytes that arrive in pieces. One thread.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  Sha256& update(ByteSpan bytes);
  /// The digest of everything so far. Ends the object: using it again is an Error.
  [[nodiscard]] Digest finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

[[nodiscard]] Digest sha256(ByteSpan bytes);
/// HMAC (RFC 2104) over SHA-256: what only someone who has the key can say of the message.
[[nodiscard]] Digest hmac_sha256(ByteSpan key, ByteSpan message);
/// 64 lower-case hexadecimal digits.
[[nodiscard]] std::string digest_text(const Digest& digest);

}  // namespace harmonics::inline in_custody
