// The signatures of a build with libsodium.
#include <sodium.h>

#include <harmonics/base/error.h>

#include "ed25519.h"

namespace harmonics::inline in_custody {
namespace {

unsigned char* room(std::span<std::byte> bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

void require_sodium() {
  static const int ready = sodium_init();
  if (ready < 0) fail(ErrorCode::kInternal, "libsodium could not start");
}

class SodiumSecret final : public Ed25519Secret {
 public:
  explicit SodiumSecret(const Ed25519Seed& seed) {
    require_sodium();
    if (crypto_sign_seed_keypair(room(public_key_), room(secret_), raw(seed)) != 0) {
      fail(ErrorCode::kInternal, "libsodium could not make an Ed25519 key");
    }
  }
  ~SodiumSecret() override { sodium_memzero(secret_.data(), secret_.size()); }
  SodiumSecret(const SodiumSecret&) = delete;
  SodiumSecret& operator=(const SodiumSecret&) = delete;

  [[nodiscard]] PublicKey public_key() const override { return public_key_; }

  [[nodiscard]] Signature sign(ByteSpan message) const override {
    Signature signature;
    if (crypto_sign_detached(room(signature), nullptr, raw(message), message.size(),
                             raw(secret_)) != 0) {
      fail(ErrorCode::kInternal, "libsodium could not sign");
    }
    return signature;
  }

 private:
  PublicKey public_key_{};
  std::array<std::byte, crypto_sign_SECRETKEYBYTES> secret_{};
};

}  // namespace

std::unique_ptr<Ed25519Secret> make_ed25519_secret(const Ed25519Seed& seed) {
  return std::make_unique<SodiumSecret>(seed);
}

bool verify_ed25519(const PublicKey& key, ByteSpan message, const Signature& signature) {
  require_sodium();
  // The library may have been built to let these pass.
  if (has_small_order(key) || has_small_order(std::span(signature).first<32>())) return false;
  return crypto_sign_verify_detached(raw(signature), raw(message), message.size(), raw(key)) == 0;
}

}  // namespace harmonics::inline in_custody
