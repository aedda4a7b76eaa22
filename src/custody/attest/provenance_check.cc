// From statements back to a chain, and whether they say what it proves.
#include <algorithm>
#include <set>

#include <harmonics/base/error.h>
#include <harmonics/custody/base64.h>
#include <harmonics/custody/breach.h>
#include <harmonics/custody/hex.h>

#include "provenance_form.h"

namespace harmonics::inline in_custody {
namespace {

std::string line_text(std::size_t line) { return format("the statement on line {}", line + 1); }

// The member at a path like "predicate.runDetails", or null.
const Json* member(const Json& json, std::initializer_list<std::string_view> path) {
  const Json* at = &json;
  for (const std::string_view key : path) {
    at = at->is_object() ? at->find(key) : nullptr;
    if (at == nullptr) return nullptr;
  }
  return at;
}

std::string text_at(const Json& json, std::initializer_list<std::string_view> path) {
  const Json* found = member(json, path);
  return found != nullptr && found->is_string() ? found->as_string() : "";
}

// Who signed an envelope, as the keys name him; empty: nobody whom they have.
std::string signer_of(const DsseEnvelope& envelope, const StatementKeys& keys) {
  const Bytes message = dsse_signed_bytes(envelope.payload_type, envelope.payload);
  for (const DsseSignature& one : envelope.signatures) {
    Signature signature;
    if (one.signature.size() == signature.size()) {
      std::ranges::copy(one.signature, signature.begin());
      for (const auto& [name, key] : keys.roster.keys()) {
        if (verify_signature(key, message, signature)) return name;
      }
    }
    for (const auto& [name, key] : keys.ec_keys) {
      if (key.verify(message, one.signature)) return name;
    }
  }
  return "";
}

// Signed by a key that the roster has, and what it signed was changed; or by one that it lacks.
[[noreturn]] void refuse_signature(const DsseEnvelope& envelope, const StatementKeys& keys,
                                   const std::string& where) {
  for (const DsseSignature& one : envelope.signatures) {
    PublicKey key;
    if (!from_hex(one.key_id, key)) continue;
    if (const auto name = keys.roster.name_of(key)) {
      fail_custody(Breach::kAlteredStatement,
                   "{} was changed after '{}' signed it, or its signature was", where, *name);
    }
  }
  fail_custody(Breach::kSubstitutedKey,
               "{} is signed by nobody whom the keys at hand know (key {}): put the .pub or "
               ".pub.pem file of the signer into a folder and pass it with --keys",
               where, envelope.signatures.front().key_id);
}

SignedStatement read_line(std::string_view line, const std::string& where,
                          const StatementKeys& keys) {
  Json json;
  try {
    json = Json::parse(line, where);
  } catch (const Error& error) {
    fail_custody(Breach::kMalformedStatement, "{} is no JSON: {}", where, error.what());
  }
  const DsseEnvelope envelope = envelope_of(json, where);
  SignedStatement signed_one;
  signed_one.signer = signer_of(envelope, keys);
  if (signed_one.signer.empty()) refuse_signature(envelope, keys, where);
  signed_one.statement = statement_of(envelope, where);
  const Json& statement = signed_one.statement;
  const bool ours =
      text_at(statement, {"predicateType"}) == kProvenanceType &&
      text_at(statement, {"predicate", "buildDefinition", "buildType"}) == kSecureRunType;
  if (!ours) return signed_one;
  signed_one.stage =
      text_at(statement, {"predicate", "buildDefinition", "externalParameters", "stage"});
  if (signed_one.stage.empty()) {
    fail_custody(Breach::kMalformedStatement, "{} does not say of which stage it is", where);
  }
  return signed_one;
}

// The chain of a statement as bytes.
Bytes chain_bytes(const SignedStatement& one) {
  const Json* products = member(one.statement, {"predicate", "runDetails", "byproducts"});
  const bool there = products != nullptr && products->is_array() && !products->as_array().empty();
  std::optional<Bytes> bytes =
      there ? from_base64(text_at(products->as_array().front(), {"content"})) : std::nullopt;
  if (!bytes || bytes->empty()) {
    fail_custody(Breach::kMalformedStatement, "the statement of stage '{}' holds no chain",
                 one.stage);
  }
  return *std::move(bytes);
}

// Where two values differ, as a path; empty where they do not.
std::string difference(const Json& said, const Json& proven, const std::string& path) {
  if (said.is_object() && proven.is_object()) {
    for (const auto& [key, value] : proven.as_object()) {
      const Json* found = said.find(key);
      if (found == nullptr) return path + "." + key;
      if (std::string at = difference(*found, value, path + "." + key); !at.empty()) return at;
    }
    for (const auto& [key, value] : said.as_object()) {
      if (proven.find(key) == nullptr) return path + "." + key;
    }
    return "";
  }
  if (said.is_array() && proven.is_array()) {
    const Json::Array& left = said.as_array();
    const Json::Array& right = proven.as_array();
    for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      std::string at = difference(left[i], right[i], format("{}[{}]", path, i));
      if (!at.empty()) return at;
    }
    return left.size() == right.size() ? "" : path;
  }
  return said.dump() == proven.dump() ? "" : path;
}

// What only the exporter says, taken over from his statement.
ExportClaims claims_of(const Json& statement) {
  ExportClaims claims;
  claims.version =
      text_at(statement, {"predicate", "runDetails", "builder", "version", "harmonics"});
  claims.host =
      text_at(statement, {"predicate", "buildDefinition", "internalParameters", "exported_on"});
  for (const Json& subject : statement.at("subject").as_array()) {
    const std::string name = text_at(subject, {"name"});
    const bool of_chain = name.starts_with("weights of ") || name.starts_with("graph of ");
    Digest digest;
    if (of_chain || !from_hex(text_at(subject, {"digest", "sha256"}), digest)) continue;
    claims.files.push_back({name, digest});
  }
  return claims;
}

}  // namespace

bool is_statements(std::string_view text) {
  const std::size_t at = text.find_first_not_of(" \t\r\n");
  return at != std::string_view::npos && text[at] == '{' &&
         text.find("\"payloadType\"") != std::string_view::npos && !is_model_bundle(text);
}

std::vector<SignedStatement> read_statements(std::string_view text, const StatementKeys& keys) {
  std::vector<SignedStatement> all;
  for (std::size_t at = 0, number = 0; at < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (all.size() == kMaxStatements) {
      fail_custody(Breach::kMalformedStatement, "there are more than {} statements",
                   kMaxStatements);
    }
    all.push_back(read_line(line, line_text(number), keys));
  }
  if (all.empty()) fail_custody(Breach::kMalformedStatement, "there are no statements");
  return all;
}

std::vector<Chain> chains_in(std::span<const SignedStatement> statements) {
  std::vector<Chain> chains;
  std::set<std::string> stages;
  for (const SignedStatement& one : statements) {
    if (one.stage.empty()) continue;
    Chain chain = decode_chain(chain_bytes(one));
    if (!chains.empty() && chain.opening != chains.front().opening) {
      fail_custody(Breach::kOtherRun, "the statement of stage '{}' is of another run", one.stage);
    }
    if (!stages.insert(one.stage).second) {
      fail_custody(Breach::kReplay, "stage '{}' has two statements", one.stage);
    }
    chains.push_back(std::move(chain));
  }
  return chains;
}

void check_statements(std::span<const SignedStatement> statements, std::span<const Chain> chains,
                      const VerifyReport& report) {
  const Opening& opening = chains.front().opening;
  for (const StageReport& stage : report.stages) {
    if (owner_of(opening, stage.stage) != stage.stage) continue;
    const auto found = std::ranges::find(statements, stage.stage, &SignedStatement::stage);
    if (found == statements.end()) {
      fail_custody(Breach::kDrop, "there is no statement of stage '{}'", stage.stage);
    }
    const Json proven =
        provenance_json(report, stage, claims_of(found->statement), chain_bytes(*found));
    const std::string at = difference(found->statement, proven, "");
    if (at.empty()) continue;
    fail_custody(Breach::kAlteredStatement,
                 "the statement of stage '{}', signed by '{}', says at '{}' something else than "
                 "its chain proves",
                 stage.stage, found->signer, at.substr(1));
  }
  for (const SignedStatement& one : statements) {
    if (one.stage.empty() || opening.stage(one.stage) != nullptr) continue;
    fail_custody(Breach::kAlteredStatement, "'{}', of which there is a statement, is no stage",
                 one.stage);
  }
}

bool states_file(std::span<const SignedStatement> statements, const Digest& digest) {
  const std::string text = digest_text(digest);
  return std::ranges::any_of(statements, [&](const SignedStatement& one) {
    const Json::Array& subjects = one.statement.at("subject").as_array();
    return std::ranges::any_of(subjects, [&](const Json& subject) {
      return text_at(subject, {"digest", "sha256"}) == text;
    });
  });
}

}  // namespace harmonics::inline in_custody
