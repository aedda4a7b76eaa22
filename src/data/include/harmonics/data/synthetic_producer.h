// Random samples that need no file.
#pragma once

#include <cstdint>
#include <optional>

#include <harmonics/data/producer.h>

namespace harmonics::inline in_data {

enum class SyntheticKind {
  kUniform,   // in [0, 1)
  kNormal,    // mean 0, variance 1
  kIntegers,  // in 0..below-1
  kOneHot,    // zeros, and a one at a place below `below`, which is the width of a row
};

struct SyntheticOptions {
  Shape shape = {1};
  SyntheticKind kind = SyntheticKind::kUniform;
  /// Without it float32, and int64 for integers. Uniform, normal and one-hot need float32 or
  /// float64.
  std::optional<DType> dtype;
  /// For integers: every one is smaller. Must fit the dtype. For one-hot: the last extent.
  std::int64_t below = 2;
  std::uint64_t seed = 0;
};

/// A data set of `size` random samples. Sample r is a pure function of (seed, r): the same in every
/// epoch, order, process and machine.
class SyntheticProducer final : public IndexedProducer {
 public:
  SyntheticProducer(std::int64_t size, SyntheticOptions options);

  [[nodiscard]] TensorSpec sample_spec() const override { return spec_; }
  [[nodiscard]] std::int64_t row_count() const override { return size_; }
  void read(std::span<const std::int64_t> rows, std::span<std::byte> out) override;

 private:
  std::int64_t size_;
  SyntheticOptions options_;
  TensorSpec spec_;
};

/// Random samples without end. Sample i of an epoch is a pure function of (seed, order, i), so that
/// every epoch is fresh and can still be repeated.
class EndlessSyntheticProducer final : public Producer {
 public:
  explicit EndlessSyntheticProducer(SyntheticOptions options);

  [[nodiscard]] TensorSpec sample_spec() const override { return spec_; }
  [[nodiscard]] std::optional<std::int64_t> size() const override { return std::nullopt; }
  void begin_epoch(const SampleOrder& order) override { position_ = {order, 0}; }
  [[nodiscard]] std::optional<Tensor> next() override;
  [[nodiscard]] std::int64_t next_rows(std::int64_t count, std::span<std::byte> out) override;
  void skip(std::int64_t count) override;
  [[nodiscard]] ProducerPosition position() const override { return position_; }

 private:
  SyntheticOptions options_;
  TensorSpec spec_;
  ProducerPosition position_;
};

}  // namespace harmonics::inline in_data
