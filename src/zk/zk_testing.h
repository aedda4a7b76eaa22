// Stages with random numbers in them, for tests of the proofs.
#pragma once

#include <optional>
#include <vector>

#include <harmonics/base/random.h>
#include <harmonics/custody/breach.h>
#include <harmonics/zk/zk.h>

namespace harmonics::inline in_zk {

inline LinearShape dense_shape(std::uint32_t batch, std::uint32_t inputs, std::uint32_t outputs) {
  return {LinearShape::Kind::kDense, batch, inputs, outputs, 1, 1};
}
inline LinearShape conv_shape(std::uint32_t batch, std::uint32_t inputs, std::uint32_t outputs,
                              std::uint32_t height, std::uint32_t width) {
  return {LinearShape::Kind::kConv3x3, batch, inputs, outputs, height, width};
}

/// A stage with everything that its prover knows.
struct TestStage {
  LinearShape shape;
  std::vector<std::int8_t> input, weights;
  std::vector<std::int32_t> output;
  BlindingSeed input_seed = new_blinding_seed();
  BlindingSeed weight_seed = new_blinding_seed();
  BlindingSeed output_seed = new_blinding_seed();
  Bytes committed_weights;
  Digest context = sha256(bytes_of("context"));

  TestStage(const LinearShape& of, std::uint64_t seed) : shape(of) {
    Random random(seed, "stage");
    input.resize(shape.input_rows() * shape.input_columns());
    weights.resize(shape.outputs * shape.weight_columns());
    for (auto* tensor : {&input, &weights}) {
      for (std::int8_t& value : *tensor) value = static_cast<std::int8_t>(random.below(256));
    }
    output = linear_product(shape, input, weights);
    commit();
  }
  void commit() { committed_weights = commit_weights(shape, weights, weight_seed); }

  [[nodiscard]] Bytes prove() const {
    return prove_stage(shape, {input, weights, output, input_seed, weight_seed, output_seed},
                       committed_weights, context);
  }
  /// What a verifier says of a proof for this stage; nothing when it accepts.
  [[nodiscard]] std::optional<Breach> verdict(ByteSpan proof) const {
    try {
      (void)verify_stage_proof(proof, committed_weights, context);
    } catch (const CustodyError& error) {
      return error.breach();
    }
    return std::nullopt;
  }
};

}  // namespace harmonics::inline in_zk
