// ProvenPart: one part of a proven pipeline (private to proven).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <harmonics/custody/custody_log.h>
#include <harmonics/proven/int8_network.h>
#include <harmonics/runtime/stage_prover.h>
#include <harmonics/transport/transport.h>

namespace harmonics::inline in_proven {

[[nodiscard]] Tensor byte_tensor(ByteSpan bytes);
[[nodiscard]] TensorView view_of(const Tensor& tensor);
/// The shape of the sums of a map.
[[nodiscard]] Shape sums_shape(const LinearShape& shape);
/// The next message of a boundary, which must be of this kind and step: else a CustodyError
/// (kReorder).
[[nodiscard]] Message next_message(Transport& end, const std::string& boundary, MessageKind kind,
                                   std::uint64_t step, Nanoseconds patience);

/// The link must name the weights that were committed to so: else a CustodyError.
void check_weights(const Link& link, ByteSpan commitment);
/// Checks the proof of a layer's product, and some rows of the tensor with the seed of their
/// blindings, which it gives. Anything that does not fit is a CustodyError.
[[nodiscard]] BlindingSeed check_product(const Int8Layer& layer, const Link& link,
                                         const Tensor& tensor, const StageProof& proof);

/// Sums that came over a boundary, checked, with the seed of their blindings.
struct ProvenSums {
  std::vector<std::int32_t> values;
  BlindingSeed seed{};
};

/// The sending half of a part. One thread; does not own the transport.
class ProvenSender {
 public:
  ProvenSender(const Int8Layer& layer, std::string boundary, CustodyLog& log, Transport& end,
               Nanoseconds patience);

  /// Tells the receiver what the weights are committed to as, and the chain.
  void announce();
  /// Multiplies, proves and sends.
  void send(std::uint64_t step, const std::vector<std::int8_t>& input, const BlindingSeed& seed);

 private:
  const Int8Layer& layer_;
  const std::string boundary_;
  CustodyLog& log_;
  Transport& end_;
  const Nanoseconds patience_;
  const BlindingSeed weight_seed_ = new_blinding_seed();
  Bytes commitments_;
};

/// The receiving half: lets nothing through that does not verify.
class ProvenReceiver {
 public:
  ProvenReceiver(const Int8Layer& sender, std::string boundary, CustodyLog& log, Transport& end,
                 Nanoseconds patience);

  [[nodiscard]] ProvenSums receive(std::uint64_t step, std::uint32_t batch);

 private:
  [[nodiscard]] Message next(MessageKind kind, std::uint64_t step) {
    return next_message(end_, boundary_, kind, step, patience_);
  }

  const Int8Layer& layer_;
  const std::string boundary_;
  CustodyLog& log_;
  Transport& end_;
  const Nanoseconds patience_;
  Bytes commitments_;
};

/// The seed of the input of the part that received sums with this seed: the sender can make these
/// commitments again.
[[nodiscard]] BlindingSeed input_seed_after(const BlindingSeed& seed);

}  // namespace harmonics::inline in_proven
