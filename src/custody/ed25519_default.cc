// The signatures of a build without libsodium.
#include "ed25519.h"

namespace harmonics::inline in_custody {

std::unique_ptr<Ed25519Secret> make_ed25519_secret(const Ed25519Seed& seed) {
  return make_openssl_secret(seed);
}

bool verify_ed25519(const PublicKey& key, ByteSpan message, const Signature& signature) {
  return verify_with_openssl(key, message, signature);
}

}  // namespace harmonics::inline in_custody
