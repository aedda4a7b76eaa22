#include <harmonics/custody/digest.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <utility>

#include <harmonics/base/error.h>

namespace harmonics::inline in_custody {

struct Sha256::Context {
  EVP_MD_CTX* raw = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(raw); }
};

namespace {
void require(int ok) {
  if (ok != 1) fail(ErrorCode::kInternal, "OpenSSL could not compute a SHA-256 digest");
}

// Looked up once: EVP_sha256() would search the providers again for every digest, which costs more
// than hashing a record. Lives as long as the process.
const EVP_MD* algorithm() {
  static const EVP_MD* const found = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return found;
}
}  // namespace

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  const bool there = context_->raw != nullptr && algorithm() != nullptr;
  require(there ? EVP_DigestInit_ex(context_->raw, algorithm(), nullptr) : 0);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

Sha256& Sha256::update(ByteSpan bytes) {
  if (context_ == nullptr) fail(ErrorCode::kFailedPrecondition, "a SHA-256 digest was used again");
  require(EVP_DigestUpdate(context_->raw, bytes.data(), bytes.size()));
  return *this;
}

Digest Sha256::finish() {
  update({});
  const std::unique_ptr<Context> last = std::move(context_);
  Digest digest;
  require(EVP_DigestFinal_ex(last->raw, reinterpret_cast<unsigned char*>(digest.data()), nullptr));
  return digest;
}

Digest sha256(ByteSpan bytes) { return Sha256().update(bytes).finish(); }

Digest hmac_sha256(ByteSpan key, ByteSpan message) {
  Digest code;
  const void* const start = key.empty() ? "" : static_cast<const void*>(key.data());  // never null
  if (HMAC(algorithm(), start, static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(message.data()), message.size(),
           reinterpret_cast<unsigned char*>(code.data()), nullptr) == nullptr) {
    fail(ErrorCode::kInternal, "OpenSSL could not compute an HMAC with SHA-256");
  }
  return code;
}

std::string digest_text(const Digest& digest) { return to_hex(digest); }

}  // namespace harmonics::inline in_custody
