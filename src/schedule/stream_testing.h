// For tests: what left a graph in a stream, and what one process makes of the same data.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <harmonics/graph/harp.h>

#include "remote/remote_testing.h"

namespace harmonics::inline in_schedule {

/// What left the graph, by consumer, batch by batch.
using Rows = std::map<std::string, std::vector<std::string>>;

inline std::string bits(const Tensor& tensor) { return weights_digest({{"rows", tensor}}); }

/// Writes down bits, checks the order by count, and may fail at a batch.
class Recorder final : public Consumer {
 public:
  explicit Recorder(std::vector<std::string>& to, std::int64_t fails_at = -1)
      : to_(to), fails_at_(fails_at) {}
  void push(const Tensor& batch) override {
    if (static_cast<std::int64_t>(to_.size()) == fails_at_) {
      fails_at_ = -1;
      fail(ErrorCode::kResourceExhausted, "the disk is full");
    }
    to_.push_back(bits(batch));
  }
  void finish() override { finished_ = true; }
  [[nodiscard]] bool finished() const { return finished_; }

 private:
  std::vector<std::string>& to_;
  std::int64_t fails_at_;
  bool finished_ = false;
};

using DataOf = std::function<ProducerPtr(const ProducerNode&)>;

inline NamedProducers data_of(const HarmonicGraph& part, const DataOf& data) {
  NamedProducers all;
  for (const ProducerNode& node : part.producers()) {
    if (!is_boundary_name(node.name)) all.emplace(node.name, data(node));
  }
  return all;
}

inline NamedConsumers recorders(const HarmonicGraph& part, Rows& rows) {
  NamedConsumers all;
  for (const ConsumerNode& node : part.consumers()) {
    if (is_boundary_name(node.name)) continue;
    all.emplace(node.name, std::make_shared<Recorder>(rows[node.name]));
  }
  return all;
}

inline ProducerPtr plain_data(const ProducerNode& node) { return test_data(node); }

/// One batch at a time in one process.
inline Rows alone(const HarmonicGraph& graph, const DataOf& data = plain_data) {
  CycleRuntime runtime(graph, test_runtime());
  const NamedProducers producers = data_of(graph, data);
  for (const auto& [name, producer] : producers) producer->begin_epoch({test_runtime().seed, 0});
  Rows rows;
  for (;;) {
    NamedTensors batch;
    for (const auto& [name, producer] : producers) {
      if (auto tensor = producer->next()) batch.emplace(name, *tensor);
    }
    if (batch.empty()) return rows;
    for (const auto& [name, tensor] : runtime.infer(batch)) rows[name].push_back(bits(tensor));
  }
}

inline RemoteBinding somewhere(RemoteTransport transport) {
  RemoteBinding binding;
  binding.host = "127.0.0.1";
  binding.port = reserved_port();
  binding.transport = transport;
  return binding;
}

/// A graph whose outputs leave in several parts, with a skip over one of them.
inline HarmonicGraph two_outputs() {
  return parse_harp(R"(
    producer image {64};
    consumer early;
    consumer late;
    layer a linear(32);
    layer b linear(32);
    layer c linear(32);
    layer s add;
    layer d linear(10);
    cycle {
      image -(relu)-> a -(relu)-> b -> c;
      a -> early;
      a, c -> s -> d -> late;
    })");
}

}  // namespace harmonics::inline in_schedule
