#include "session_cookie.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <array>
#include <memory>

#include <harmonics/base/error.h>
#include <harmonics/base/number_text.h>

namespace harmonics::inline in_server {
namespace {

constexpr std::size_t kNonceBytes = 12;
constexpr std::size_t kTagBytes = 16;
/// In hexadecimal digits: nonce, time, token and tag.
constexpr std::size_t kMaxCookieDigits = 2 * (kNonceBytes + 24 + kMaxLoginTokenBytes + kTagBytes);

using Cipher = std::unique_ptr<EVP_CIPHER_CTX, decltype(&::EVP_CIPHER_CTX_free)>;

Digest drawn(std::string_view secret, std::string_view purpose) {
  return hmac_sha256(bytes_of(secret), bytes_of(purpose));
}

const unsigned char* raw(const void* bytes) { return static_cast<const unsigned char*>(bytes); }
unsigned char* raw(std::string& text, std::size_t at = 0) {
  return reinterpret_cast<unsigned char*>(text.data()) + at;
}

std::string hex_of(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char one : bytes) {
    const auto value = static_cast<unsigned char>(one);
    text += kDigits[value >> 4];
    text += kDigits[value & 15];
  }
  return text;
}

std::optional<std::string> bytes_of_hex(std::string_view text) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  if (text.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = digit(text[i]);
    const int low = digit(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

}  // namespace

SessionCookies::SessionCookies(std::string_view secret)
    : key_(drawn(secret, "harmonics page session")),
      action_key_(drawn(secret, "harmonics page action")) {}

std::string SessionCookies::seal(std::string_view token, std::chrono::seconds now) const {
  if (token.size() > kMaxLoginTokenBytes) {
    fail(ErrorCode::kInvalidArgument, "the token is longer than {} bytes", kMaxLoginTokenBytes);
  }
  const std::string plain = format("{} {}", (now + kSessionLength).count(), token);
  std::string sealed(kNonceBytes + plain.size() + kTagBytes, '\0');
  const Cipher cipher(::EVP_CIPHER_CTX_new(), &::EVP_CIPHER_CTX_free);
  int written = 0;
  const bool good =
      cipher && ::RAND_bytes(raw(sealed), kNonceBytes) == 1 &&
      ::EVP_EncryptInit_ex(cipher.get(), ::EVP_aes_256_gcm(), nullptr, raw(key_.data()),
                           raw(sealed)) == 1 &&
      ::EVP_EncryptUpdate(cipher.get(), raw(sealed, kNonceBytes), &written, raw(plain.data()),
                          static_cast<int>(plain.size())) == 1 &&
      ::EVP_EncryptFinal_ex(cipher.get(), raw(sealed, sealed.size() - kTagBytes), &written) == 1 &&
      ::EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes,
                            raw(sealed, sealed.size() - kTagBytes)) == 1;
  if (!good) fail(ErrorCode::kInternal, "OpenSSL cannot seal a session");
  return hex_of(sealed);
}

std::optional<std::string> SessionCookies::open(std::string_view cookie,
                                                std::chrono::seconds now) const {
  if (cookie.size() > kMaxCookieDigits) return std::nullopt;
  std::optional<std::string> sealed = bytes_of_hex(cookie);
  if (!sealed || sealed->size() <= kNonceBytes + kTagBytes) return std::nullopt;
  std::string plain(sealed->size() - kNonceBytes - kTagBytes, '\0');
  const Cipher cipher(::EVP_CIPHER_CTX_new(), &::EVP_CIPHER_CTX_free);
  int written = 0;
  std::array<unsigned char, kTagBytes> rest{};
  const bool good =
      cipher &&
      ::EVP_DecryptInit_ex(cipher.get(), ::EVP_aes_256_gcm(), nullptr, raw(key_.data()),
                           raw(*sealed)) == 1 &&
      ::EVP_DecryptUpdate(cipher.get(), raw(plain), &written, raw(*sealed, kNonceBytes),
                          static_cast<int>(plain.size())) == 1 &&
      ::EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes,
                            raw(*sealed, sealed->size() - kTagBytes)) == 1 &&
      ::EVP_DecryptFinal_ex(cipher.get(), rest.data(), &written) == 1;
  if (!good) return std::nullopt;
  const std::size_t blank = plain.find(' ');
  const auto until = number_from<std::int64_t>(plain.substr(0, blank));
  if (blank == plain.npos || !until || *until <= now.count()) return std::nullopt;
  return plain.substr(blank + 1);
}

std::string SessionCookies::action_token(std::string_view cookie) const {
  return digest_text(hmac_sha256(action_key_, bytes_of(cookie)));
}

bool SessionCookies::is_action_token(std::string_view cookie, std::string_view shown) const {
  const std::string wanted = action_token(cookie);
  return shown.size() == wanted.size() &&
         ::CRYPTO_memcmp(shown.data(), wanted.data(), wanted.size()) == 0;
}

std::string_view cookie_value(std::string_view header, std::string_view name) {
  while (!header.empty()) {
    const std::size_t end = std::min(header.find(';'), header.size());
    std::string_view one = header.substr(0, end);
    header.remove_prefix(std::min(end + 1, header.size()));
    while (one.starts_with(' ')) one.remove_prefix(1);
    const std::size_t equals = one.find('=');
    if (equals != one.npos && one.substr(0, equals) == name) return one.substr(equals + 1);
  }
  return {};
}

}  // namespace harmonics::inline in_server
