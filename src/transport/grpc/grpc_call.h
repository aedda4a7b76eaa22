// Both sides of a gRPC call that carries a boundary, and what they agree on. Only the grpc_*.cc
// files include this.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include "grpc_pipe.h"

namespace harmonics::inline in_transport {

/// The method that both sides know; every other one is unknown here.
inline constexpr const char* kGrpcMethod = "/harmonics.transport.Boundary/Link";

/// The calling side. Keeps itself alive until gRPC is done with it.
[[nodiscard]] GrpcPipePtr start_grpc_call(std::shared_ptr<grpc::Channel> channel, std::string peer);

/// The answering side, for a service that got a call. The reactor is the same object as the pipe
/// and keeps itself alive until gRPC is done with it.
struct AnsweredCall {
  GrpcPipePtr pipe;
  grpc::ServerGenericBidiReactor* reactor;
};
[[nodiscard]] AnsweredCall answer_grpc_call(grpc::GenericCallbackServerContext& context);

/// What gRPC says of the end of a call, as an Error of ours.
[[nodiscard]] Error grpc_error(const grpc::Status& status, const std::string& peer);

}  // namespace harmonics::inline in_transport
