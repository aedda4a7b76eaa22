// A task's output on its way from the worker through the server to a client (private to rpc).
#pragma once

#include <atomic>

#include <harmonics/rpc/service.h>

#include "conversion.h"

namespace harmonics::inline in_rpc {

/// A reactor that owns itself: asks `backend` where the output lies, reads it there and passes it
/// on, over TLS if the cluster speaks it. `readers` counts those under way, at most
/// kMaxOutputReaders.
struct RelayTerms {
  const std::optional<TlsFiles>& tls;
  std::atomic<int>& readers;
};
grpc::ServerWriteReactor<wire::LogChunk>* start_relay(ClusterBackend& backend, Viewer viewer,
                                                      const wire::LogRequest& request,
                                                      RelayTerms terms);
/// One that ends at once.
grpc::ServerWriteReactor<wire::LogChunk>* refused_relay(const grpc::Status& status);

}  // namespace harmonics::inline in_rpc
