// What secure replicas call themselves, and how they come to one opening (private to schedule).
//
// Each replica signs as two stages: the graph that it computes, and the sums of gradients that it
// exchanges. So the sums can be signed on a thread of their own while the graph goes on.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <harmonics/schedule/reduction.h>
#include <harmonics/schedule/secure_run.h>

namespace harmonics::inline in_schedule {

/// "digits#1": the graph of that replica.
[[nodiscard]] std::string replica_stage(const std::string& graph, std::size_t replica);
/// "digits#1/sums": who signs what that replica gives to sums.
[[nodiscard]] SecurePart sums_of(const SecurePart& replica);
/// What joins two ranks of a reduction: "sums/0-1".
[[nodiscard]] std::string sums_boundary(std::size_t a, std::size_t b);

/// What a replica says of itself before anything is signed.
[[nodiscard]] std::string replica_claim(const SecureRun& own);
/// The opening of the run of these replicas, by rank: the same in all of them. A signer whom the
/// roster of `options` lacks or knows with another key, and a claim of another rank, are an Error.
[[nodiscard]] Opening opening_of_replicas(const std::vector<std::string>& claims, Reduction order,
                                          const SecureOptions& options);

/// All ranks' texts, by rank. Not signed: who is meant follows from the roster. A text that is
/// longer than kMaxReplicaText is an Error.
[[nodiscard]] std::vector<std::string> gathered_texts(Reducer& reducer, const std::string& own,
                                                      std::uint64_t step);
inline constexpr std::size_t kMaxReplicaText = 4096;

}  // namespace harmonics::inline in_schedule
