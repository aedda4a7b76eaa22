#include "network_statement.h"

#include "network_witness.h"

namespace harmonics::zk {
namespace {

bool is_conv(const LinearShape& shape) { return shape.kind == LinearShape::Kind::kConv3x3; }

LayerChallenges layer_challenges(const NetworkLayer& layer, std::uint32_t batch,
                                 Transcript& transcript) {
  LayerChallenges c{layer.shape, {}, {}, {scalar_of(std::int64_t{1})}};
  c.shape.batch = batch;
  c.stage.sample = transcript.challenges("sample", batch);
  const std::size_t windows = layer.data_outputs() / layer.shape.outputs;
  c.window = is_conv(layer.shape) ? transcript.challenges("pixel", windows) : c.place;
  if (layer.pool) c.place = transcript.challenges("place", kWindow);
  c.stage.pixel.resize(layer.shape.pixels());
  for (std::size_t place = 0; place < c.place.size(); ++place) {
    for (std::size_t i = 0; i < windows; ++i) {
      c.stage.pixel[place_in_sums(layer, place, i)] = c.window[i] * c.place[place];
    }
  }
  c.stage.output = transcript.challenges("output", layer.shape.outputs);
  return c;
}

template <typename Value>
void add_public(const Scalars& sample, std::span<const Value> values, Combination& combination) {
  const std::size_t width = values.size() / sample.size();
  ColumnSums sums(width);
  for (std::size_t n = 0; n < sample.size(); ++n) {
    sums.add(sample[n], values.subspan(n * width, width));
  }
  const Scalars columns = sums.finish();
  for (std::size_t i = 0; i < width; ++i) combination.add_columns(columns[i], i, 1);
}

}  // namespace

Transcript network_transcript(ByteSpan commitment, const NetworkProof& proof,
                              const Digest& context) {
  Transcript transcript("harmonics zk network 1");
  ByteWriter head;
  head.number(proof.batch);
  head.number(static_cast<std::uint8_t>(proof.shown));
  transcript.absorb("network", commitment);
  transcript.absorb("context", context);
  transcript.absorb("head", head.bytes());
  transcript.absorb("input", std::as_bytes(std::span(proof.input)));
  transcript.absorb("outputs", std::as_bytes(std::span(proof.outputs)));
  transcript.absorb("rows", proof.rows);
  return transcript;
}

NetworkChallenges network_challenges(const NetworkLayout& layout, Transcript& transcript) {
  NetworkChallenges c;
  for (const NetworkLayer& layer : layout.layers) {
    c.layers.push_back(layer_challenges(layer, layout.batch, transcript));
  }
  c.constraints = hadamard_challenges(layout, transcript);
  return c;
}

void draw_link(const PointBytes& sums, Transcript& transcript, LayerChallenges& c) {
  if (!is_conv(c.shape)) return;
  transcript.absorb("sums", sums);
  link_challenges(c.shape, transcript, c.stage);
}

Scalar draw_answer(const std::vector<CorePart>& parts, Transcript& transcript) {
  for (const CorePart& part : parts) transcript.absorb("announcement", part.announcement.points);
  return transcript.challenges("challenge", 1).front();
}

Combination data_combination(const NetworkLayout& layout, std::size_t layer,
                             const LayerChallenges& c, std::span<const std::int8_t> shown) {
  const NetworkLayer& of = layout.layers[layer];
  const std::size_t pixels = of.shape.pixels();
  Combination combination(layout.widths.size(), of.shape.inputs * pixels);
  Scalar total;
  for (std::size_t n = 0; n < layout.batch; ++n) {
    total = total + c.stage.sample[n];
    if (layer > 0 || !layout.shown) combination.add(c.stage.sample[n], layout.data(layer, n));
  }
  if (layer == 0 && layout.shown) add_public(c.stage.sample, shown, combination);
  for (std::size_t i = 0; i < of.constants.size(); ++i) {
    combination.add_columns(total * scalar_of(std::int64_t{of.constants[i]}),
                            of.data_inputs() + i * pixels, pixels);
  }
  return combination;
}

Combination result_combination(const NetworkLayout& layout, std::size_t layer,
                               const LayerChallenges& c, std::span<const std::int32_t> outputs) {
  Combination combination(layout.widths.size(), layout.layers[layer].data_outputs());
  if (layer + 1 == layout.layers.size()) {
    add_public(c.stage.sample, outputs, combination);
    return combination;
  }
  for (std::size_t n = 0; n < layout.batch; ++n) {
    for (std::size_t place = 0; place < c.place.size(); ++place) {
      combination.add(c.stage.sample[n] * c.place[place], layout.scaled(layer, n, place));
    }
  }
  return combination;
}

Statement layer_vectors(const LayerChallenges& c) {
  Statement statement;
  set_public_vectors(c.shape, c.stage, statement);
  if (!is_conv(c.shape)) return statement;
  statement.q = outer(c.stage.output, c.window);
  statement.w = outer(c.stage.channel, statement.w);
  return statement;
}

Statement constraint_vectors(const HadamardChallenges& c) {
  Statement statement;
  statement.q = {scalar_of(std::int64_t{1})};
  statement.weights = c.columns;
  return statement;
}

}  // namespace harmonics::zk
