// DSSE envelopes (Dead Simple Signing Envelope 1.0) around in-toto statements: signed JSON as the
// tools of supply chains read it (docs/formats/attestation.md).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/bytes.h>
#include <harmonics/base/json.h>

namespace harmonics::inline in_custody {

inline constexpr std::string_view kInTotoPayload = "application/vnd.in-toto+json";
inline constexpr std::string_view kInTotoStatement = "https://in-toto.io/Statement/v1";
/// The most signatures of one envelope that are read.
inline constexpr std::size_t kMaxDsseSignatures = 64;

struct DsseSignature {
  /// Whose it is, for finding the key; proves nothing.
  std::string key_id;
  Bytes signature;
};

struct DsseEnvelope {
  std::string payload_type;
  std::string payload;
  std::vector<DsseSignature> signatures;
};

/// What is signed: the type and the payload with their sizes (PAE).
[[nodiscard]] Bytes dsse_signed_bytes(std::string_view payload_type, std::string_view payload);

[[nodiscard]] Json envelope_json(const DsseEnvelope& envelope);
/// A value that is no envelope is a CustodyError (kMalformedStatement) that says what is missing;
/// `where` names it.
[[nodiscard]] DsseEnvelope envelope_of(const Json& json, std::string_view where);

/// The statement of an envelope whose signature has been checked: another payload type, or a
/// payload that is no statement of in-toto v1, is a CustodyError (kMalformedStatement).
[[nodiscard]] Json statement_of(const DsseEnvelope& envelope, std::string_view where);

}  // namespace harmonics::inline in_custody
