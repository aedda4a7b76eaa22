#include <harmonics/custody/model_signature.h>

#include <algorithm>
#include <set>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/custody/breach.h>
#include <harmonics/custody/dsse.h>
#include <harmonics/custody/hex.h>

namespace harmonics::inline in_custody {
namespace {

constexpr std::string_view kBundleType = "application/vnd.dev.sigstore.bundle.v0.3+json";
constexpr std::string_view kPredicateType = "https://model_signing/signature/v1.0";
constexpr std::string_view kBundle = "the model's signature";

Digest digest_over(const std::vector<ModelFile>& files) {
  Sha256 digest;
  for (const ModelFile& file : files) digest.update(file.digest);
  return digest.finish();
}

Json statement_json(const ModelManifest& manifest) {
  Json resources = Json::array();
  for (const ModelFile& file : manifest.files) {
    resources.push(Json()
                       .set("name", file.name)
                       .set("algorithm", "sha256")
                       .set("digest", digest_text(file.digest)));
  }
  Json ignored = Json::array();
  for (const std::string& path : manifest.ignored) ignored.push(path);
  Json serialization = Json()
                           .set("method", "files")
                           .set("hash_type", "sha256")
                           .set("allow_symlinks", manifest.follows_links)
                           .set("ignore_paths", std::move(ignored));
  Json subject = Json()
                     .set("name", manifest.model)
                     .set("digest", Json().set("sha256", digest_text(digest_over(manifest.files))));
  return Json()
      .set("_type", kInTotoStatement)
      .set("subject", Json::array().push(std::move(subject)))
      .set("predicateType", kPredicateType)
      .set("predicate", Json()
                            .set("serialization", std::move(serialization))
                            .set("resources", std::move(resources)));
}

Digest digest_from(const Json& json) {
  Digest digest;
  if (!from_hex(json.as_string(), digest)) {
    fail_custody(Breach::kMalformedStatement, "'{}' is no SHA-256", json.as_string());
  }
  return digest;
}

// A path that stays inside the model, as it is written by those who sign.
void require_inside(const std::string& name) {
  const std::filesystem::path path(name);
  const bool outside = name.empty() || path.is_absolute() || path.lexically_normal() != path ||
                       *path.begin() == "..";
  if (outside) fail_custody(Breach::kMalformedStatement, "'{}' is no path inside a model", name);
}

void read_serialization(const Json& json, ModelManifest& manifest) {
  const std::string& method = json.at("method").as_string();
  const std::string& hash = json.at("hash_type").as_string();
  if (method != "files" || hash != "sha256") {
    fail(ErrorCode::kUnimplemented,
         "this model is signed by {} with {}: only 'files' with 'sha256' can be checked here",
         method, hash);
  }
  manifest.follows_links = json.at("allow_symlinks").as_bool();
  const Json* ignored = json.find("ignore_paths");
  if (ignored == nullptr) return;
  for (const Json& path : ignored->as_array()) manifest.ignored.push_back(path.as_string());
}

ModelManifest manifest_from(const Json& statement) {
  const std::string& type = statement.at("predicateType").as_string();
  if (type != kPredicateType) {
    fail_custody(Breach::kMalformedStatement, "{} states '{}' and not '{}'", kBundle, type,
                 kPredicateType);
  }
  const Json::Array& subjects = statement.at("subject").as_array();
  if (subjects.size() != 1)
    fail_custody(Breach::kMalformedStatement, "{} is of several models", kBundle);
  ModelManifest manifest;
  manifest.model = subjects.front().at("name").as_string();
  const Json& predicate = statement.at("predicate");
  read_serialization(predicate.at("serialization"), manifest);
  const Json::Array& resources = predicate.at("resources").as_array();
  if (resources.empty() || resources.size() > kMaxModelFiles) {
    fail_custody(Breach::kMalformedStatement, "{} is of {} files", kBundle, resources.size());
  }
  std::set<std::string> names;
  for (const Json& resource : resources) {
    const std::string& name = resource.at("name").as_string();
    require_inside(name);
    if (resource.at("algorithm").as_string() != "sha256" || !names.insert(name).second) {
      fail_custody(Breach::kMalformedStatement, "{} is of '{}' twice, or not by SHA-256", kBundle,
                   name);
    }
    manifest.files.push_back({name, digest_from(resource.at("digest"))});
  }
  // In the order of the statement, whatever that is.
  const Digest stated = digest_from(subjects.front().at("digest").at("sha256"));
  if (digest_over(manifest.files) != stated) {
    fail_custody(Breach::kAlteredStatement, "{} states the digest {} over its files, which have {}",
                 kBundle, digest_text(stated), digest_text(digest_over(manifest.files)));
  }
  std::ranges::sort(manifest.files, {}, &ModelFile::name);
  return manifest;
}

Json parsed_bundle(std::string_view text) {
  Json bundle = Json::parse(text, kBundle);
  const std::string& type = bundle.at("mediaType").as_string();
  if (type != kBundleType) {
    fail_custody(Breach::kMalformedStatement, "{} is '{}' and not '{}'", kBundle, type,
                 kBundleType);
  }
  return bundle;
}

std::string hint_of(const Json& bundle) {
  const Json* key = bundle.at("verificationMaterial").find("publicKey");
  const Json* hint = key == nullptr ? nullptr : key->find("hint");
  return hint != nullptr && hint->is_string() ? hint->as_string() : "";
}

// JSON that lacks a member or has it as another type is no bundle.
template <typename Read>
auto read_bundle(Read&& read) {
  try {
    return read();
  } catch (const CustodyError&) {
    throw;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUnimplemented) throw;
    fail_custody(Breach::kMalformedStatement, "{} cannot be read: {}", kBundle, error.what());
  }
}

}  // namespace

std::string sign_manifest(const ModelManifest& manifest, const EcSigningKey& key) {
  DsseEnvelope envelope{std::string(kInTotoPayload), statement_json(manifest).dump(2), {}};
  envelope.signatures.push_back(
      {"", key.sign(dsse_signed_bytes(envelope.payload_type, envelope.payload))});
  Json material = Json()
                      .set("publicKey", Json().set("hint", key.public_key().hint()))
                      .set("tlogEntries", Json::array());
  return Json()
             .set("mediaType", kBundleType)
             .set("verificationMaterial", std::move(material))
             .set("dsseEnvelope", envelope_json(envelope))
             .dump() +
         "\n";
}

bool is_model_bundle(std::string_view text) {
  const std::size_t at = text.find_first_not_of(" \t\r\n");
  if (at == std::string_view::npos || text[at] != '{') return false;
  return text.find("\"dsseEnvelope\"") != std::string_view::npos;
}

std::string bundle_hint(std::string_view bundle) {
  return read_bundle([&] { return hint_of(parsed_bundle(bundle)); });
}

ModelManifest check_bundle(std::string_view text, const EcPublicKey& key) {
  return read_bundle([&] {
    const Json bundle = parsed_bundle(text);
    const std::string hint = hint_of(bundle);
    if (!hint.empty() && hint != key.hint()) {
      fail_custody(Breach::kSubstitutedKey, "{} is of the key {}, and the one given is {}", kBundle,
                   hint, key.hint());
    }
    const DsseEnvelope envelope = envelope_of(bundle.at("dsseEnvelope"), kBundle);
    const Bytes message = dsse_signed_bytes(envelope.payload_type, envelope.payload);
    const bool good = std::ranges::any_of(envelope.signatures, [&](const DsseSignature& signature) {
      return key.verify(message, signature.signature);
    });
    if (!good) {
      fail_custody(Breach::kAlteredStatement,
                   "{} does not hold: what is signed, or the signature, was "
                   "changed, or it is of another key than {}",
                   kBundle, key.hint());
    }
    return manifest_from(statement_of(envelope, kBundle));
  });
}

}  // namespace harmonics::inline in_custody
