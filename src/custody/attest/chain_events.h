// What a picture of a chain is made of (private to custody).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <harmonics/custody/chain.h>
#include <harmonics/custody/verify.h>

namespace harmonics::inline in_custody {

/// One tensor on its way, at the places of a clock that counts what must come after what.
struct DrawnHandOver {
  Passage passage;
  std::size_t from = 0;  // rows
  std::size_t to = 0;
  std::uint64_t sent_at = 0;
  std::uint64_t received_at = 0;
};

/// One row: a stage.
struct DrawnStage {
  std::string stage;
  std::string signer;
  PublicKey key{};
  bool known = false;
  /// By step: tensors sent and received.
  std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> steps;
  std::vector<WeightMark> marks;
};

struct ChainEvents {
  /// In the order of the flow, those who send before those who receive.
  std::vector<DrawnStage> stages;
  std::uint64_t steps = 0;
};

[[nodiscard]] ChainEvents chain_events(std::span<const Chain> chains, const VerifyReport& report);
/// The first `limit` hand-overs of a step, by the clock.
[[nodiscard]] std::vector<DrawnHandOver> hand_overs(std::span<const Chain> chains,
                                                    const ChainEvents& events, std::uint64_t step,
                                                    std::size_t limit);

}  // namespace harmonics::inline in_custody
