// StageProver: a stage that shows how it made what leaves it. Secure runs ask it for proofs and let
// it check those of others (schedule/stage_custody.h); the module proven has what implements it.
#pragma once

#include <memory>

#include <harmonics/base/bytes.h>
#include <harmonics/custody/digest.h>
#include <harmonics/custody/records.h>
#include <harmonics/runtime/stage_backend.h>

namespace harmonics::inline in_runtime {

/// The most bytes of a commitment, and of what travels with a proof and is in no record.
inline constexpr std::size_t kMaxCommitmentBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMaxProofOpeningBytes = 64;
/// The most bytes of a proof that travels.
inline constexpr std::size_t kMaxTravellingProofBytes = std::size_t{8} << 20;

/// A proof of how a tensor was made.
struct StageProof {
  /// What the weights are committed to as: public.
  Bytes commitment;
  /// Goes into the chain.
  Bytes proof;
  /// For who takes the tensor alone: it is in no record.
  Bytes opening;
};

/// One thread; belongs to its stage. Checks that fail are CustodyErrors; then nothing of what came
/// may be used.
class StageProver {
 public:
  virtual ~StageProver() = default;

  /// What the weights are committed to as; the same bytes as long as the stage lives.
  [[nodiscard]] virtual ByteSpan commitment() const = 0;
  /// What the stage made of the batch that it computed last, in the integers that are proven.
  [[nodiscard]] virtual const Tensor& made() const = 0;
  /// Proves it, for this context and no other.
  [[nodiscard]] virtual StageProof prove(const Digest& context) = 0;
  /// Checks what the part before sent with that link, which was checked itself.
  virtual void check_entering(const Link& link, const Tensor& tensor, const StageProof& came) = 0;
  /// The same of what this stage made, for who reads it.
  virtual void check_made(const Link& link, const StageProof& given) const = 0;
};

/// Makes stages that prove what they compute. Const calls from any thread.
class ProvingStages {
 public:
  virtual ~ProvingStages() = default;
  /// A part that cannot be proven is an Error that names it and says why.
  [[nodiscard]] virtual std::unique_ptr<StageBackend> make_stage(HarmonicGraph part) const = 0;
};

}  // namespace harmonics::inline in_runtime
