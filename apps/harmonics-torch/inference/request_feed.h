// How batches of requests get to a part in a process of its own: the other way of its results.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <harmonics/base/stop.h>
#include <harmonics/graph/graph.h>
#include <harmonics/schedule/stream.h>
#include <harmonics/serve/inference_service.h>
#include <harmonics/transport/binding.h>
#include <harmonics/transport/transport.h>

namespace harmonics::inline in_torch_program {

/// Sends the batches of a service to one part, on a thread of its own, until the service is
/// drained. Destroying it ends the thread. What goes wrong shows at the part: it ends.
class RequestFeed {
 public:
  struct Place {
    std::vector<std::string> inputs;
    RemoteBinding binding;
    /// The first batch.
    std::int64_t first = 0;
    /// For sending one.
    Nanoseconds patience{};
  };
  /// `service` must outlive it.
  RequestFeed(InferenceService& service, Place place, TransportOptions options);
  ~RequestFeed();
  RequestFeed(const RequestFeed&) = delete;
  RequestFeed& operator=(const RequestFeed&) = delete;

 private:
  void send(const std::stop_token& stop);

  InferenceService& service_;
  const Place place_;
  const StopRequestPtr stop_ = std::make_shared<StopRequest>();
  TransportPtr end_;
  std::jthread thread_;
};

/// In the part: a producer for each input that requests bring, from the other end.
[[nodiscard]] NamedProducers fed_producers(const HarmonicGraph& part, TransportPtr end,
                                           Nanoseconds patience);

}  // namespace harmonics::inline in_torch_program
