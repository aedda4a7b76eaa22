#include <harmonics/custody/keys.h>

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include <harmonics/base/descriptor.h>
#include <harmonics/base/environment.h>
#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/private_file.h>
#include <harmonics/base/user_folders.h>
#include <harmonics/custody/hex.h>

#include "ed25519.h"
#include "new_file.h"

namespace harmonics::inline in_custody {
namespace {

constexpr std::string_view kPublicMark = "harmonics-ed25519-public ";
constexpr std::string_view kSecretMark = "harmonics-ed25519-secret ";
constexpr std::size_t kMaxKeyFileBytes = 4096;

// "<mark><64 digits>\n" and nothing else.
std::array<std::byte, 32> read_key_line(const std::filesystem::path& file, std::string_view mark) {
  std::string text = read_text_file(file, kMaxKeyFileBytes);
  std::array<std::byte, 32> value;
  const bool good = text.starts_with(mark) && text.ends_with('\n') &&
                    from_hex(std::string_view(text).substr(mark.size(), 64), value) &&
                    text.size() == mark.size() + 65;
  OPENSSL_cleanse(text.data(), text.size());
  if (!good) {
    fail(ErrorCode::kDataLoss, "'{}' is no key file: one line '{}' and 64 digits was expected",
         file.string(), mark);
  }
  return value;
}

}  // namespace

void write_new_file(const std::filesystem::path& file, std::string_view text, mode_t mode) {
  const Descriptor made(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!made && errno == EEXIST) {
    fail(ErrorCode::kAlreadyExists, "'{}' exists already: choose another name", file.string());
  }
  if (!made) fail_errno(errno, format("cannot write '{}'", file.string()));
  const ssize_t written = ::write(made.get(), text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size()) && ::fsync(made.get()) == 0) return;
  const int reason = errno;
  ::unlink(file.c_str());
  fail_errno(written < 0 ? reason : ENOSPC, format("cannot write '{}'", file.string()));
}

struct SigningKey::Secret {
  Ed25519Seed seed{};
  std::unique_ptr<Ed25519Secret> key;
  ~Secret() { OPENSSL_cleanse(seed.data(), seed.size()); }
};

SigningKey SigningKey::make(std::string name) {
  Ed25519Seed seed;
  if (RAND_priv_bytes(reinterpret_cast<unsigned char*>(seed.data()), seed.size()) != 1) {
    fail(ErrorCode::kUnavailable, "OpenSSL has no randomness for a new key");
  }
  SigningKey key = from_seed(std::move(name), seed);
  OPENSSL_cleanse(seed.data(), seed.size());
  return key;
}

SigningKey SigningKey::from_seed(std::string name, ByteSpan seed) {
  if (const std::string problem = key_name_problem(name); !problem.empty()) {
    fail(ErrorCode::kInvalidArgument, "'{}' cannot name a key: {}", name, problem);
  }
  auto secret = std::make_shared<Secret>();
  if (seed.size() != secret->seed.size()) {
    fail(ErrorCode::kInvalidArgument, "the seed of a key has {} bytes, not {}", secret->seed.size(),
         seed.size());
  }
  std::memcpy(secret->seed.data(), seed.data(), seed.size());
  secret->key = make_ed25519_secret(secret->seed);
  SigningKey made;
  made.public_key_ = secret->key->public_key();
  made.name_ = std::move(name);
  made.secret_ = std::move(secret);
  return made;
}

SigningKey SigningKey::load(const std::filesystem::path& file) {
  require_private(file, "a secret key");
  Ed25519Seed seed = read_key_line(file, kSecretMark);
  SigningKey key = from_seed(file.stem().string(), seed);
  OPENSSL_cleanse(seed.data(), seed.size());
  return key;
}

Signature SigningKey::sign(ByteSpan message) const { return secret_->key->sign(message); }

void make_key_folder(const std::filesystem::path& folder) {
  std::error_code trouble;
  if (std::filesystem::exists(folder, trouble)) return;
  if (!trouble) std::filesystem::create_directories(folder, trouble);
  if (!trouble) {
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, trouble);
  }
  if (trouble) {
    fail(ErrorCode::kPermissionDenied,
         "the folder of keys '{}' cannot be made: {}; name another with --keys or HARMONICS_KEYS",
         folder.string(), trouble.message());
  }
}

void SigningKey::save(const std::filesystem::path& folder) const {
  make_key_folder(folder);
  std::string secret = format("{}{}\n", kSecretMark, to_hex(secret_->seed));
  const std::filesystem::path public_file = folder / (name_ + ".pub");
  if (std::filesystem::exists(public_file)) {
    fail(ErrorCode::kAlreadyExists, "'{}' exists already: choose another name",
         public_file.string());
  }
  write_new_file(folder / (name_ + ".key"), secret, 0600);
  OPENSSL_cleanse(secret.data(), secret.size());
  write_new_file(public_file, format("{}{}\n", kPublicMark, key_text(public_key_)), 0644);
}

std::string key_name_problem(std::string_view name) {
  if (name.empty()) return "it is empty";
  if (name.size() > kMaxCustodyName) return format("it is longer than {}", kMaxCustodyName);
  if (name.front() == '.') return "it begins with a dot";
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && std::string_view("._-@").find(c) == std::string_view::npos) {
      return "only letters, digits and . _ - @ are possible";
    }
  }
  return "";
}

bool verify_signature(const PublicKey& key, ByteSpan message, const Signature& signature) {
  return verify_ed25519(key, message, signature);
}

Roster Roster::load(const std::filesystem::path& folder) {
  Roster roster;
  for (const std::filesystem::path& entry : list_folder(folder)) {
    if (entry.extension() != ".pub") continue;
    if (roster.keys_.size() == kMaxRosterKeys) {
      fail(ErrorCode::kResourceExhausted, "'{}' holds more than {} public keys", folder.string(),
           kMaxRosterKeys);
    }
    roster.add(entry.stem().string(), read_key_line(entry, kPublicMark));
  }
  return roster;
}

void Roster::add(std::string name, const PublicKey& key) {
  keys_.insert_or_assign(std::move(name), key);
}

const PublicKey* Roster::find(std::string_view name) const {
  const auto found = keys_.find(name);
  return found == keys_.end() ? nullptr : &found->second;
}

std::optional<std::string> Roster::name_of(const PublicKey& key) const {
  for (const auto& [name, known] : keys_) {
    if (known == key) return name;
  }
  return std::nullopt;
}

SigningKey find_signing_key(const std::filesystem::path& folder, const std::string& name) {
  if (!name.empty()) {
    const std::filesystem::path file = folder / (name + ".key");
    if (key_name_problem(name).empty() && std::filesystem::exists(file)) {
      return SigningKey::load(file);
    }
    fail(ErrorCode::kNotFound, "there is no key '{}' in '{}': 'harmonics keys new {}' makes one",
         name, folder.string(), name);
  }
  std::vector<std::filesystem::path> found;
  for (const std::filesystem::path& entry : list_folder(folder)) {
    if (entry.extension() == ".key") found.push_back(entry);
  }
  if (found.size() == 1) return SigningKey::load(found.front());
  const std::string names =
      joined(found, ", ", [](const std::filesystem::path& file) { return file.stem().string(); });
  if (found.empty()) {
    fail(ErrorCode::kNotFound,
         "there is no key to sign with in '{}': 'harmonics keys new NAME' makes one",
         folder.string());
  }
  fail(ErrorCode::kNotFound, "'{}' holds several keys ({}): say which with --key", folder.string(),
       names);
}

std::filesystem::path default_key_folder() {
  if (const std::string folder = environment_text("HARMONICS_KEYS"); !folder.empty()) return folder;
  if (const auto folder = user_config_folder()) return *folder / "keys";
  fail(ErrorCode::kFailedPrecondition,
       "no folder for keys: set HARMONICS_KEYS, XDG_CONFIG_HOME or HOME, or pass --keys");
}

std::string key_text(const PublicKey& key) { return to_hex(key); }

}  // namespace harmonics::inline in_custody
