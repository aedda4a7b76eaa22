// GrpcFront: the Open Inference Protocol (version 2) over gRPC, in front of a service.
#pragma once

#include <cstdint>
#include <memory>

#include <harmonics/serve/inference_service.h>
#include <harmonics/serve/listen_address.h>

namespace harmonics::inline in_serve {

/// Answers the calls of proto/inference/open_inference.proto from its making on. Whether the server
/// lives and is ready needs no token.
class GrpcFront {
 public:
  /// Ends the service, and gives those who asked kFarewell to take their answers.
  virtual ~GrpcFront() = default;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
};

/// An Error when it cannot listen there, or (kUnimplemented) in a program that does not link
/// harmonics::serve_grpc. `service` must outlive it.
[[nodiscard]] std::unique_ptr<GrpcFront> make_grpc_front(InferenceService& service,
                                                         const ListenAddress& address,
                                                         const FrontAccess& access);

}  // namespace harmonics::inline in_serve
