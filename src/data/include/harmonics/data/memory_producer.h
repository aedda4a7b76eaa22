// The rows of a tensor as samples.
#pragma once

#include <cstdint>

#include <harmonics/data/producer.h>

namespace harmonics::inline in_data {

/// Each slice of a CPU tensor along its first axis is a sample. Shares the tensor's memory. A
/// scalar, an undefined tensor or one on a GPU is an Error.
class MemoryProducer final : public IndexedProducer {
 public:
  explicit MemoryProducer(Tensor rows);

  [[nodiscard]] TensorSpec sample_spec() const override { return spec_; }
  [[nodiscard]] std::int64_t row_count() const override { return rows_.shape()[0]; }
  void read(std::span<const std::int64_t> rows, std::span<std::byte> out) override;

 private:
  Tensor rows_;
  TensorSpec spec_;
};

}  // namespace harmonics::inline in_data
