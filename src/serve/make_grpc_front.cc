#include <harmonics/base/error.h>
#include <harmonics/serve/grpc_front.h>

namespace harmonics::inline in_serve {

// A stand-in: a program that links the part gets the part's own.
[[gnu::weak]] std::unique_ptr<GrpcFront> make_grpc_front(InferenceService& /*service*/,
                                                         const ListenAddress& /*address*/,
                                                         const FrontAccess& /*access*/) {
  fail(ErrorCode::kUnimplemented,
       "this program does not serve gRPC: build with HARMONICS_WITH_GRPC=ON (a program of yours "
       "links harmonics::serve_grpc), or serve HTTP with --listen");
}

}  // namespace harmonics::inline in_serve
