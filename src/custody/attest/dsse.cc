#include <harmonics/custody/dsse.h>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/custody/base64.h>
#include <harmonics/custody/breach.h>

namespace harmonics::inline in_custody {
namespace {

const std::string& text_at(const Json& json, std::string_view key, std::string_view where) {
  const Json* found = json.is_object() ? json.find(key) : nullptr;
  if (found == nullptr || !found->is_string()) {
    fail_custody(Breach::kMalformedStatement, "{} has no text '{}'", where, key);
  }
  return found->as_string();
}

Bytes bytes_at(const Json& json, std::string_view key, std::string_view where) {
  std::optional<Bytes> bytes = from_base64(text_at(json, key, where));
  if (!bytes) fail_custody(Breach::kMalformedStatement, "'{}' of {} is no base64", key, where);
  return *std::move(bytes);
}

}  // namespace

Bytes dsse_signed_bytes(std::string_view payload_type, std::string_view payload) {
  const std::string text =
      format("DSSEv1 {} {} {} {}", payload_type.size(), payload_type, payload.size(), payload);
  return {bytes_of(text).begin(), bytes_of(text).end()};
}

Json envelope_json(const DsseEnvelope& envelope) {
  Json signatures = Json::array();
  for (const DsseSignature& one : envelope.signatures) {
    signatures.push(Json().set("sig", to_base64(one.signature)).set("keyid", one.key_id));
  }
  return Json()
      .set("payload", to_base64(bytes_of(envelope.payload)))
      .set("payloadType", envelope.payload_type)
      .set("signatures", std::move(signatures));
}

DsseEnvelope envelope_of(const Json& json, std::string_view where) {
  DsseEnvelope envelope;
  envelope.payload_type = text_at(json, "payloadType", where);
  envelope.payload = text_of(bytes_at(json, "payload", where));
  const Json* signatures = json.find("signatures");
  if (signatures == nullptr || !signatures->is_array() || signatures->as_array().empty()) {
    fail_custody(Breach::kMalformedStatement, "{} has no signatures", where);
  }
  if (signatures->as_array().size() > kMaxDsseSignatures) {
    fail_custody(Breach::kMalformedStatement, "{} has more than {} signatures", where,
                 kMaxDsseSignatures);
  }
  for (const Json& one : signatures->as_array()) {
    const Json* key = one.is_object() ? one.find("keyid") : nullptr;
    envelope.signatures.push_back(
        {key != nullptr && key->is_string() ? key->as_string() : "", bytes_at(one, "sig", where)});
  }
  return envelope;
}

Json statement_of(const DsseEnvelope& envelope, std::string_view where) {
  if (envelope.payload_type != kInTotoPayload) {
    fail_custody(Breach::kMalformedStatement, "{} holds '{}' and not '{}'", where,
                 envelope.payload_type, kInTotoPayload);
  }
  Json statement;
  try {
    statement = Json::parse(envelope.payload, where);
  } catch (const Error& error) {
    fail_custody(Breach::kMalformedStatement, "the payload is no JSON: {}", error.what());
  }
  if (text_at(statement, "_type", where) != kInTotoStatement) {
    fail_custody(Breach::kMalformedStatement, "the payload of {} is '{}' and not '{}'", where,
                 statement.at("_type").as_string(), kInTotoStatement);
  }
  static_cast<void>(text_at(statement, "predicateType", where));
  const Json* subject = statement.find("subject");
  if (subject == nullptr || !subject->is_array() || subject->as_array().empty()) {
    fail_custody(Breach::kMalformedStatement, "the statement of {} has no subject", where);
  }
  return statement;
}

}  // namespace harmonics::inline in_custody
