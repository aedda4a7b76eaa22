// A chain as in-toto statements in DSSE envelopes: SLSA provenance that other tools parse and
// verify, with the signed records inside, so that it can be taken back
// (docs/formats/attestation.md).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/custody/chain.h>
#include <harmonics/custody/dsse.h>
#include <harmonics/custody/keys.h>
#include <harmonics/custody/model_signature.h>
#include <harmonics/custody/verify.h>

namespace harmonics::inline in_custody {

inline constexpr std::string_view kProvenanceType = "https://slsa.dev/provenance/v1";
inline constexpr std::string_view kSecureRunType = "urn:harmonics:secure-run:1";
/// The largest file of statements that is written or read, and the most lines in it.
inline constexpr std::size_t kMaxStatementsBytes = std::size_t{1} << 30;
inline constexpr std::size_t kMaxStatements = 1024;

/// What the one who exports says beside what the chain proves.
struct ExportClaims {
  /// Of the program that exports.
  std::string version;
  /// The machine on which it runs.
  std::string host;
  /// Files that hold the final weights, by name and SHA-256: the caller has compared them.
  std::vector<ModelFile> files;
};

/// One statement per stage that computes, each an envelope on a line of its own, signed with `key`.
/// `report` is what verify_chain gave for `chains`.
[[nodiscard]] std::string export_statements(std::span<const Chain> chains,
                                            const VerifyReport& report, const SigningKey& key,
                                            const ExportClaims& claims);

/// One line of a file of statements, its signature checked.
struct SignedStatement {
  Json statement;
  /// Whose key signed it, as the roster names it.
  std::string signer;
  /// Empty where it is not of a secure run of ours but of somebody else.
  std::string stage;
};

/// Keys by which envelopes may be signed.
struct StatementKeys {
  Roster roster;
  std::vector<std::pair<std::string, EcPublicKey>> ec_keys;
};

[[nodiscard]] bool is_statements(std::string_view text);
/// Reads JSON lines and checks every signature. A CustodyError says which line does not hold:
/// kMalformedStatement, kAlteredStatement, kSubstitutedKey (signed by nobody whom `keys` has).
[[nodiscard]] std::vector<SignedStatement> read_statements(std::string_view text,
                                                           const StatementKeys& keys);
/// The chains inside our statements, one per stage. A stage that has two statements is a
/// CustodyError (kReplay), statements of different runs are another (kOtherRun).
[[nodiscard]] std::vector<Chain> chains_in(std::span<const SignedStatement> statements);
/// Whether all that the statements say of the run is what its chains prove: `report` is what
/// verify_chain gave for them. A CustodyError (kAlteredStatement, kDrop) says where they differ.
void check_statements(std::span<const SignedStatement> statements, std::span<const Chain> chains,
                      const VerifyReport& report);
/// Whether a file with this digest is a subject of one of the statements.
[[nodiscard]] bool states_file(std::span<const SignedStatement> statements, const Digest& digest);

/// One chain of all stages out of the chains of each.
[[nodiscard]] Chain joined_chain(std::span<const Chain> chains);

}  // namespace harmonics::inline in_custody
