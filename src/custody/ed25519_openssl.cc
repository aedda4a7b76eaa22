#include <openssl/evp.h>

#include <algorithm>

#include <harmonics/base/error.h>

#include "ed25519.h"

namespace harmonics::inline in_custody {
namespace {

using KeyHandle = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using ContextHandle = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;

class OpensslSecret final : public Ed25519Secret {
 public:
  explicit OpensslSecret(const Ed25519Seed& seed)
      : key_(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, raw(seed), seed.size()),
             EVP_PKEY_free) {
    if (key_ == nullptr) fail(ErrorCode::kInternal, "OpenSSL could not make an Ed25519 key");
  }

  [[nodiscard]] PublicKey public_key() const override {
    PublicKey key;
    std::size_t size = key.size();
    if (EVP_PKEY_get_raw_public_key(key_.get(), reinterpret_cast<unsigned char*>(key.data()),
                                    &size) != 1) {
      fail(ErrorCode::kInternal, "OpenSSL has no public half of an Ed25519 key");
    }
    return key;
  }

  [[nodiscard]] Signature sign(ByteSpan message) const override {
    const ContextHandle context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
    Signature signature;
    std::size_t size = signature.size();
    if (context == nullptr ||
        EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) != 1 ||
        EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                       raw(message), message.size()) != 1) {
      fail(ErrorCode::kInternal, "OpenSSL could not sign");
    }
    return signature;
  }

 private:
  KeyHandle key_;
};

// The y of the points of order 1, 2, 4 and 8, and those two above the modulus that mean the same;
// the sign of x, the highest bit, is left out.
constexpr std::array<std::array<std::uint8_t, 32>, 7> kSmallOrder = {{
    {0},
    {1},
    {0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4,
     0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6,
     0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05},
    {0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b,
     0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39,
     0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a},
    {0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
    {0xed, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
    {0xee, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
}};

}  // namespace

std::unique_ptr<Ed25519Secret> make_openssl_secret(const Ed25519Seed& seed) {
  return std::make_unique<OpensslSecret>(seed);
}

bool verify_with_openssl(const PublicKey& key, ByteSpan message, const Signature& signature) {
  if (has_small_order(key) || has_small_order(std::span(signature).first<32>())) return false;
  const KeyHandle handle(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, raw(key), key.size()), EVP_PKEY_free);
  const ContextHandle context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  return handle != nullptr && context != nullptr &&
         EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, handle.get()) == 1 &&
         EVP_DigestVerify(context.get(), raw(signature), signature.size(), raw(message),
                          message.size()) == 1;
}

bool has_small_order(std::span<const std::byte, 32> point) {
  return std::ranges::any_of(kSmallOrder, [&](const auto& y) {
    for (std::size_t i = 0; i + 1 < y.size(); ++i) {
      if (point[i] != std::byte{y[i]}) return false;
    }
    return (point[31] & std::byte{0x7f}) == std::byte{y[31]};
  });
}

}  // namespace harmonics::inline in_custody
