// Samples changed by a function of the user.
#pragma once

#include <cstdint>
#include <functional>

#include <harmonics/data/chained_producer.h>

namespace harmonics::inline in_data {

/// Makes a new tensor from one; must not change what it is given.
using MapFunction = std::function<Tensor(const Tensor&)>;

/// Yields `function` of every tensor of its source. `output` is what the function makes of a
/// sample; over a source of batches it gets whole batches and keeps their leading axis. The same
/// input must always give the same output, or resuming is not exact. A result of another shape or
/// dtype is an Error; that and whatever the function throws leaves the producer where it was.
class MapProducer final : public ChainedProducer {
 public:
  MapProducer(ProducerPtr source, MapFunction function, TensorSpec output);

  [[nodiscard]] TensorSpec sample_spec() const override { return output_; }
  [[nodiscard]] std::optional<Tensor> next() override;

 private:
  MapFunction function_;
  TensorSpec output_;
};

/// The same over an indexed source, and indexed itself: it can be shuffled as a whole, split and
/// cached. The function may be called from several threads at once.
class IndexedMapProducer final : public IndexedProducer {
 public:
  IndexedMapProducer(IndexedProducerPtr source, MapFunction function, TensorSpec output);

  [[nodiscard]] TensorSpec sample_spec() const override { return output_; }
  [[nodiscard]] std::int64_t row_count() const override { return source_->row_count(); }
  void read(std::span<const std::int64_t> rows, std::span<std::byte> out) override;

 private:
  IndexedProducerPtr source_;
  MapFunction function_;
  TensorSpec output_;
};

}  // namespace harmonics::inline in_data
