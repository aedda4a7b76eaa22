// A worker's session as a call (private to rpc).
#pragma once

#include <atomic>

#include <harmonics/rpc/service.h>

#include "conversion.h"

namespace harmonics::inline in_rpc {

/// A reactor that owns itself. With a bad `verdict` it ends at once; else it counts among
/// `sessions`, which must outlive it, while it lasts.
grpc::ServerBidiReactor<wire::WorkerFrame, wire::ServerFrame>* start_session(
    ClusterBackend& backend, RequestId connection, const grpc::Status& verdict,
    std::atomic<std::uint64_t>& sessions);

}  // namespace harmonics::inline in_rpc
