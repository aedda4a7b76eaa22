// OpenSSF Model Signing 1.0, key mode: the files of a model, signed as a sigstore bundle that
// `model_signing verify key` accepts, and the other way round (docs/formats/attestation.md).
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/custody/digest.h>
#include <harmonics/custody/pem_key.h>

namespace harmonics::inline in_custody {

inline constexpr std::size_t kMaxModelFiles = 100'000;
inline constexpr std::size_t kMaxBundleBytes = std::size_t{64} << 20;

/// One file of a model: its path inside the model with '/', or "." where the model is one file.
struct ModelFile {
  std::string name;
  Digest digest{};
  bool operator==(const ModelFile&) const = default;
};

/// All files of a model, sorted by name.
struct ModelManifest {
  /// For people: the last part of the model's path.
  std::string model;
  std::vector<ModelFile> files;
  /// Paths inside the model that were left out, with all below them.
  std::vector<std::string> ignored;
  bool follows_links = false;
};

/// SHA-256 over a file; errors name it.
[[nodiscard]] Digest file_digest(const std::filesystem::path& file);

/// Hashes a file or all files of a folder but those in `ignored` and git's own. A symbolic link is
/// an Error unless `follows_links`; so is what is neither file nor folder, and more than
/// kMaxModelFiles.
[[nodiscard]] ModelManifest model_manifest(const std::filesystem::path& model,
                                           std::vector<std::string> ignored,
                                           bool follows_links = false);

/// The bundle as text.
[[nodiscard]] std::string sign_manifest(const ModelManifest& manifest, const EcSigningKey& key);

/// Whether a text looks like a bundle at all; nothing is checked.
[[nodiscard]] bool is_model_bundle(std::string_view text);
/// The `hint` of the key that a bundle says it is signed with; empty where it says none.
[[nodiscard]] std::string bundle_hint(std::string_view bundle);
/// What `key` signed. A CustodyError says what does not hold: kMalformedStatement, kSubstitutedKey
/// (another key), kAlteredStatement (signature or digests).
[[nodiscard]] ModelManifest check_bundle(std::string_view bundle, const EcPublicKey& key);
/// Compares the model at hand with what was signed; `signature` is left out where it lies inside. A
/// CustodyError (kAlteredModel) names the file that was changed, added or removed.
void check_model(const std::filesystem::path& model, const ModelManifest& manifest,
                 const std::filesystem::path& signature);

}  // namespace harmonics::inline in_custody
