// Keys on the curves of OpenSSF Model Signing (P-256, P-384, P-521), in PEM files that other tools
// read and write.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <harmonics/base/bytes.h>

namespace harmonics::inline in_custody {

/// A value; const calls from any thread. Another curve, or a file that is no PEM key, is an Error
/// that names the file.
class EcPublicKey {
 public:
  [[nodiscard]] static EcPublicKey load(const std::filesystem::path& file);
  /// The key itself as PEM (SubjectPublicKeyInfo), which is what `hint` is made of.
  [[nodiscard]] const std::string& pem() const { return pem_; }
  /// SHA-256 over the PEM text: how a bundle says whose signature it holds.
  [[nodiscard]] std::string hint() const;
  /// ECDSA with the SHA-2 of the curve's size over `message`; DER, as OpenSSL writes it.
  [[nodiscard]] bool verify(ByteSpan message, ByteSpan signature) const;

 private:
  friend class EcSigningKey;
  struct Key;
  EcPublicKey() = default;

  std::shared_ptr<const Key> key_;
  std::string pem_;
};

/// A secret key; wiped with the last copy. Const calls from any thread.
class EcSigningKey {
 public:
  /// A new key on P-256.
  [[nodiscard]] static EcSigningKey make();
  /// A PEM file; one that others may read is an Error (kPermissionDenied), one with a password too
  /// (kInvalidArgument).
  [[nodiscard]] static EcSigningKey load(const std::filesystem::path& file);
  [[nodiscard]] const EcPublicKey& public_key() const { return public_; }
  [[nodiscard]] Bytes sign(ByteSpan message) const;
  /// Writes NAME.pem (mode 600) and NAME.pub.pem into `folder`, which is made if it is not there. A
  /// key of that name that exists already is an Error (kAlreadyExists).
  void save(const std::filesystem::path& folder, const std::string& name) const;

 private:
  EcSigningKey() = default;
  EcPublicKey public_;
};

/// The NAME.pub.pem files of a folder by name; none where there is no such folder.
[[nodiscard]] std::vector<std::pair<std::string, EcPublicKey>> load_ec_roster(
    const std::filesystem::path& folder);

/// What `--key` of `harmonics sign` means: a PEM file, the name of a key in `folder`, or with an
/// empty text the only one there. An Error (kNotFound) says what there is and how to make one.
[[nodiscard]] std::filesystem::path find_ec_key(const std::filesystem::path& folder,
                                                const std::string& key);

}  // namespace harmonics::inline in_custody
