// The requests of a service as producers of a stream.
//
//   learner.stream(service_producers(service, {"image"}), {}, options)
//
// with options.on_batch calling service.deliver(batch.number, batch.outputs).
#pragma once

#include <map>
#include <span>
#include <string>

#include <harmonics/data/producer.h>
#include <harmonics/serve/inference_service.h>

namespace harmonics::inline in_serve {

/// A producer for each of these inputs, with batches as they come; they end when the service was
/// drained. `service` must outlive them. An input that the model does not have is an Error.
[[nodiscard]] std::map<std::string, ProducerPtr, std::less<>> service_producers(
    InferenceService& service, std::span<const std::string> inputs);

}  // namespace harmonics::inline in_serve
