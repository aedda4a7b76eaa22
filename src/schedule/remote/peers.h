// Peers: one part's transports to the parts in other processes (private to schedule).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/transport/transport.h>

#include "parts/part_map.h"
#include "parts/timed_transport.h"
#include "stage_driver.h"

namespace harmonics::inline in_schedule {

/// Owns this part's ends of its boundaries. One thread.
class Peers {
 public:
  explicit Peers(TransportOptions options) : options_(std::move(options)) {}

  /// Begins to listen or to connect; never waits.
  [[nodiscard]] TransportPtr make_end(const RemoteBinding& binding) const;
  /// The caller has checked the name: that of a channel (part_copies.h), no two alike.
  void bind(const std::string& channel, TransportPtr end);
  /// What carries a boundary over these channels; nothing when they are not bound here.
  [[nodiscard]] std::optional<BoundaryCarrier> carrier(const std::vector<std::string>& channels,
                                                       const CopyTurns& turns) const;
  [[nodiscard]] const std::map<std::string, Transport*, std::less<>>& channels() const {
    return channels_;
  }
  /// Between copies of one part; no notice is spread over these.
  void bind_link(const std::string& name, TransportPtr end);
  [[nodiscard]] const std::map<std::string, TransportPtr, std::less<>>& links() const {
    return links_;
  }

  /// Tells all parts of the run about those here and learns about all others. Facts walk one
  /// boundary per round, so as many rounds as the run is wide are enough; how wide it is, every
  /// part knows once its map is closed.
  [[nodiscard]] PartMap meet(const std::vector<PartRecord>& own, Nanoseconds patience);
  /// The union of all parts' notices. All parts must call it at the same point.
  [[nodiscard]] Notice spread(Notice notice, NoticeTag tag, std::size_t rounds,
                              Nanoseconds patience);

  /// How long sends and receives here have taken in all. Any thread.
  [[nodiscard]] Nanoseconds waited() const { return Nanoseconds(waited_->load()); }

  /// Waits until the others have what was sent, then lets go. What goes wrong is logged.
  void close(Nanoseconds patience) noexcept;
  /// Lets go at once: the others get an Error.
  void abandon();

 private:
  Transport* keep(TransportPtr end);
  /// Sends `notice` to all neighbours and adds what they send.
  void exchange(Notice& notice, const NoticeTag& tag, Nanoseconds patience);

  TransportOptions options_;
  WaitCount waited_ = std::make_shared<std::atomic<std::int64_t>>(0);
  std::vector<TransportPtr> transports_;
  std::map<std::string, Transport*, std::less<>> channels_;
  std::map<std::string, TransportPtr, std::less<>> links_;
};

}  // namespace harmonics::inline in_schedule
