// Verifying a chain: a pure function of the chain, the keys one knows, and the tensors one has.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/custody/chain.h>
#include <harmonics/custody/keys.h>

namespace harmonics::inline in_custody {

/// The data of one producer: how many tensors of it are named by links, each counted once, and the
/// Merkle root over their sorted roots.
struct DataReport {
  std::string producer;
  std::uint64_t tensors = 0;
  Digest root{};
};

/// What one stage did, all of it signed by `signer`.
struct StageReport {
  std::string stage;
  std::string signer;
  PublicKey key{};
  /// The roster has this key, under this name.
  bool known = false;
  std::uint64_t heads = 0;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t weight_marks = 0;
  /// Digest of the stage's graph.
  Digest graph{};
  /// The weights that it announced, in order. None: it has none.
  std::vector<WeightMark> weights;
  /// What its producers gave, by producer.
  std::vector<DataReport> data;
};

/// What went over one boundary.
struct BoundaryReport {
  BoundaryEntry boundary;
  std::uint64_t forward = 0;
  std::uint64_t backward = 0;
  /// Of the first activation.
  std::uint8_t dtype = 0;
  std::vector<std::int64_t> shape;
};

struct VerifyReport {
  Digest run{};
  std::vector<StageReport> stages;
  std::vector<BoundaryReport> boundaries;
  std::uint64_t links = 0;
  std::uint64_t tensors_checked = 0;
  std::uint64_t proofs_checked = 0;
  std::uint64_t data_checked = 0;
  /// Every signer is in the roster.
  bool signers_known = false;
};

struct VerifyOptions {
  /// Gives the bytes of the tensor of a link, or nothing when one does not have them. Not set: no
  /// tensors are checked.
  std::function<std::optional<Bytes>(const Link&)> tensor;
  /// Whether data of that producer with that root is what one has; called once for each. Not set:
  /// no data is checked. Data that one does not have is a CustodyError (kWrongInput).
  std::function<bool(const std::string& producer, const Digest& root)> data;
  /// Checks the proof that a link names, with the commitments to the stage's weights; throws a
  /// CustodyError when it does not hold. Not set: a link that names a proof is a CustodyError
  /// (kWrongProof). check_link_proof of zk.h is what to put here.
  std::function<void(const Link&, ByteSpan proof, ByteSpan weights)> proof;
};

/// Checks everything: every record follows the one before it, every step of every stage is signed,
/// every link was received by its neighbour as it was sent, no stage has two histories, nothing is
/// missing at the end. Several chains are the files of the stages of one run. Throws a CustodyError
/// at the first breach; keys that the roster does not have are no breach but `signers_known` false.
[[nodiscard]] VerifyReport verify_chain(std::span<const Chain> chains, const Roster& roster,
                                        const VerifyOptions& options = {});

/// Checks that a line of CustodyLog::proof (`proof()` of runtimes and schedulers) is a head of
/// these chains, which must have been verified. A CustodyError says how it is not.
void check_proof_line(std::span<const Chain> chains, std::string_view line);

/// One line: what is proven and by whom.
[[nodiscard]] std::string summary_text(const VerifyReport& report);
/// Who handed what to whom, a line per stage and boundary.
[[nodiscard]] std::string explain_text(const VerifyReport& report);

}  // namespace harmonics::inline in_custody
