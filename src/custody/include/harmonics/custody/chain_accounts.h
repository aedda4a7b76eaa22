// What each stage signed in each step of learning, and where two accounts of one run part.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <harmonics/custody/chain.h>

namespace harmonics::inline in_custody {

/// One step of one stage.
struct StepAccount {
  /// What it sent, in the order of its log.
  std::vector<Link> links;
  /// By micro-batch: what its layers gave, where the run signed that.
  std::map<std::uint32_t, std::vector<LayerRoot>> layers;
};

struct StageAccount {
  std::string signer;
  std::map<std::uint64_t, StepAccount> steps;
  /// Roots of weights by the number of steps before them.
  std::map<std::uint64_t, Digest> weights;
};

/// By stage.
using ChainAccounts = std::map<std::string, StageAccount>;

/// Reads verified chains. Stages that send nothing are left out, and so are batches that were only
/// computed, for evaluation: they have no gradients and no layers, and where a stage never has
/// either, a count of their own, which is that of no step that was due.
[[nodiscard]] ChainAccounts accounts_of(std::span<const Chain> chains);

/// One past the last step of learning in an account.
[[nodiscard]] std::uint64_t steps_in(const ChainAccounts& accounts);

/// Where two accounts part, and who signed there.
struct Disagreement {
  enum class Kind : std::uint8_t {
    kTensor,   // what left a stage, made from the same inputs
    kWeights,  // the weights with which a step begins
    kInput,    // the data that a stage took
  };
  Kind kind = Kind::kTensor;
  std::uint64_t step = 0;
  std::string stage;
  std::string signer;
  /// Of a tensor or an input.
  Passage passage;
  /// The first layer that gave something else, or the producer of another input; empty: not known.
  std::string layer;
  Digest ours{};
  Digest theirs{};
};

/// The first step in [from, to) in which the accounts part, and in it the stage that was the first
/// to part although all that it had received was the same. What only one of them has is not
/// compared, but for a tensor of `theirs` that `ours` lacks. `ours` are the account under
/// suspicion, whose signers are named.
[[nodiscard]] std::optional<Disagreement> first_disagreement(const ChainAccounts& ours,
                                                             const ChainAccounts& theirs,
                                                             std::uint64_t from, std::uint64_t to);

/// "step 413, part 'part1' signed by 'bob': layer 'dense2' gave …".
[[nodiscard]] std::string disagreement_text(const Disagreement& found);

}  // namespace harmonics::inline in_custody
