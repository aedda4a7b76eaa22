#include <harmonics/zk/network.h>
#include <harmonics/zk/zk.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include <harmonics/base/error.h>
#include <harmonics/custody/breach.h>
#include <harmonics/custody/merkle.h>

#include "codec.h"
#include "shape.h"
#include "stage.h"

namespace harmonics::inline in_zk {
namespace {

using namespace zk;

// |sum| <= terms * 2^14.
int output_bits(const LinearShape& shape) {
  return 14 + static_cast<int>(std::bit_width(shape.weight_columns()));
}

PointBytes commit_row(std::span<const std::int8_t> row, const Scalar& blinding, int) {
  const Generators& g = generators(row.size());
  return encode_point(add(multi_multiply(row, g.row), multiply(blinding, g.blinding_bytes)));
}

PointBytes commit_row(std::span<const std::int32_t> row, const Scalar& blinding, int bits) {
  for (const std::int32_t value : row) {
    if (std::abs(std::int64_t{value}) <= std::int64_t{1} << bits) continue;
    fail(ErrorCode::kOutOfRange, "{} cannot be a sum of int8 products of this shape", value);
  }
  const Generators& g = generators(row.size());
  return encode_point(
      add(multi_multiply(row, g.row, std::min(bits, 31)), multiply(blinding, g.blinding_bytes)));
}

template <typename Value>
std::vector<PointBytes> commit_rows(std::span<const Value> values, const Scalars& blindings,
                                    int bits) {
  std::vector<PointBytes> out;
  const std::size_t columns = values.size() / blindings.size();
  for (std::size_t i = 0; i < blindings.size(); ++i) {
    out.push_back(commit_row(values.subspan(i * columns, columns), blindings[i], bits));
  }
  return out;
}

// The sum of rows, each times its factor, and of their blindings.
template <typename Value>
Secret combined(std::span<const Value> values, const Scalars& factors, const Scalars& blindings) {
  const std::size_t columns = values.size() / factors.size();
  ColumnSums sums(columns);
  for (std::size_t i = 0; i < factors.size(); ++i) {
    sums.add(factors[i], values.subspan(i * columns, columns));
  }
  return {sums.finish(), dot(factors, blindings)};
}

Derived derived(const Scalars& factors, const std::vector<PointBytes>& points) {
  Derived out{factors, {}, {}};
  for (const PointBytes& bytes : points) {
    const std::optional<Point> point = decode_point(bytes);
    if (!point) fail_custody(Breach::kMalformed, "a commitment in a proof is no point");
    out.points.push_back(affine(*point));
  }
  return out;
}

template <typename Value>
void check_rows(const std::vector<PointBytes>& commitments, std::span<const Value> values,
                const Scalars& blindings, std::span<const std::uint32_t> rows, int bits) {
  const std::size_t columns = values.size() / commitments.size();
  for (const std::uint32_t row : rows) {
    if (row >= commitments.size()) {
      fail(ErrorCode::kOutOfRange, "there is no row {} among {}", row, commitments.size());
    }
    const auto plain = values.subspan(row * columns, columns);
    const bool in_range = std::ranges::all_of(plain, [&](const Value value) {
      return std::abs(std::int64_t{value}) <= std::int64_t{1} << bits;
    });
    if (in_range && commit_row(plain, blindings[row], bits) == commitments[row]) continue;
    fail_custody(Breach::kWrongProof, "row {} of the tensor is not the one that was proven", row);
  }
}

}  // namespace

BlindingSeed new_blinding_seed() {
  BlindingSeed seed;
  fill_secret(seed);
  return seed;
}

Bytes commit_weights(const LinearShape& shape, std::span<const std::int8_t> weights,
                     const BlindingSeed& seed) {
  require_sizes(shape, shape.input_rows() * shape.input_columns(), weights.size(),
                shape.output_rows() * shape.output_columns());
  return encode_weights({shape.kind, shape.inputs, shape.outputs,
                         commit_rows(weights, expanded(seed, shape.outputs), 0)});
}

Bytes prove_stage(const LinearShape& shape, const StageSecrets& secrets, ByteSpan weights,
                  const Digest& context) {
  require_sizes(shape, secrets.input.size(), secrets.weights.size(), secrets.output.size());
  const Scalars input_blindings = expanded(secrets.input_seed, shape.input_rows());
  const Scalars weight_blindings = expanded(secrets.weight_seed, shape.outputs);
  const Scalars output_blindings = expanded(secrets.output_seed, shape.output_rows());
  StageProof proof;
  proof.shape = shape;
  proof.inputs = commit_rows(secrets.input, input_blindings, 0);
  proof.outputs = commit_rows(secrets.output, output_blindings, output_bits(shape));
  Transcript transcript = stage_transcript(
      {shape, proof.inputs, weight_points(weights, shape), proof.outputs}, context);
  StageChallenges c = first_challenges(shape, transcript);
  Witness witness;
  if (proof.linked()) {
    witness.a = {shifted_sums(shape, c, secrets.input), random_scalar()};
    proof.sums = encode_point(commit(witness.a.values, witness.a.blinding));
    transcript.absorb("sums", proof.sums);
    link_challenges(shape, transcript, c);
    witness.y = combined(secrets.input, input_factors(shape, c), input_blindings);
  } else {
    witness.a = combined(secrets.input, input_factors(shape, c), input_blindings);
  }
  witness.b = combined(secrets.weights, c.output, weight_blindings);
  witness.z = combined(secrets.output, output_factors(shape, c), output_blindings);
  Statement statement;
  set_public_vectors(shape, c, statement);
  const Prover prover(statement, witness);
  proof.announcement = prover.announcement();
  transcript.absorb("announcement", proof.announcement.points);
  proof.answer = prover.answer(transcript.challenges("challenge", 1).front());
  return encode_proof(proof);
}

LinearShape verify_stage_proof(ByteSpan bytes, ByteSpan weights, const Digest& context) {
  const StageProof proof = decode_proof(bytes);
  const LinearShape& shape = proof.shape;
  const std::vector<PointBytes> columns = weight_points(weights, shape);
  Transcript transcript = stage_transcript({shape, proof.inputs, columns, proof.outputs}, context);
  StageChallenges c = first_challenges(shape, transcript);
  Statement statement;
  if (proof.linked()) {
    transcript.absorb("sums", proof.sums);
    link_challenges(shape, transcript, c);
    statement.a = derived({scalar_of(1)}, {proof.sums});
    statement.y = derived(input_factors(shape, c), proof.inputs);
  } else {
    statement.a = derived(input_factors(shape, c), proof.inputs);
  }
  statement.b = derived(c.output, columns);
  statement.z = derived(output_factors(shape, c), proof.outputs);
  set_public_vectors(shape, c, statement);
  transcript.absorb("announcement", proof.announcement.points);
  const Scalar challenge = transcript.challenges("challenge", 1).front();
  if (!holds(statement, proof.announcement, challenge, proof.answer)) {
    fail_custody(Breach::kWrongProof,
                 "the proof does not hold: the output is not the product of the committed input "
                 "and weights, or the proof is of something else");
  }
  return shape;
}

namespace {

// The code of int32 in a link.
constexpr std::uint8_t kInt32Code = 5;

std::vector<std::int64_t> tensor_shape(const LinearShape& shape) {
  std::vector<std::int64_t> out = {shape.batch, shape.outputs};
  if (shape.kind == LinearShape::Kind::kConv3x3) {
    out.insert(out.end(), {shape.height, shape.width});
  }
  return out;
}

// What a stage received is what its proof must be about. Data of its own it may hide.
void check_shown_input(const Link& link, const std::vector<std::int8_t>& shown) {
  const bool received = std::ranges::any_of(link.inputs, [](const LinkInput& input) {
    return input.source == LinkInput::Source::kForward;
  });
  if (shown.empty() && !received) return;
  if (shown.empty()) {
    fail_custody(Breach::kWrongProof, "the proof hides what the stage received over a boundary");
  }
  const std::vector<std::int32_t> numbers(shown.begin(), shown.end());
  const Digest root = tensor_root(std::as_bytes(std::span(numbers)));
  if (std::ranges::find(link.inputs, root, &LinkInput::root) == link.inputs.end()) {
    fail_custody(Breach::kWrongProof, "the proof is about another input than the stage received");
  }
}

void check_network_link(const Link& link, ByteSpan proof, ByteSpan network, const Digest& context) {
  const NetworkClaim claim = verify_network_proof(proof, network, context);
  LinearShape shape = committed_layers(network).back().shape;
  shape.batch = claim.batch;
  if (link.shape != tensor_shape(shape) || link.dtype != kInt32Code ||
      link.root != tensor_root(std::as_bytes(std::span(claim.outputs)))) {
    fail_custody(Breach::kWrongProof, "the proof is about other outputs than the link's tensor");
  }
  check_shown_input(link, claim.input);
}

void check_stage_link(const Link& link, ByteSpan proof, ByteSpan weights, const Digest& context) {
  if (link.shape != tensor_shape(verify_stage_proof(proof, weights, context))) {
    fail_custody(Breach::kWrongProof, "the proof is about a tensor of another shape");
  }
}

}  // namespace

void check_link_proof(const Link& link, ByteSpan proof, ByteSpan weights) {
  if (weights.empty()) {
    fail_custody(Breach::kWrongProof, "{}: there are no commitments to the weights of the proof",
                 passage_text(link.passage));
  }
  const Digest context = proof_context(link.run, link.graph, link.passage);
  try {
    (is_network_record(proof) ? check_network_link : check_stage_link)(link, proof, weights,
                                                                       context);
  } catch (const CustodyError& error) {
    throw CustodyError(error.breach(), format("{}: {}", passage_text(link.passage), error.what()));
  }
}

void check_output_rows(ByteSpan bytes, std::span<const std::int32_t> output,
                       const BlindingSeed& seed, std::span<const std::uint32_t> rows) {
  const StageProof proof = decode_proof(bytes);
  const LinearShape& shape = proof.shape;
  require_sizes(shape, shape.input_rows() * shape.input_columns(),
                shape.outputs * shape.weight_columns(), output.size());
  check_rows(proof.outputs, output, expanded(seed, shape.output_rows()), rows, output_bits(shape));
}

void check_input_rows(ByteSpan bytes, std::span<const std::int8_t> input, const BlindingSeed& seed,
                      std::span<const std::uint32_t> rows) {
  const StageProof proof = decode_proof(bytes);
  const LinearShape& shape = proof.shape;
  require_sizes(shape, input.size(), shape.outputs * shape.weight_columns(),
                shape.output_rows() * shape.output_columns());
  check_rows(proof.inputs, input, expanded(seed, shape.input_rows()), rows, 7);
}

}  // namespace harmonics::inline in_zk
