#include "gang_secret.h"

#include <harmonics/custody/digest.h>

namespace harmonics::inline in_server {

std::string gang_secret(const std::string& key, AttemptId attempt) {
  const std::string message = "harmonics gang " + to_string(attempt);
  return digest_text(hmac_sha256(bytes_of(key), bytes_of(message)));
}

}  // namespace harmonics::inline in_server
