#include <algorithm>
#include <utility>

#include <harmonics/base/error.h>

#include "msm.h"
#include "network_prover.h"
#include "network_statement.h"
#include "shape.h"

namespace harmonics::zk {
namespace {

using Rows = std::vector<std::vector<std::int8_t>>;

std::int64_t factor_of(const LayerParameters& parameters, std::size_t output) {
  return parameters.factors.empty() ? 1 : parameters.factors[output];
}

std::span<const std::int8_t> weights_of(const LayerParameters& parameters, const LinearShape& shape,
                                        std::size_t output) {
  return parameters.weights.subspan(output * shape.weight_columns(), shape.weight_columns());
}

void require_parameters(const NetworkLayers& layers, std::span<const LayerParameters> parameters) {
  if (parameters.size() != layers.size()) {
    fail(ErrorCode::kInvalidArgument, "parameters of {} layers, the network has {}",
         parameters.size(), layers.size());
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LinearShape& shape = layers[i].shape;
    const bool last = i + 1 == layers.size();
    require_sizes(shape, shape.input_rows() * shape.input_columns(), parameters[i].weights.size(),
                  shape.output_rows() * shape.output_columns());
    const std::size_t due = last ? 0 : shape.outputs;
    if (parameters[i].factors.size() != due) {
      fail(ErrorCode::kInvalidArgument, "layer {} has {} factors, {} are due", i + 1,
           parameters[i].factors.size(), due);
    }
    if (std::ranges::any_of(parameters[i].factors, [](std::int32_t f) { return f < 0; })) {
      fail(ErrorCode::kInvalidArgument, "layer {} has a negative factor", i + 1);
    }
  }
}

std::size_t all_outputs(const NetworkLayers& layers) {
  std::size_t count = 0;
  for (const NetworkLayer& layer : layers) count += layer.shape.outputs;
  return count;
}

// What the prover of one proof holds.
class NetworkProver {
 public:
  NetworkProver(const NetworkSecrets& network, const NetworkLayout& layout,
                const NetworkWitness& witness, const BlindingSeed& input_seed)
      : network_(network),
        layout_(layout),
        witness_(witness),
        blindings_(random_scalars(layout.widths.size())),
        weight_blindings_(expanded(network.seed, all_outputs(layout.layers))) {
    std::size_t input_rows = 0;
    for (const BitRows& bits : layout.inputs) input_rows += bits.worth.size();
    // Those of the input come first.
    std::ranges::copy(expanded(input_seed, input_rows), blindings_.begin());
  }

  [[nodiscard]] Bytes prove(const Digest& context) {
    proof_ = {layout_.batch, layout_.shown, witness_.input, witness_.outputs, {}, {}, {}, {}};
    for (std::size_t i = 0; i < witness_.rows.size(); ++i) {
      proof_.rows.push_back(commit_bits(witness_.rows[i], blindings_[i]));
    }
    Transcript transcript = network_transcript(network_.commitment, proof_, context);
    challenges_ = network_challenges(layout_, transcript);
    std::vector<Statement> statements;
    std::vector<Witness> witnesses;
    for (std::size_t i = 0; i < layout_.layers.size(); ++i) {
      witnesses.push_back(layer_witness(i, transcript));
      statements.push_back(layer_vectors(challenges_.layers[i]));
    }
    if (layout_.rounds() > 0) {
      witnesses.push_back(constraint_witness(transcript));
      statements.push_back(constraint_vectors(challenges_.constraints));
    }
    std::vector<Prover> provers;
    provers.reserve(statements.size());
    for (std::size_t i = 0; i < statements.size(); ++i) {
      provers.emplace_back(statements[i], witnesses[i]);
      proof_.parts.push_back({provers.back().announcement(), {}});
    }
    const Scalar challenge = draw_answer(proof_.parts, transcript);
    for (std::size_t i = 0; i < provers.size(); ++i) {
      proof_.parts[i].answer = provers[i].answer(challenge);
    }
    return encode_network_proof(proof_, layout_);
  }

 private:
  [[nodiscard]] Secret secret_of(const Combination& combination) const {
    return combination.secret(witness_.rows, blindings_);
  }

  Witness layer_witness(std::size_t i, Transcript& transcript) {
    LayerChallenges& c = challenges_.layers[i];
    Witness witness;
    witness.a = secret_of(data_combination(layout_, i, c, witness_.input));
    witness.b = weights_secret(i);
    witness.z = secret_of(result_combination(layout_, i, c, witness_.outputs));
    proof_.sums.emplace_back();
    if (c.shape.kind != LinearShape::Kind::kConv3x3) return witness;
    witness.y = std::exchange(witness.a, {{}, random_scalar()});
    const std::size_t pixels = c.shape.pixels();
    for (std::size_t channel = 0; channel < c.shape.inputs; ++channel) {
      append_shifted(c.shape, c.stage,
                     std::span(witness.y.values).subspan(channel * pixels, pixels),
                     witness.a.values);
    }
    proof_.sums.back() = encode_point(commit(witness.a.values, witness.a.blinding));
    draw_link(proof_.sums.back(), transcript, c);
    return witness;
  }

  // The sum of factor * weights over the outputs, each with its challenge.
  [[nodiscard]] Secret weights_secret(std::size_t i) const {
    const LayerChallenges& c = challenges_.layers[i];
    const LayerParameters& parameters = network_.parameters[i];
    std::size_t first = 0;
    for (std::size_t before = 0; before < i; ++before) {
      first += layout_.layers[before].shape.outputs;
    }
    ColumnSums sums(c.shape.weight_columns());
    Scalar blinding;
    for (std::size_t o = 0; o < c.shape.outputs; ++o) {
      sums.add(c.stage.output[o] * scalar_of(factor_of(parameters, o)),
               weights_of(parameters, c.shape, o));
      blinding = blinding + c.stage.output[o] * weight_blindings_[first + o];
    }
    return {sums.finish(), blinding};
  }

  Witness constraint_witness(Transcript& transcript) {
    HadamardChallenges& c = challenges_.constraints;
    HadamardRounds rounds = hadamard_rounds(layout_, witness_.rows, transcript, c);
    proof_.rounds = std::move(rounds.points);
    const Scalars factors = claim_factors(c);
    const HadamardEnds ends = hadamard_ends(layout_, c);
    Witness witness;
    witness.a = secret_of(ends.left);
    witness.b = secret_of(ends.right);
    witness.z = {{dot(factors, rounds.values)}, dot(factors, rounds.blindings)};
    return witness;
  }

  const NetworkSecrets& network_;
  const NetworkLayout& layout_;
  const NetworkWitness& witness_;
  Scalars blindings_;
  const Scalars weight_blindings_;
  NetworkProof proof_;
  NetworkChallenges challenges_;
};

}  // namespace

PointBytes commit_bits(std::span<const std::int8_t> values, const Scalar& blinding) {
  const Generators& g = generators(values.size());
  Point sum = identity();
  if (std::ranges::all_of(values, [](std::int8_t value) { return value == 0 || value == 1; })) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] == 1) sum = add(sum, g.row[i]);
    }
  } else {
    sum = multi_multiply(values, g.row);
  }
  return encode_point(add(sum, multiply(blinding, g.blinding_bytes)));
}

Bytes prove_witness(const NetworkSecrets& network, const NetworkLayout& layout,
                    const NetworkWitness& witness, const BlindingSeed& input_seed,
                    const Digest& context) {
  return NetworkProver(network, layout, witness, input_seed).prove(context);
}

}  // namespace harmonics::zk

namespace harmonics::inline in_zk {

Bytes commit_network(const NetworkLayers& layers, std::span<const LayerParameters> parameters,
                     const BlindingSeed& seed) {
  using namespace zk;
  if (const std::string problem = network_problem(layers); !problem.empty()) {
    fail(ErrorCode::kInvalidArgument, "this network cannot be proven: {}", problem);
  }
  require_parameters(layers, parameters);
  const Scalars blindings = expanded(seed, all_outputs(layers));
  NetworkCommitment commitment{layers, {}};
  std::size_t at = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LinearShape& shape = layers[i].shape;
    const Generators& g = generators(shape.weight_columns());
    std::vector<PointBytes>& points = commitment.outputs.emplace_back();
    for (std::size_t o = 0; o < shape.outputs; ++o) {
      const PointBytes sum =
          encode_point(multi_multiply(weights_of(parameters[i], shape, o), g.row));
      points.push_back(encode_point(add(multiply(scalar_of(factor_of(parameters[i], o)), sum),
                                        multiply(blindings[at++], g.blinding_bytes))));
    }
  }
  return encode_network(commitment);
}

Bytes prove_network(const NetworkSecrets& network, const NetworkInput& input,
                    const Digest& context) {
  const NetworkLayers layers = committed_layers(network.commitment);
  zk::require_parameters(layers, network.parameters);
  const std::size_t per_sample = layers.front().data_inputs();
  const std::size_t batch = input.values.size() / per_sample;
  if (batch == 0 || input.values.size() % per_sample != 0 || batch > kMaxProofRows) {
    fail(ErrorCode::kInvalidArgument, "an input of {} numbers, a sample has {}",
         input.values.size(), per_sample);
  }
  zk::require_provable(layers, static_cast<std::uint32_t>(batch), input.shown);
  const zk::NetworkLayout layout =
      zk::network_layout(layers, static_cast<std::uint32_t>(batch), input.shown);
  return zk::prove_witness(network, layout,
                           zk::network_witness(layout, network.parameters, input.values),
                           input.seed, context);
}

}  // namespace harmonics::inline in_zk
