#include <harmonics/data/augment_producer.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include <harmonics/base/random.h>

namespace harmonics::inline in_data {
namespace {

void check_options(const AugmentOptions& options, const TensorSpec& spec) {
  if (spec.dtype != DType::kFloat32) {
    fail(ErrorCode::kInvalidArgument, "an AugmentProducer needs float32 samples, not {}",
         spec_text(spec));
  }
  if ((options.flip && spec.shape.empty()) ||
      (options.crop_padding != 0 && spec.shape.size() < 2)) {
    fail(ErrorCode::kInvalidArgument, "samples of {} cannot be {}: that needs {}", spec_text(spec),
         options.crop_padding != 0 ? "cropped" : "flipped",
         options.crop_padding != 0 ? "rows and columns" : "an axis");
  }
  if (options.crop_padding < 0 || options.crop_padding > kMaxCropPadding) {
    fail(ErrorCode::kInvalidArgument, "a crop padding of {}: it must be 0 to {}",
         options.crop_padding, kMaxCropPadding);
  }
  if (!(options.noise >= 0.0F) || !std::isfinite(options.noise)) {
    fail(ErrorCode::kInvalidArgument, "noise of {}: it must be a finite number from 0 on",
         options.noise);
  }
  const auto entries = options.mean.size();
  const bool suits =
      entries <= 1 || (!spec.shape.empty() && spec.shape[0] == std::ssize(options.mean));
  if (!suits || entries != options.deviation.size()) {
    fail(
        ErrorCode::kInvalidArgument,
        "{} means and {} deviations for samples of {}: give one of each, or one for every entry of "
        "the first axis",
        entries, options.deviation.size(), spec_text(spec));
  }
  if (std::ranges::any_of(options.deviation, [](float d) { return !(d > 0.0F); })) {
    fail(ErrorCode::kInvalidArgument, "a deviation to divide by must be above 0");
  }
}

// Moves every plane of the last two axes by (down, right); what moves in from outside is zero.
void shift(std::span<const float> in, const Shape& shape, std::int64_t down, std::int64_t right,
           std::span<float> out) {
  const std::int64_t rows = shape[shape.size() - 2];
  const std::int64_t columns = shape[shape.size() - 1];
  std::ranges::fill(out, 0.0F);
  if (std::abs(down) >= rows || std::abs(right) >= columns) return;
  const std::int64_t width = columns - std::abs(right);
  const auto planes = std::ssize(in) / (rows * columns);
  for (std::int64_t plane = 0; plane < planes; ++plane) {
    for (std::int64_t row = std::max<std::int64_t>(0, down); row < std::min(rows, rows + down);
         ++row) {
      const float* from = in.data() + (plane * rows + row - down) * columns;
      float* to = out.data() + (plane * rows + row) * columns;
      std::copy_n(from + std::max<std::int64_t>(0, -right), width,
                  to + std::max<std::int64_t>(0, right));
    }
  }
}

void mirror(std::span<float> values, std::int64_t columns) {
  for (auto row = values.begin(); row != values.end(); row += columns) {
    std::reverse(row, row + columns);
  }
}

void normalise(std::span<float> values, const AugmentOptions& options) {
  const std::size_t each = values.size() / options.mean.size();
  for (std::size_t entry = 0; entry < options.mean.size(); ++entry) {
    for (float& value : values.subspan(entry * each, each)) {
      value = (value - options.mean[entry]) / options.deviation[entry];
    }
  }
}

// The chance of one sample.
Random chance(std::uint64_t seed, const SampleOrder& order, std::int64_t number) {
  const std::uint64_t run = random_key(random_key(seed, "augment") + order.seed, "run");
  return Random(random_key(run + order.epoch, "epoch"), static_cast<std::uint64_t>(number));
}

}  // namespace

AugmentProducer::AugmentProducer(ProducerPtr source, AugmentOptions options)
    : ChainedProducer(std::move(source), "AugmentProducer"),
      options_(std::move(options)),
      spec_(this->source().sample_spec()) {
  require_samples("AugmentProducer");
  check_options(options_, spec_);
}

std::optional<Tensor> AugmentProducer::next() {
  return next_changed(
      [this](const Tensor& sample, std::int64_t number) { return augment(sample, number); });
}

Tensor AugmentProducer::augment(const Tensor& sample, std::int64_t number) const {
  Random random = chance(options_.seed, source().position().order, number);
  Tensor out = Tensor::empty(spec_.shape, spec_.dtype);
  const std::span<const float> in = sample.values<float>();
  const std::span<float> values = out.mutable_values<float>();
  if (in.size() != values.size()) {
    fail(ErrorCode::kFailedPrecondition, "a producer yielded {} where it promised {}",
         spec_text(sample.spec()), spec_text(spec_));
  }
  if (values.empty()) return out;
  if (options_.crop_padding > 0) {
    const auto places = static_cast<std::uint64_t>(2 * options_.crop_padding + 1);
    const auto down = static_cast<std::int64_t>(random.below(places)) - options_.crop_padding;
    const auto right = static_cast<std::int64_t>(random.below(places)) - options_.crop_padding;
    shift(in, spec_.shape, down, right, values);
  } else {
    std::ranges::copy(in, values.begin());
  }
  if (options_.flip && random.below(2) == 1) mirror(values, spec_.shape.back());
  if (options_.noise > 0.0F) {
    for (float& value : values) value += options_.noise * random.normal();
  }
  if (!options_.mean.empty()) normalise(values, options_);
  return out;
}

}  // namespace harmonics::inline in_data
