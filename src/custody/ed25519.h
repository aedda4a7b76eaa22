// Ed25519 signatures (RFC 8032) of the libraries that have them (private to custody).
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include <harmonics/base/bytes.h>
#include <harmonics/custody/keys.h>

namespace harmonics::inline in_custody {

using Ed25519Seed = std::array<std::byte, 32>;

/// As the libraries take bytes.
[[nodiscard]] inline const unsigned char* raw(ByteSpan bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

/// A secret key, ready to sign; wiped when it goes. Threads: const calls from any.
class Ed25519Secret {
 public:
  virtual ~Ed25519Secret() = default;
  [[nodiscard]] virtual PublicKey public_key() const = 0;
  [[nodiscard]] virtual Signature sign(ByteSpan message) const = 0;
};

/// By libsodium where the build has it, which between the layers of a network, with cold caches,
/// takes a third of the time; else by OpenSSL. Both make the same signatures.
[[nodiscard]] std::unique_ptr<Ed25519Secret> make_ed25519_secret(const Ed25519Seed& seed);
[[nodiscard]] bool verify_ed25519(const PublicKey& key, ByteSpan message,
                                  const Signature& signature);

/// By OpenSSL, in every build.
[[nodiscard]] std::unique_ptr<Ed25519Secret> make_openssl_secret(const Ed25519Seed& seed);
[[nodiscard]] bool verify_with_openssl(const PublicKey& key, ByteSpan message,
                                       const Signature& signature);

/// Whether 32 bytes encode one of the eight points of small order. With such a key, or such a first
/// half of a signature, one signature can fit many messages, and libraries disagree about it:
/// nothing here accepts either.
[[nodiscard]] bool has_small_order(std::span<const std::byte, 32> point);

}  // namespace harmonics::inline in_custody
