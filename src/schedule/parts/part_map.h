// PartMap: which parts a run has and how their boundaries join them (private to schedule).
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "remote/wire.h"

namespace harmonics::inline in_schedule {

/// What one part knows of the run. Pure: it is told records and answers questions. A value.
class PartMap {
 public:
  /// A record that is known already changes nothing. Two parts that both send, or both take, one
  /// boundary, ends of a boundary that pack differently, more than kMaxRemoteParts parts, or
  /// settings that do not agree with those of the first record are an Error that names both parts.
  void add(const PartRecord& record);

  [[nodiscard]] const std::vector<PartRecord>& parts() const { return parts_; }
  /// True when every boundary has both ends here: then nothing that is connected is missing.
  [[nodiscard]] bool closed() const;
  /// True when some part learns.
  [[nodiscard]] bool learns() const;
  /// For a closed map: an Error when the ends of a boundary disagree about gradients.
  void check_gradients() const;

  /// These need a closed map. The most boundaries between two homes, by the shortest way; homes
  /// that nothing connects are not counted.
  [[nodiscard]] std::size_t diameter() const;
  /// Boundaries that enter parts of this home from others which nothing of it flows into: what
  /// comes over them does not wait for this home.
  [[nodiscard]] std::set<std::string, std::less<>> fed_from_outside(const std::string& home) const;
  /// True when a gradient comes back over every boundary between homes.
  [[nodiscard]] bool all_boundaries_learn() const;
  /// The homes from the first part to the last, each as its parts' key.
  [[nodiscard]] std::vector<std::string> homes_in_order() const;
  /// Parts on the longest way from the one that owns these boundaries to a last one, both included.
  /// A way that comes back to where it began is an Error.
  [[nodiscard]] std::size_t depth_of(const PartRecord& record) const;
  /// The same with every copy of a part counted: micro-batches that may be under way behind it.
  [[nodiscard]] std::size_t passes_ahead(const PartRecord& record) const;
  /// How many parts further on a boundary leads; 1: to the next one. Where parts have copies, as
  /// many times as the copies on the way are more than those that take it.
  [[nodiscard]] std::size_t span_of(const std::string& boundary) const;

 private:
  void check_settings(const PartRecord& record) const;
  struct Claim {
    std::size_t part;  // index in parts_
    std::uint32_t gradients;
    BoundaryBits bits;
  };
  using Claims = std::map<std::string, Claim>;  // by boundary
  void claim(Claims& claims, const BoundaryEnd& end, std::string_view does);
  void check_bits_agree(const std::string& boundary) const;
  [[nodiscard]] std::string home_of(std::size_t part) const;

  std::vector<PartRecord> parts_;
  Claims senders_;
  Claims receivers_;
};

}  // namespace harmonics::inline in_schedule
