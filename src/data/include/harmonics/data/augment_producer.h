// Random changes to samples, and normalising them.
#pragma once

#include <cstdint>
#include <vector>

#include <harmonics/data/chained_producer.h>

namespace harmonics::inline in_data {

inline constexpr std::int64_t kMaxCropPadding = 1024;

/// What is done to a sample, in this order; by default nothing.
struct AugmentOptions {
  /// Pads the last two axes (rows and columns of an image) with so many zeros on each side, then
  /// cuts the old size out at a random place.
  std::int64_t crop_padding = 0;
  /// Mirrors the last axis of every second sample, by chance.
  bool flip = false;
  /// Adds normal noise of this standard deviation to every element.
  float noise = 0.0F;
  /// Subtracts the mean and divides by the standard deviation: one of each for all elements, or one
  /// for every entry of the first axis (channels of an image, columns of a row). Both or neither.
  std::vector<float> mean;
  std::vector<float> deviation;
  /// Tells several producers of one run apart: inputs and labels that must change alike share it.
  std::uint64_t seed = 0;
};

/// Yields the float32 samples of its source, changed at random. The chance of a sample is a pure
/// function of (options.seed, order, its number in the epoch), so that every epoch differs and
/// resuming is exact. Options that do not suit the shape, another dtype and a source of batches are
/// Errors of the constructor.
class AugmentProducer final : public ChainedProducer {
 public:
  AugmentProducer(ProducerPtr source, AugmentOptions options);

  [[nodiscard]] std::optional<Tensor> next() override;

 private:
  [[nodiscard]] Tensor augment(const Tensor& sample, std::int64_t number) const;

  AugmentOptions options_;
  TensorSpec spec_;
};

}  // namespace harmonics::inline in_data
