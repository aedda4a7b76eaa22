// Fiat and Shamir's hash in place of a verifier who asks (private to custody).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include <harmonics/base/bytes.h>
#include <harmonics/custody/digest.h>

#include "point.h"
#include "scalar.h"

namespace harmonics::zk {

/// Prover and verifier feed it the same things in the same order and get the same challenges, each
/// of which depends on everything before. A value.
class Transcript {
 public:
  explicit Transcript(std::string_view protocol) { absorb("protocol", bytes_of(protocol)); }

  void absorb(std::string_view label, ByteSpan bytes) {
    ByteWriter head;
    head.raw(state_);
    head.text(label);
    head.number(static_cast<std::uint64_t>(bytes.size()));
    state_ = Sha256().update(head.bytes()).update(bytes).finish();
  }
  void absorb(std::string_view label, std::span<const PointBytes> points) {
    absorb(label, std::as_bytes(points));
  }
  [[nodiscard]] Scalars challenges(std::string_view label, std::size_t count) {
    absorb(label, std::as_bytes(std::span(&count, 1)));
    return expanded(state_, count);
  }

 private:
  Digest state_{};
};

}  // namespace harmonics::zk
