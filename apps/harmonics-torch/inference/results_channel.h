// How the outputs of a part get to the process that started it: one tensor a message for each
// consumer of the part, then one that completes the batch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <harmonics/graph/graph.h>
#include <harmonics/schedule/stream.h>
#include <harmonics/transport/transport.h>

namespace harmonics::inline in_torch_program {

/// The consumers of a part where tensors leave the graph, in order.
[[nodiscard]] std::vector<std::string> outputs_of(const HarmonicGraph& part);

/// The end of the part. One thread at a time; every wait ends after `patience`.
class ResultsSender {
 public:
  ResultsSender(const HarmonicGraph& part, TransportPtr end, Nanoseconds patience)
      : ResultsSender(outputs_of(part), std::move(end), patience) {}
  /// Sends tensors of these names: outputs, or inputs the other way.
  ResultsSender(std::vector<std::string> names, TransportPtr end, Nanoseconds patience)
      : names_(std::move(names)), end_(std::move(end)), patience_(patience) {}
  void send(const StreamedBatch& batch);
  /// All was sent: waits until the other end has it.
  void close();

 private:
  const std::vector<std::string> names_;
  const TransportPtr end_;
  const Nanoseconds patience_;
};

/// The other end. One thread.
class ResultsReceiver {
 public:
  ResultsReceiver(const HarmonicGraph& part, TransportPtr end)
      : ResultsReceiver(outputs_of(part), std::move(end)) {}
  ResultsReceiver(std::vector<std::string> names, TransportPtr end)
      : names_(std::move(names)), end_(std::move(end)) {}
  /// The next batch; nothing once the part has closed. Messages that make no sense are an Error.
  [[nodiscard]] std::optional<StreamedBatch> receive(Deadline deadline);

 private:
  const std::vector<std::string> names_;
  const TransportPtr end_;
};

}  // namespace harmonics::inline in_torch_program
