// Ed25519 keys: whose signature a stage's custody records carry, and whom a verifier knows.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <harmonics/base/bytes.h>

namespace harmonics::inline in_custody {

using PublicKey = std::array<std::byte, 32>;
using Signature = std::array<std::byte, 64>;

/// The longest name of a key, a stage or a boundary in custody records.
inline constexpr std::size_t kMaxCustodyName = 255;
/// The most public keys in one folder.
inline constexpr std::size_t kMaxRosterKeys = 4096;

/// A secret key with its name. A value that shares the secret, which is wiped with the last copy.
/// Threads: const calls from any.
class SigningKey {
 public:
  /// A new key from the operating system's randomness. A name that key_name_problem refuses is an
  /// Error.
  [[nodiscard]] static SigningKey make(std::string name);
  /// The key of a 32-byte seed (RFC 8032); another length is an Error.
  [[nodiscard]] static SigningKey from_seed(std::string name, ByteSpan seed);
  /// Reads NAME.key; a file that others may read is an Error (kPermissionDenied).
  [[nodiscard]] static SigningKey load(const std::filesystem::path& file);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const PublicKey& public_key() const { return public_key_; }
  [[nodiscard]] Signature sign(ByteSpan message) const;

  /// Writes NAME.key (mode 600) and NAME.pub into `folder`, which is made with mode 700 if it is
  /// not there. A key of that name that exists already is an Error (kAlreadyExists).
  void save(const std::filesystem::path& folder) const;

 private:
  struct Secret;
  SigningKey() = default;

  std::string name_;
  PublicKey public_key_{};
  std::shared_ptr<const Secret> secret_;
};

/// Why a text cannot name a key, stage or boundary in a file name; empty when it can.
[[nodiscard]] std::string key_name_problem(std::string_view name);

/// Whether `signature` over `message` was made with the secret of `key`. Bytes that are no key or
/// no signature simply do not verify.
[[nodiscard]] bool verify_signature(const PublicKey& key, ByteSpan message,
                                    const Signature& signature);

/// Public keys by name: whom a verifier knows. A value.
class Roster {
 public:
  /// All NAME.pub files in `folder`; a folder that is not there is an empty roster, a file that is
  /// no public key an Error that names it.
  [[nodiscard]] static Roster load(const std::filesystem::path& folder);

  void add(std::string name, const PublicKey& key);
  [[nodiscard]] const PublicKey* find(std::string_view name) const;
  /// The name under which a key is known.
  [[nodiscard]] std::optional<std::string> name_of(const PublicKey& key) const;
  [[nodiscard]] const std::map<std::string, PublicKey, std::less<>>& keys() const { return keys_; }

 private:
  std::map<std::string, PublicKey, std::less<>> keys_;
};

/// The key to sign with: NAME.key of a folder, or with an empty name the only one that is there. An
/// Error (kNotFound) says what there is and how to make one.
[[nodiscard]] SigningKey find_signing_key(const std::filesystem::path& folder,
                                          const std::string& name);

/// The same, but where an empty name finds a folder without keys it makes the user's own,
/// "<user>@<host>", and says so in the log.
[[nodiscard]] SigningKey own_signing_key(const std::filesystem::path& folder,
                                         const std::string& name);

/// Makes the folder, for its owner alone, unless it is there.
void make_key_folder(const std::filesystem::path& folder);

/// Where the user's keys and roster lie: $HARMONICS_KEYS, else $XDG_CONFIG_HOME/harmonics/keys,
/// else ~/.config/harmonics/keys. An Error when none of these is set.
[[nodiscard]] std::filesystem::path default_key_folder();

/// 64 hexadecimal digits.
[[nodiscard]] std::string key_text(const PublicKey& key);

}  // namespace harmonics::inline in_custody
