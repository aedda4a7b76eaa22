// Whom an end knows as its other end, and the connections that one offers.
//
// No thread, no clock, and no connection is used here. Not thread safe.
#pragma once

#include <cstdint>
#include <optional>

#include "greet.h"

namespace harmonics::inline in_transport {

class Acquaintance {
 public:
  Acquaintance() = default;

  /// This life of this end.
  [[nodiscard]] const InstanceId& own() const { return own_; }
  /// Of the last connection that was taken over.
  [[nodiscard]] const std::optional<Agreement>& agreement() const { return agreement_; }
  /// The other end, once someone has come.
  [[nodiscard]] std::optional<InstanceId> peer() const;

  /// What this end says of itself and of whom it knows; the rest is for the caller to fill in.
  [[nodiscard]] Greeting introduce();
  /// Throws Refused when `theirs` is this end itself or took another life of it for its partner.
  void judge(const Greeting& theirs) const;
  /// Whether `theirs` is who is known, or the first to come.
  [[nodiscard]] bool fits(const Greeting& theirs) const;

  /// Keeps a greeted connection until it is taken over, in place of an earlier one; false when it
  /// is not of the peer or older than one that was kept: it is shut then, as the earlier one is.
  bool offer(const GreetedConnection& greeted);
  [[nodiscard]] bool has_offer() const { return offer_.has_value(); }
  /// The connection that was offered. Only when there is one.
  [[nodiscard]] GreetedConnection take_offer();
  /// It is in use now.
  void agree(const Agreement& agreement) { agreement_ = agreement; }
  /// Shuts what was offered.
  void refuse_offer();

 private:
  const InstanceId own_ = random_instance();
  std::optional<Agreement> agreement_;
  std::optional<GreetedConnection> offer_;
  std::uint64_t greetings_ = 0;       // of ours so far
  std::uint64_t newest_attempt_ = 0;  // of the peer's, among the connections offered
};

}  // namespace harmonics::inline in_transport
