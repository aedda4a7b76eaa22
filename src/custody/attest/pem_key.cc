#include <harmonics/custody/pem_key.h>

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <array>
#include <cstring>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/private_file.h>
#include <harmonics/custody/digest.h>
#include <harmonics/custody/keys.h>

#include "new_file.h"

namespace harmonics::inline in_custody {
namespace {

constexpr std::size_t kMaxPemBytes = std::size_t{64} << 10;
constexpr std::string_view kPublicEnding = ".pub.pem";

struct Curve {
  std::string_view name;
  const EVP_MD* (*digest)();
};
constexpr std::array<Curve, 3> kCurves = {{
    {"prime256v1", EVP_sha256},
    {"secp384r1", EVP_sha384},
    {"secp521r1", EVP_sha512},
}};

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free_all(bio); }
};
using Bio = std::unique_ptr<BIO, FreeBio>;
struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

[[noreturn]] void fail_openssl(std::string_view what) {
  std::array<char, 256> reason{};
  ERR_error_string_n(ERR_get_error(), reason.data(), reason.size());
  ERR_clear_error();
  fail(ErrorCode::kInternal, "OpenSSL could not {}: {}", what, reason.data());
}

// The curve of a key, or null where it is none that signs models.
const Curve* curve_of(const EVP_PKEY* key) {
  std::array<char, 64> name{};
  std::size_t length = 0;
  const bool told = EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_GROUP_NAME, name.data(),
                                                   name.size(), &length) == 1;
  ERR_clear_error();
  if (!told) return nullptr;
  for (const Curve& curve : kCurves) {
    if (curve.name == std::string_view(name.data(), length)) return &curve;
  }
  return nullptr;
}

// A password is never asked for on a terminal.
int refuse_password(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

std::string pem_of(EVP_PKEY* key) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || PEM_write_bio_PUBKEY(bio.get(), key) != 1) fail_openssl("write a key");
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

}  // namespace

struct EcPublicKey::Key {
  EVP_PKEY* raw = nullptr;
  const Curve* curve = nullptr;
  Key(EVP_PKEY* key, const Curve* on) : raw(key), curve(on) {}
  Key(const Key&) = delete;
  Key& operator=(const Key&) = delete;
  ~Key() { EVP_PKEY_free(raw); }

  static std::shared_ptr<const Key> checked(EVP_PKEY* raw, const std::filesystem::path& file) {
    const Curve* curve = curve_of(raw);
    auto key = std::make_shared<const Key>(raw, curve);
    if (curve != nullptr) return key;
    fail(ErrorCode::kInvalidArgument,
         "'{}' is a key of another kind: models are signed on the curves P-256, P-384 and P-521; "
         "'harmonics keys new NAME --kind p256' makes one",
         file.string());
  }
};

EcPublicKey EcPublicKey::load(const std::filesystem::path& file) {
  const std::string text = read_text_file(file, kMaxPemBytes);
  const Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  EVP_PKEY* raw = bio ? PEM_read_bio_PUBKEY(bio.get(), nullptr, nullptr, nullptr) : nullptr;
  ERR_clear_error();
  if (raw == nullptr) {
    fail(ErrorCode::kDataLoss, "'{}' is no public key: PEM was expected (BEGIN PUBLIC KEY)",
         file.string());
  }
  EcPublicKey key;
  key.key_ = Key::checked(raw, file);
  key.pem_ = pem_of(raw);
  return key;
}

std::string EcPublicKey::hint() const { return digest_text(sha256(bytes_of(pem_))); }

bool EcPublicKey::verify(ByteSpan message, ByteSpan signature) const {
  const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  const bool good =
      context != nullptr &&
      EVP_DigestVerifyInit(context.get(), nullptr, key_->curve->digest(), nullptr, key_->raw) ==
          1 &&
      EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(signature.data()),
                       signature.size(), reinterpret_cast<const unsigned char*>(message.data()),
                       message.size()) == 1;
  ERR_clear_error();
  return good;
}

EcSigningKey EcSigningKey::make() {
  EVP_PKEY* raw = EVP_EC_gen("P-256");
  if (raw == nullptr) fail_openssl("make a key");
  EcSigningKey key;
  key.public_.key_ = EcPublicKey::Key::checked(raw, "a new key");
  key.public_.pem_ = pem_of(raw);
  return key;
}

EcSigningKey EcSigningKey::load(const std::filesystem::path& file) {
  require_private(file, "a secret key");
  std::string text = read_text_file(file, kMaxPemBytes);
  bool asked = false;
  const Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  EVP_PKEY* raw =
      bio ? PEM_read_bio_PrivateKey(bio.get(), nullptr, refuse_password, &asked) : nullptr;
  OPENSSL_cleanse(text.data(), text.size());
  ERR_clear_error();
  if (raw == nullptr) {
    fail(asked ? ErrorCode::kInvalidArgument : ErrorCode::kDataLoss, "'{}' is {}", file.string(),
         asked ? "protected by a password: give a key without one (mode 600)"
               : "no secret key: PEM was expected (BEGIN PRIVATE KEY)");
  }
  EcSigningKey key;
  key.public_.key_ = EcPublicKey::Key::checked(raw, file);
  key.public_.pem_ = pem_of(raw);
  return key;
}

Bytes EcSigningKey::sign(ByteSpan message) const {
  const EcPublicKey::Key& key = *public_.key_;
  const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  const auto* const text = reinterpret_cast<const unsigned char*>(message.data());
  std::size_t size = 0;
  if (context == nullptr ||
      EVP_DigestSignInit(context.get(), nullptr, key.curve->digest(), nullptr, key.raw) != 1 ||
      EVP_DigestSign(context.get(), nullptr, &size, text, message.size()) != 1) {
    fail_openssl("sign");
  }
  Bytes signature(size);
  if (EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, text,
                     message.size()) != 1) {
    fail_openssl("sign");
  }
  signature.resize(size);
  return signature;
}

void EcSigningKey::save(const std::filesystem::path& folder, const std::string& name) const {
  if (const std::string problem = key_name_problem(name); !problem.empty()) {
    fail(ErrorCode::kInvalidArgument, "'{}' cannot name a key: {}", name, problem);
  }
  make_key_folder(folder);
  const std::filesystem::path public_file = folder / (name + std::string(kPublicEnding));
  if (std::filesystem::exists(public_file)) {
    fail(ErrorCode::kAlreadyExists, "'{}' exists already: choose another name",
         public_file.string());
  }
  const Bio bio(BIO_new(BIO_s_secmem()));
  char* text = nullptr;
  if (bio == nullptr || PEM_write_bio_PrivateKey(bio.get(), public_.key_->raw, nullptr, nullptr, 0,
                                                 nullptr, nullptr) != 1) {
    fail_openssl("write a key");
  }
  const long size = BIO_get_mem_data(bio.get(), &text);
  write_new_file(folder / (name + ".pem"), {text, static_cast<std::size_t>(size)}, 0600);
  write_new_file(public_file, public_.pem(), 0644);
}

std::vector<std::pair<std::string, EcPublicKey>> load_ec_roster(
    const std::filesystem::path& folder) {
  std::vector<std::pair<std::string, EcPublicKey>> keys;
  for (const std::filesystem::path& entry : list_folder(folder)) {
    const std::string name = entry.filename().string();
    if (!name.ends_with(kPublicEnding)) continue;
    if (keys.size() == kMaxRosterKeys) {
      fail(ErrorCode::kResourceExhausted, "'{}' holds more than {} public keys", folder.string(),
           kMaxRosterKeys);
    }
    keys.emplace_back(name.substr(0, name.size() - kPublicEnding.size()), EcPublicKey::load(entry));
  }
  return keys;
}

std::filesystem::path find_ec_key(const std::filesystem::path& folder, const std::string& key) {
  if (!key.empty()) {
    if (key.ends_with(".pem")) return key;
    const std::filesystem::path file = folder / (key + ".pem");
    if (key_name_problem(key).empty() && std::filesystem::exists(file)) return file;
    fail(ErrorCode::kNotFound,
         "there is no key '{}.pem' in '{}': 'harmonics keys new {} --kind p256' makes one", key,
         folder.string(), key);
  }
  std::vector<std::filesystem::path> found;
  for (const std::filesystem::path& entry : list_folder(folder)) {
    const std::string name = entry.filename().string();
    if (name.ends_with(".pem") && !name.ends_with(kPublicEnding)) found.push_back(entry);
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    fail(ErrorCode::kNotFound,
         "there is no key that signs models in '{}': 'harmonics keys new NAME --kind p256' makes "
         "one, or give a PEM file with --key",
         folder.string());
  }
  fail(ErrorCode::kNotFound, "'{}' holds several keys that sign models ({}): say which with --key",
       folder.string(),
       joined(found, ", ", [](const std::filesystem::path& file) { return file.stem().string(); }));
}

}  // namespace harmonics::inline in_custody
