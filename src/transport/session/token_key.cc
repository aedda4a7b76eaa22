#include "token_key.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <mutex>
#include <set>

#include <harmonics/base/error.h>

#include "handshake.h"

namespace harmonics::inline in_transport {
namespace {

constexpr std::uint64_t kCost = 1 << 15;
constexpr std::uint64_t kBlockSize = 8;
constexpr std::uint64_t kParallel = 1;
constexpr std::uint64_t kMaxMemory = std::uint64_t{64} << 20;
constexpr std::size_t kRemembered = 64;

struct Known {
  Digest token{};  // hashed: a table need not hold secrets
  TokenSalt salt{};
  Digest key{};
};

Digest stretched(std::string_view token, const TokenSalt& salt) {
  Digest key{};
  if (::EVP_PBE_scrypt(token.data(), token.size(),
                       reinterpret_cast<const unsigned char*>(salt.data()), salt.size(), kCost,
                       kBlockSize, kParallel, kMaxMemory,
                       reinterpret_cast<unsigned char*>(key.data()), key.size()) != 1) {
    fail(ErrorCode::kResourceExhausted,
         "no key could be made of the token: that takes 32 MiB of memory");
  }
  return key;
}

}  // namespace

const TokenSalt& own_token_salt() {
  static const TokenSalt salt = [] {
    const Nonce random = random_nonce();
    TokenSalt made{};
    std::copy_n(random.begin(), made.size(), made.begin());
    return made;
  }();
  return salt;
}

Digest token_key(std::string_view token, const TokenSalt& salt) {
  static std::mutex mutex;
  static std::deque<Known> known;
  const Digest hashed = sha256(bytes_of(token));
  const std::lock_guard lock(mutex);
  const auto found = std::ranges::find_if(
      known, [&](const Known& one) { return one.token == hashed && one.salt == salt; });
  if (found != known.end()) return found->key;
  if (known.size() == kRemembered) known.pop_front();
  return known.emplace_back(hashed, salt, stretched(token, salt)).key;
}

double token_bits(std::string_view token) {
  const std::set<char> different(token.begin(), token.end());
  if (different.empty()) return 0;
  return static_cast<double>(token.size()) * std::log2(static_cast<double>(different.size()));
}

}  // namespace harmonics::inline in_transport
