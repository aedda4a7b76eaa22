#include "stage.h"

#include "shape.h"

namespace harmonics::zk {
namespace {

bool is_conv(const LinearShape& shape) { return shape.kind == LinearShape::Kind::kConv3x3; }

}  // namespace

Scalars outer(const Scalars& a, const Scalars& b) {
  Scalars out;
  out.reserve(a.size() * b.size());
  for (const Scalar& left : a) {
    for (const Scalar& right : b) out.push_back(left * right);
  }
  return out;
}

Transcript stage_transcript(const PublicStage& stage, const Digest& context) {
  Transcript transcript("harmonics zk stage 1");
  ByteWriter shape;
  shape.number(static_cast<std::uint8_t>(stage.shape.kind));
  for (const std::uint32_t extent : {stage.shape.batch, stage.shape.inputs, stage.shape.outputs,
                                     stage.shape.height, stage.shape.width}) {
    shape.number(extent);
  }
  transcript.absorb("shape", shape.bytes());
  transcript.absorb("context", context);
  transcript.absorb("inputs", stage.inputs);
  transcript.absorb("weights", stage.weights);
  transcript.absorb("outputs", stage.outputs);
  return transcript;
}

StageChallenges first_challenges(const LinearShape& shape, Transcript& transcript) {
  StageChallenges c;
  c.sample = transcript.challenges("sample", shape.batch);
  c.pixel = is_conv(shape) ? transcript.challenges("pixel", shape.pixels()) : Scalars{scalar_of(1)};
  c.output = transcript.challenges("output", shape.outputs);
  return c;
}

void link_challenges(const LinearShape& shape, Transcript& transcript, StageChallenges& c) {
  c.channel = transcript.challenges("channel", shape.inputs);
  c.tap = transcript.challenges("tap", kTaps);
}

Scalars input_factors(const LinearShape& shape, const StageChallenges& c) {
  return is_conv(shape) ? outer(c.sample, c.channel) : c.sample;
}

Scalars output_factors(const LinearShape& shape, const StageChallenges& c) {
  return is_conv(shape) ? outer(c.sample, c.output) : c.sample;
}

void set_public_vectors(const LinearShape& shape, const StageChallenges& c, Statement& statement) {
  if (!is_conv(shape)) {
    statement.q = c.output;
    return;
  }
  statement.q = c.pixel;
  statement.e = outer(c.channel, c.tap);
  statement.w.assign(shape.pixels(), Scalar{});
  for (std::size_t tap = 0; tap < kTaps; ++tap) {
    for_each_shift(shape, tap, [&](std::size_t source, std::size_t target) {
      statement.w[source] = statement.w[source] + c.tap[tap] * c.pixel[target];
    });
  }
}

void append_shifted(const LinearShape& shape, const StageChallenges& c,
                    std::span<const Scalar> channel, Scalars& out) {
  for (std::size_t tap = 0; tap < kTaps; ++tap) {
    Scalar sum;
    for_each_shift(shape, tap, [&](std::size_t source, std::size_t target) {
      sum = sum + c.pixel[target] * channel[source];
    });
    out.push_back(sum);
  }
}

Scalars shifted_sums(const LinearShape& shape, const StageChallenges& c,
                     std::span<const std::int8_t> input) {
  const std::size_t pixels = shape.pixels();
  Scalars out;
  for (std::size_t channel = 0; channel < shape.inputs; ++channel) {
    ColumnSums sums(pixels);
    for (std::size_t n = 0; n < shape.batch; ++n) {
      sums.add(c.sample[n], input.subspan((n * shape.inputs + channel) * pixels, pixels));
    }
    append_shifted(shape, c, sums.finish(), out);
  }
  return out;
}

}  // namespace harmonics::zk
