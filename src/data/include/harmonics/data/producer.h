// Producer and Consumer: where tensors come from and go to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <harmonics/tensor/tensor.h>

namespace harmonics::inline in_data {

/// The one sample order of a run: every producer that shuffles or draws at random derives its order
/// from this and from nothing else, so that inputs and labels that are bound side by side never
/// part.
struct SampleOrder {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  bool operator==(const SampleOrder&) const = default;
};

/// Where a producer stands: after `delivered` tensors of the epoch `order`.
struct ProducerPosition {
  SampleOrder order;
  std::int64_t delivered = 0;
  bool operator==(const ProducerPosition&) const = default;
};

/// A source of tensors. One thread at a time. A producer starts in epoch 0 of seed 0.
class Producer {
 public:
  virtual ~Producer() = default;

  /// Shape (without a batch axis) and dtype of every sample.
  [[nodiscard]] virtual TensorSpec sample_spec() const = 0;
  /// True when next() yields a leading batch axis.
  [[nodiscard]] virtual bool batched() const { return false; }
  /// How many tensors next() yields in one epoch; nothing for an endless source.
  [[nodiscard]] virtual std::optional<std::int64_t> size() const = 0;
  /// How many samples (rows) one epoch holds; nothing for an endless source.
  [[nodiscard]] virtual std::optional<std::int64_t> sample_count() const { return size(); }

  /// Goes to the start of an epoch.
  virtual void begin_epoch(const SampleOrder& order) = 0;
  /// The next sample or batch; nothing at the end of the epoch. A read error is an Error and leaves
  /// the producer where it was.
  [[nodiscard]] virtual std::optional<Tensor> next() = 0;
  /// Copies the next `count` samples one after another into `out`, which has exactly the room, and
  /// answers how many there were: fewer only at the end of the epoch. Fills batches without a
  /// tensor per sample. Not for a batched producer. Like next(), an Error leaves the producer where
  /// it was.
  [[nodiscard]] virtual std::int64_t next_rows(std::int64_t count, std::span<std::byte> out);
  /// How far each of the next `count` samples (fewer at the end of the epoch) fills its first axis;
  /// from there on a sample is padding. Nothing where all samples are whole. Does not move.
  [[nodiscard]] virtual std::vector<std::int64_t> lengths_ahead(std::int64_t count);
  /// Passes over the next `count` tensors (fewer at the end of the epoch) without making them.
  virtual void skip(std::int64_t count);

  /// Where the producer stands, and going back there: the next tensor after `seek(position())` is
  /// the very one that next() would have given. A position past the end of the epoch is an Error:
  /// the data is not what it was when the position was saved.
  [[nodiscard]] virtual ProducerPosition position() const = 0;
  void seek(const ProducerPosition& position);
};

/// A producer whose samples can be read in any order, the same in every epoch. `read`, `row_count`
/// and `sample_spec` may be called from several threads at once (the two sides of a split share
/// their source); the sequential members belong to one thread at a time.
class IndexedProducer : public Producer {
 public:
  /// Copies the samples of these rows, one after another, into `out`, which has exactly the room.
  /// A row outside 0..size()-1 is an Error.
  virtual void read(std::span<const std::int64_t> rows, std::span<std::byte> out) = 0;

  /// For samples of unequal length, such as texts: how far each of these rows fills its first axis,
  /// 1 to the extent that sample_spec() says; `read` fills the rest with zeros, or with what marks
  /// padding in this source. Nothing where all samples are whole.
  [[nodiscard]] virtual std::vector<std::int64_t> row_lengths(std::span<const std::int64_t> rows);

  [[nodiscard]] std::optional<std::int64_t> size() const final { return row_count(); }
  [[nodiscard]] virtual std::int64_t row_count() const = 0;

  // Sequential reading, in row order, on top of `read`.
  void begin_epoch(const SampleOrder& order) override;
  [[nodiscard]] std::optional<Tensor> next() override;
  [[nodiscard]] std::int64_t next_rows(std::int64_t count, std::span<std::byte> out) override;
  [[nodiscard]] std::vector<std::int64_t> lengths_ahead(std::int64_t count) override;
  void skip(std::int64_t count) override;
  [[nodiscard]] ProducerPosition position() const override { return position_; }

 protected:
  /// Reads the rows first..first+count-1, which exist, for the sequential members. A source that
  /// can read ahead overrides it; here it calls `read`.
  virtual void read_run(std::int64_t first, std::int64_t count, std::span<std::byte> out);
  /// Throws an Error unless every row exists and `out` has exactly the room for them.
  void check_read(std::span<const std::int64_t> rows, std::span<std::byte> out) const;

 private:
  ProducerPosition position_;
};

/// Where tensors go. One thread at a time.
class Consumer {
 public:
  virtual ~Consumer() = default;
  /// Takes one batch, with its leading batch axis.
  virtual void push(const Tensor& batch) = 0;
  /// Everything has been pushed: makes it final (a file appears). Pushing afterwards is an Error.
  virtual void finish() {}
};

/// Bytes of one sample of that shape and dtype.
[[nodiscard]] std::size_t sample_bytes(const TensorSpec& spec);

using ProducerPtr = std::shared_ptr<Producer>;
using IndexedProducerPtr = std::shared_ptr<IndexedProducer>;
using ConsumerPtr = std::shared_ptr<Consumer>;

}  // namespace harmonics::inline in_data
