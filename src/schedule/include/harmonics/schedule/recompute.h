// Computing steps of a secure run again, from what was signed, to compare them with its chain.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include <harmonics/custody/chain.h>
#include <harmonics/custody/chain_accounts.h>
#include <harmonics/schedule/learner.h>

namespace harmonics::inline in_schedule {

/// Makes what computes: the same graph, cut in the same way, with the same settings and its data
/// bound, secure as the options say. Called once for each stretch.
using MakeAuditedLearner = std::function<std::unique_ptr<Learner>(const SecureOptions&)>;

/// A stretch of steps that lie between two points at which the run's state is known.
struct AuditStretch {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  /// Of the state before `first`; empty: the start of the run.
  std::filesystem::path checkpoint;
};

/// Computes the steps of a stretch and gives the chain that this made, signed by a key of its own.
/// `scratch` is a folder for the key and the chain. What the account under suspicion signed of
/// weights and layers is signed here as well. A checkpoint that is not of step `first` is an Error.
[[nodiscard]] Chain recompute(const AuditStretch& stretch, const ChainAccounts& suspect,
                              const MakeAuditedLearner& make, const std::filesystem::path& scratch);

}  // namespace harmonics::inline in_schedule
