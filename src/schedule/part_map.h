// PartMap: which parts a run has and how their boundaries join them (private to schedule).
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "wire.h"

namespace harmonics {

/// What one part knows of the run. Pure: it is told records and answers questions. A value.
class PartMap {
 public:
  /// A record that is known already changes nothing. Two parts that both send, or both take, one
  /// boundary, more than kMaxRemoteParts parts, or settings that do not agree with those of the
  /// first record are an Error that names both parts.
  void add(const PartRecord& record);

  [[nodiscard]] const std::vector<PartRecord>& parts() const { return parts_; }
  /// True when every boundary has both ends here: then nothing that is connected is missing.
  [[nodiscard]] bool closed() const;
  /// True when some part learns.
  [[nodiscard]] bool learns() const;
  /// For a closed map: an Error when the ends of a boundary disagree about gradients.
  void check_gradients() const;

  /// These need a closed map. The most boundaries between two parts, by the shortest way;
  /// parts that nothing connects are not counted.
  [[nodiscard]] std::size_t diameter() const;
  /// Parts on the longest way from the one that owns these boundaries to a last one, both included.
  /// A way that comes back to where it began is an Error.
  [[nodiscard]] std::size_t depth_of(const PartRecord& record) const;

 private:
  void check_settings(const PartRecord& record) const;
  struct Claim {
    std::size_t part;  // index in parts_
    std::uint32_t gradients;
  };
  using Claims = std::map<std::string, Claim>;  // by boundary
  void claim(Claims& claims, const BoundaryEnd& end, std::string_view does);

  std::vector<PartRecord> parts_;
  Claims senders_;
  Claims receivers_;
};

}  // namespace harmonics
