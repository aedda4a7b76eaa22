// StageTrail: where a stage's log stands, and whether the next record may follow.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include <harmonics/custody/merkle.h>
#include <harmonics/custody/records.h>

namespace harmonics::inline in_custody {

/// The rules of one stage's log, the same for who writes it and for who verifies it: pure, no I/O.
/// Every `take` checks a record against all that came before and throws a CustodyError that says
/// what does not fit; the trail is then of no further use. A value; one thread.
class StageTrail {
 public:
  /// `stage` must be one of the opening's; the opening must outlive the trail.
  StageTrail(const Opening& opening, const Digest& run, std::string stage);

  /// Gives the digest of the link.
  Digest take(const Link& link);
  void take(const Receipt& receipt);
  void take(const WeightMark& mark);
  void take(const LayerMark& mark);
  /// Gives the digest of the head, whose signature must be of the opening's key.
  Digest take(const Head& head, const Signature& signature);
  /// Takes the head that `next_head` gave and the stage has just signed itself: that it fits is how
  /// it was made, and that the signature is good need not be asked. `digest` is its digest.
  void take_own(const Head& head, const Digest& digest);

  /// What the next head must say; the caller adds `seen`.
  [[nodiscard]] Head next_head(bool closing) const;
  /// What went over a boundary so far; `count` 0 when nothing did.
  [[nodiscard]] Flow flow(const std::string& boundary, Direction direction, bool sent) const;
  /// What was received for a micro-batch since the last head.
  [[nodiscard]] std::set<LinkInput> received(std::uint32_t micro_batch) const;

  [[nodiscard]] const std::string& stage() const { return stage_; }
  [[nodiscard]] const WeightMark& weights() const { return weights_; }
  [[nodiscard]] std::uint64_t heads() const { return heads_; }
  [[nodiscard]] const Digest& last_head() const { return last_head_; }
  [[nodiscard]] std::uint64_t entries() const { return log_.size(); }
  /// Entries that no head covers yet.
  [[nodiscard]] std::uint64_t unsigned_entries() const { return log_.size() - signed_entries_; }
  [[nodiscard]] bool closed() const { return closed_; }
  [[nodiscard]] const std::map<std::string, SeenHead>& seen() const { return seen_; }

  /// The trail as bytes, right after a head; with unsigned entries it is an Error.
  [[nodiscard]] Bytes save() const;
  void restore(ByteSpan bytes);

 private:
  struct FlowKey {
    std::string boundary;
    Direction direction;
    bool sent;
    auto operator<=>(const FlowKey&) const = default;
  };
  struct FlowState {
    std::uint64_t count = 0;
    Digest last{};
  };
  void require_open() const;
  void require_end(const Passage& passage, bool sender) const;
  void advance(const Passage& passage, bool sent, std::uint64_t sequence, const Digest& link);
  void check_seen(const Head& head) const;
  void adopt(const Head& head, const Digest& digest);

  const Opening* opening_;
  Digest run_;
  std::string stage_;
  MerkleTree log_;
  std::uint64_t signed_entries_ = 0;
  std::uint64_t heads_ = 0;
  Digest last_head_;
  bool closed_ = false;
  WeightMark weights_;
  std::map<FlowKey, FlowState> flows_;
  std::map<std::string, SeenHead> seen_;
  std::map<std::uint32_t, std::set<LinkInput>> received_;
};

/// The stage that sends, or receives, over a boundary in a direction.
[[nodiscard]] const std::string& sender_of(const BoundaryEntry& boundary, Direction direction);
[[nodiscard]] const std::string& receiver_of(const BoundaryEntry& boundary, Direction direction);

}  // namespace harmonics::inline in_custody
