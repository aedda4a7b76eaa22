#include "network_codec.h"

#include <bit>
#include <cstring>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/custody/canonical.h>

#include "wire.h"

namespace harmonics::zk {
namespace {

// The first byte; records of single stages begin with 1.
constexpr std::uint8_t kNetworkVersion = 2;
constexpr std::size_t kHeadBytes = 1 + 1 + 4;

bool is_linked(const NetworkLayer& layer) {
  return layer.shape.kind == LinearShape::Kind::kConv3x3;
}

// Scalars of an answer: vectors a, b, z, y.
struct PartSizes {
  std::size_t a = 0, z = 0, y = 0;
  bool linked = false;
  [[nodiscard]] std::size_t points() const {
    return kAnnouncedPoints + (linked ? kLinkedPoints : 0);
  }
  [[nodiscard]] std::size_t scalars() const { return 2 * a + z + y + 5 + (linked ? 2 : 0); }
};

PartSizes layer_sizes(const NetworkLayer& layer) {
  const LinearShape& shape = layer.shape;
  return {shape.weight_columns(), layer.data_outputs(),
          is_linked(layer) ? shape.inputs * shape.pixels() : 0, is_linked(layer)};
}

PartSizes constraint_sizes(std::size_t columns) { return {columns, 1, 0, false}; }

// What a proof consists of, without building a layout.
struct ProofSizes {
  std::size_t rows = 0, rounds = 0, input = 0, outputs = 0, linked = 0;
  std::vector<PartSizes> parts;

  [[nodiscard]] std::size_t bytes() const {
    std::size_t points = rows + 2 * rounds + linked;
    for (const PartSizes& part : parts) points += part.points() + part.scalars();
    return kHeadBytes + input + 4 * outputs + 32 * points;
  }
};

ProofSizes proof_sizes(const NetworkLayers& layers, std::uint32_t batch, bool shown) {
  ProofSizes sizes;
  sizes.rows = committed_rows(layers, batch, shown);
  if (sizes.rows > kMaxNetworkRows) return sizes;
  const NetworkLayout layout = network_layout(layers, batch, shown);
  sizes.rounds = layout.rounds();
  sizes.input = shown ? batch * layers.front().data_inputs() : 0;
  sizes.outputs = batch * layers.back().data_outputs();
  for (const NetworkLayer& layer : layers) {
    sizes.linked += is_linked(layer) ? 1 : 0;
    sizes.parts.push_back(layer_sizes(layer));
  }
  if (sizes.rounds > 0) sizes.parts.push_back(constraint_sizes(layout.columns));
  return sizes;
}

std::string size_problem(const ProofSizes& sizes) {
  if (sizes.rows > kMaxNetworkRows) {
    return format("it commits to {} rows, at most {} are possible", sizes.rows, kMaxNetworkRows);
  }
  if (sizes.bytes() > kMaxProofBytes) {
    return format("it has {} bytes, at most {} are possible", sizes.bytes(), kMaxProofBytes);
  }
  return "";
}

void write_part(ByteWriter& out, const CorePart& part, bool linked) {
  write(out, part.announcement.points);
  const CoreAnswer& answer = part.answer;
  for (const Scalars* values : {&answer.a, &answer.b, &answer.z, &answer.y}) write(out, *values);
  for (const Scalar* blinding : {&answer.blind_a, &answer.blind_b, &answer.blind_z,
                                 &answer.blind_product, &answer.blind_output}) {
    write(out, *blinding);
  }
  if (!linked) return;
  write(out, answer.blind_y);
  write(out, answer.blind_link);
}

CorePart read_part(CanonicalReader& in, const PartSizes& sizes) {
  CorePart part;
  part.announcement.points = read_points(in, sizes.points());
  CoreAnswer& answer = part.answer;
  answer.a = read_scalars(in, sizes.a);
  answer.b = read_scalars(in, sizes.a);
  answer.z = read_scalars(in, sizes.z);
  answer.y = read_scalars(in, sizes.y);
  for (Scalar* blinding : {&answer.blind_a, &answer.blind_b, &answer.blind_z, &answer.blind_product,
                           &answer.blind_output}) {
    *blinding = read_scalar(in);
  }
  if (!sizes.linked) return part;
  answer.blind_y = read_scalar(in);
  answer.blind_link = read_scalar(in);
  return part;
}

NetworkLayer read_layer(CanonicalReader& in) {
  NetworkLayer layer;
  layer.shape.kind = static_cast<LinearShape::Kind>(in.choice(1, 2, "a kind of map"));
  layer.shape.inputs = in.number<std::uint32_t>();
  layer.shape.outputs = in.number<std::uint32_t>();
  layer.shape.height = in.number<std::uint32_t>();
  layer.shape.width = in.number<std::uint32_t>();
  layer.relu = in.choice(0, 1, "a flag") != 0;
  layer.pool = in.choice(0, 1, "a flag") != 0;
  layer.constants =
      in.list<std::int8_t>(kMaxNetworkConstants, 1, [&] { return in.number<std::int8_t>(); });
  return layer;
}

}  // namespace

Bytes encode_network(const NetworkCommitment& commitment) {
  ByteWriter out;
  out.number(kNetworkVersion);
  out.number(static_cast<std::uint32_t>(commitment.layers.size()));
  for (const NetworkLayer& layer : commitment.layers) {
    out.number(static_cast<std::uint8_t>(layer.shape.kind));
    for (const std::uint32_t extent :
         {layer.shape.inputs, layer.shape.outputs, layer.shape.height, layer.shape.width}) {
      out.number(extent);
    }
    out.number(static_cast<std::uint8_t>(layer.relu));
    out.number(static_cast<std::uint8_t>(layer.pool));
    out.number(static_cast<std::uint32_t>(layer.constants.size()));
    for (const std::int8_t value : layer.constants) out.number(value);
  }
  for (const auto& points : commitment.outputs) write(out, points);
  return out.take();
}

NetworkCommitment decode_network(ByteSpan bytes) {
  return decode_canonical(bytes, "network commitment", [](CanonicalReader& in) {
    (void)in.choice(kNetworkVersion, kNetworkVersion, "a known version");
    NetworkCommitment commitment;
    commitment.layers =
        in.list<NetworkLayer>(kMaxNetworkLayers, 23, [&] { return read_layer(in); });
    if (const std::string problem = network_problem(commitment.layers); !problem.empty()) {
      in.broken(problem);
    }
    std::size_t points = 0;
    for (const NetworkLayer& layer : commitment.layers) points += layer.shape.outputs;
    if (in.left() != 32 * points) in.broken("the number of commitments is not that of the outputs");
    for (const NetworkLayer& layer : commitment.layers) {
      commitment.outputs.push_back(read_points(in, layer.shape.outputs));
    }
    return commitment;
  });
}

void require_provable(const NetworkLayers& layers, std::uint32_t batch, bool shown) {
  const std::string problem = size_problem(proof_sizes(layers, batch, shown));
  if (problem.empty()) return;
  fail(ErrorCode::kResourceExhausted, "a proof of {} samples is too large: {}; prove fewer at once",
       batch, problem);
}

Bytes encode_network_proof(const NetworkProof& proof, const NetworkLayout& layout) {
  ByteWriter out;
  out.number(kNetworkVersion);
  out.number(static_cast<std::uint8_t>(proof.shown));
  out.number(proof.batch);
  out.raw(std::as_bytes(std::span(proof.input)));
  for (const std::int32_t value : proof.outputs) out.number(value);
  write(out, proof.rows);
  write(out, proof.rounds);
  for (std::size_t i = 0; i < layout.layers.size(); ++i) {
    if (is_linked(layout.layers[i])) out.raw(proof.sums[i]);
  }
  for (std::size_t i = 0; i < proof.parts.size(); ++i) {
    write_part(out, proof.parts[i], i < layout.layers.size() && is_linked(layout.layers[i]));
  }
  return out.take();
}

NetworkProof decode_network_proof(ByteSpan bytes, const NetworkLayers& layers) {
  return decode_canonical(bytes, "network proof", [&](CanonicalReader& in) {
    (void)in.choice(kNetworkVersion, kNetworkVersion, "a known version");
    NetworkProof proof;
    proof.shown = in.choice(0, 1, "a flag") != 0;
    proof.batch = in.number<std::uint32_t>();
    if (proof.batch == 0 || proof.batch > kMaxProofRows) in.broken("no possible batch");
    const ProofSizes sizes = proof_sizes(layers, proof.batch, proof.shown);
    if (const std::string problem = size_problem(sizes); !problem.empty()) in.broken(problem);
    if (bytes.size() != sizes.bytes()) {
      in.broken(format("a proof of {} samples has {} bytes, not {}", proof.batch, sizes.bytes(),
                       bytes.size()));
    }
    proof.input.resize(sizes.input);
    if (sizes.input > 0) std::memcpy(proof.input.data(), in.raw(sizes.input).data(), sizes.input);
    proof.outputs.resize(sizes.outputs);
    for (std::int32_t& value : proof.outputs) value = in.number<std::int32_t>();
    proof.rows = read_points(in, sizes.rows);
    proof.rounds = read_points(in, 2 * sizes.rounds);
    for (const NetworkLayer& layer : layers) {
      proof.sums.push_back(is_linked(layer) ? in.digest() : PointBytes{});
    }
    for (const PartSizes& part : sizes.parts) proof.parts.push_back(read_part(in, part));
    return proof;
  });
}

}  // namespace harmonics::zk

namespace harmonics::inline in_zk {

NetworkLayers committed_layers(ByteSpan commitment) {
  return zk::decode_network(commitment).layers;
}

NetworkClaim read_network_claim(ByteSpan bytes, ByteSpan commitment) {
  zk::NetworkProof proof = zk::decode_network_proof(bytes, committed_layers(commitment));
  return {proof.batch, std::move(proof.outputs), std::move(proof.input)};
}

bool is_network_record(ByteSpan bytes) {
  return !bytes.empty() && bytes[0] == std::byte{zk::kNetworkVersion};
}

}  // namespace harmonics::inline in_zk
