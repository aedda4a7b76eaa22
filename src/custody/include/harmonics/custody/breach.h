// What can be wrong with a chain of custody: each way has a name and a message of its own.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include <harmonics/base/error.h>

namespace harmonics::inline in_custody {

enum class Breach : std::uint8_t {
  kMalformed,           // bytes that are no record
  kAltered,             // records differ from what the stage signed
  kFlippedTensor,       // a tensor's bytes differ from its link
  kReplay,              // a link that was there before
  kReorder,             // a link that came before its turn
  kDrop,                // a link that is missing
  kSwappedBoundary,     // a link of one boundary on another
  kSubstitutedKey,      // a signature of another key than the roster's
  kResigned,            // all signers replaced
  kUnknownSigner,       // keys that the roster does not have
  kFork,                // two histories of one stage
  kRollback,            // a stage went back behind a head that others have seen
  kTruncated,           // no closing heads
  kOtherRun,            // a record of another run or graph
  kWrongInput,          // a tensor made from something else than what was received
  kWrongWeights,        // weights that were not announced
  kWrongProof,          // a zero-knowledge proof that is missing or does not hold
  kMalformedStatement,  // bytes that are no signed statement
  kAlteredStatement,    // a statement differs from what was signed, or from what its chain proves
  kWrongResult,         // a stage signed something else than its inputs give
  kAlteredModel,        // files of a model differ from those that were signed
};

/// For instance "replay", "swapped boundary".
[[nodiscard]] std::string_view breach_name(Breach breach);

/// What custody throws. `what()` begins with the breach and names the link.
class CustodyError : public Error {
 public:
  CustodyError(Breach breach, const std::string& message);

  [[nodiscard]] Breach breach() const noexcept { return breach_; }

 private:
  Breach breach_;
};

/// Throws a CustodyError: `fail_custody(Breach::kReplay, "link {} of …", n)`.
template <typename... Args>
[[noreturn]] void fail_custody(Breach breach, FormatString<Args...> text, Args&&... args) {
  throw CustodyError(breach, format(text, std::forward<Args>(args)...));
}

}  // namespace harmonics::inline in_custody
