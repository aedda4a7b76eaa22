// Data that Python binds to producers.
#pragma once

#include <map>
#include <string>

#include <nanobind/nanobind.h>

#include <harmonics/data/producer.h>
#include <harmonics/graph/graph.h>
#include <harmonics/schedule/training_data.h>

namespace harmonics::python {

/// Batches that an object of Python yields, one after another: `feed` has begin(name, epoch), which
/// goes to the start of an epoch, and next(name), the next array or None.
class FedProducer final : public Producer {
 public:
  struct Look {
    /// Of a sample; the batch in front is left out.
    TensorSpec sample;
    /// Batches in an epoch; nothing where nobody knows.
    std::optional<std::int64_t> batches;
  };
  FedProducer(nanobind::object feed, std::string name, Look look);
  ~FedProducer() override;

  [[nodiscard]] TensorSpec sample_spec() const override { return look_.sample; }
  [[nodiscard]] bool batched() const override { return true; }
  [[nodiscard]] std::optional<std::int64_t> size() const override { return look_.batches; }
  void begin_epoch(const SampleOrder& order) override;
  [[nodiscard]] std::optional<Tensor> next() override;
  [[nodiscard]] ProducerPosition position() const override { return position_; }

 private:
  nanobind::object feed_;
  const std::string name_;
  const Look look_;
  ProducerPosition position_;
};

/// A producer whose source may be another one from one fit to the next; a learner binds it once.
class ChangingProducer final : public Producer {
 public:
  explicit ChangingProducer(ProducerPtr source) : source_(std::move(source)) {}
  /// Samples of another kind are an Error that names `producer`.
  void change(ProducerPtr source, const std::string& producer);

  [[nodiscard]] TensorSpec sample_spec() const override { return source_->sample_spec(); }
  [[nodiscard]] bool batched() const override { return source_->batched(); }
  [[nodiscard]] std::optional<std::int64_t> size() const override { return source_->size(); }
  [[nodiscard]] std::optional<std::int64_t> sample_count() const override {
    return source_->sample_count();
  }
  void begin_epoch(const SampleOrder& order) override { source_->begin_epoch(order); }
  [[nodiscard]] std::optional<Tensor> next() override { return source_->next(); }
  [[nodiscard]] std::int64_t next_rows(std::int64_t count, std::span<std::byte> out) override {
    return source_->next_rows(count, out);
  }
  [[nodiscard]] std::vector<std::int64_t> lengths_ahead(std::int64_t count) override {
    return source_->lengths_ahead(count);
  }
  void skip(std::int64_t count) override { source_->skip(count); }
  [[nodiscard]] ProducerPosition position() const override { return source_->position(); }

 private:
  ProducerPtr source_;
};

/// The data of some producers: rows that can be read in any order, and batches that Python yields.
struct GivenData {
  NamedSources rows;
  NamedProducers fed;

  [[nodiscard]] bool empty() const { return rows.empty() && fed.empty(); }
  /// Shape and dtype of the samples, by producer.
  [[nodiscard]] std::map<std::string, TensorSpec> specs() const;
};

/// Reads a dict of producers' names and arrays (shared where they have the declared dtype), texts
/// such as "csv:PATH?columns=0-63", or feeds. A name that is no producer is an Error that lists
/// them.
[[nodiscard]] GivenData given_data(const HarmonicGraph& graph, const nanobind::dict& data);

}  // namespace harmonics::python
