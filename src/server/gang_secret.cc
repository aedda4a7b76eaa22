#include "gang_secret.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>

#include <harmonics/base/bytes.h>
#include <harmonics/base/error.h>

namespace harmonics::inline in_server {

std::string gang_secret(const std::string& key, AttemptId attempt) {
  const std::string message = "harmonics gang " + to_string(attempt);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(message.data()), message.size(), digest.data(),
           &length) == nullptr) {
    fail(ErrorCode::kInternal, "no secret for the gang of attempt {}", to_string(attempt));
  }
  return to_hex(std::as_bytes(std::span(digest).first(length)));
}

}  // namespace harmonics::inline in_server
