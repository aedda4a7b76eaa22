#include "acquaintance.h"

#include <utility>

#include <harmonics/base/format.h>

namespace harmonics::inline in_transport {

std::optional<InstanceId> Acquaintance::peer() const {
  if (agreement_) return agreement_->theirs.instance;
  if (offer_) return offer_->agreement.theirs.instance;
  return std::nullopt;
}

Greeting Acquaintance::introduce() {
  Greeting out;
  out.instance = own_;
  if (agreement_) out.peer = agreement_->theirs.instance;
  out.attempt = ++greetings_;
  out.nonce = random_nonce();
  return out;
}

void Acquaintance::judge(const Greeting& theirs) const {
  if (theirs.instance == own_) {
    throw Refused(ErrorCode::kFailedPrecondition, "this end has connected to itself", false);
  }
  if (theirs.peer.known() && theirs.peer != own_) {
    throw Refused(ErrorCode::kAborted,
                  format("boundary '{}': this end was restarted and lost its state; restart the "
                         "run from its last checkpoint",
                         theirs.boundary),
                  false);
  }
}

bool Acquaintance::fits(const Greeting& theirs) const {
  const std::optional<InstanceId> known = peer();
  return !known || *known == theirs.instance;
}

bool Acquaintance::offer(const GreetedConnection& greeted) {
  const Greeting& theirs = greeted.agreement.theirs;
  // Two came at once and the other one was first, or the peer has given this connection up for a
  // newer one already.
  if (!fits(theirs) || theirs.attempt <= newest_attempt_) {
    greeted.connection->shut();
    return false;
  }
  newest_attempt_ = theirs.attempt;
  refuse_offer();
  offer_ = greeted;
  return true;
}

GreetedConnection Acquaintance::take_offer() {
  return std::move(*std::exchange(offer_, std::nullopt));
}

void Acquaintance::refuse_offer() {
  if (offer_) offer_->connection->shut();
  offer_.reset();
}

}  // namespace harmonics::inline in_transport
