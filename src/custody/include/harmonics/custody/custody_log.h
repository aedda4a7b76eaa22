// CustodyLog: what one stage of a secure run keeps. Signs what leaves, checks what comes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/custody/chain.h>
#include <harmonics/custody/records.h>
#include <harmonics/custody/stage_trail.h>

namespace harmonics::inline in_custody {

/// The most records of one step, which are kept until its head is signed.
inline constexpr std::size_t kMaxStepRecords = std::size_t{1} << 20;

/// Checks come before use: a tensor that `check_incoming` has not let through must not be read. All
/// failures are CustodyErrors that name the link; after one the log is of no further use and the
/// run must stop. One thread per log; logs may share a ChainWriter.
class CustodyLog {
 public:
  /// `key` must be the one that the opening names for `stage`, else it is an Error. Records go to
  /// `writer` at each end of a step; without one they are dropped then, and only heads remain.
  CustodyLog(Opening opening, std::string stage, SigningKey key,
             std::shared_ptr<ChainWriter> writer = nullptr);
  CustodyLog(const CustodyLog&) = delete;
  CustodyLog& operator=(const CustodyLog&) = delete;

  /// The root over the stage's weights, which counts from `step` on. Must be called before the
  /// first tensor leaves.
  void weights(std::uint64_t step, const Digest& root);
  /// The same for weights that are committed to: their root is the digest of the commitments, which
  /// the chain keeps for those who check proofs.
  void committed_weights(std::uint64_t step, ByteSpan commitments);
  /// What the layers of the stage gave in a micro-batch. A name that is empty or longer than
  /// kMaxCustodyName is an Error.
  void layers(const LayerMark& mark);
  /// What a proof of the tensor of this passage must be for.
  [[nodiscard]] Digest context_of(const Passage& passage) const;
  /// Data of a producer that enters a micro-batch of this step.
  void data(const std::string& producer, std::uint32_t micro_batch, const TensorView& tensor);
  /// Links and signs a tensor that leaves. Gives the bytes that must travel with it. `proof` is a
  /// zero-knowledge proof of how the tensor was made; empty: none. `along` is what else the message
  /// holds: it is signed for the way, the chain does not keep it.
  [[nodiscard]] Bytes sign_outgoing(const Passage& passage, const TensorView& tensor,
                                    ByteSpan proof = {}, ByteSpan along = {});
  /// Checks a tensor that came, with the bytes that travelled along, against what was due.
  /// `proof` must be the one that its link names, `along` what the sender signed. Gives the link.
  Link check_incoming(const Passage& due, const TensorView& tensor, ByteSpan attachment,
                      ByteSpan proof = {}, ByteSpan along = {});
  /// Signs the head of the step and hands the records of the step to the writer.
  void end_step();
  /// Signs the closing head. Nothing may follow.
  void close();

  /// One line: run, stage, number and digest of the last head, its signature.
  [[nodiscard]] std::string proof() const;
  [[nodiscard]] const Opening& opening() const { return opening_; }
  [[nodiscard]] const StageTrail& trail() const { return trail_; }
  [[nodiscard]] ChainPosition position() const {
    return {trail_.heads(), trail_.last_head(), trail_.weights()};
  }

  /// All that a checkpoint needs, between steps. `restore` takes it back into a log of the same
  /// opening and stage.
  [[nodiscard]] Bytes save() const;
  void restore(ByteSpan bytes);

 private:
  void keep(RecordKind kind, Bytes body);
  void sign_head(bool closing);
  void check_head(const Passage& due, ByteSpan head, const Signature& signature,
                  const std::string& sender);
  void check_flows(const Passage& due, const Head& head, const std::string& sender) const;
  void check_link(const Passage& due, const Link& link, const TensorView& tensor,
                  ByteSpan proof) const;

  const Opening opening_;
  const Digest run_;
  const SigningKey key_;
  const std::shared_ptr<ChainWriter> writer_;
  std::uint16_t stage_ = 0;
  StageTrail trail_;
  std::vector<ChainRecord> step_;
  std::map<std::uint32_t, std::set<LinkInput>> data_;
  std::map<std::string, SeenHead> seen_;
  Bytes head_;  // the last one with its signature; empty before the first
};

/// The weights that the log of `stage` announced last, out of what its `save` gave. The root is
/// zero for a stage that announced none. Bytes that are not of this run and stage are a
/// CustodyError.
[[nodiscard]] WeightMark saved_weights(const Opening& opening, const std::string& stage,
                                       ByteSpan saved);

/// The opening that a proof line of CustodyLog::proof belongs to, and so on, as text.
struct ProofLine {
  std::string run;
  std::string stage;
  std::uint64_t number = 0;
  std::string head;
  std::string signature;
};
/// A text that is no proof line is an Error (kInvalidArgument).
[[nodiscard]] ProofLine parse_proof_line(std::string_view text);

}  // namespace harmonics::inline in_custody
