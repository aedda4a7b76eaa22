// For tests: everything that carries a boundary.
#pragma once

#include <unistd.h>

#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/transport/bus.h>
#include <harmonics/transport/transport.h>

namespace harmonics::inline in_transport {

/// True when this build has the transport.
inline bool is_built(RemoteTransport transport) {
  try {
    RemoteBinding binding{"probe", "127.0.0.1", 0, transport};
    binding.listen = true;
    static_cast<void>(make_transport(binding));
    return true;
  } catch (const Error& error) {
    return error.code() != ErrorCode::kUnimplemented;
  }
}

struct Carrier {
  std::string name;
  std::optional<RemoteTransport> transport;  ///< None: a bus.
  bool compress = false;

  [[nodiscard]] bool is_here() const { return !transport || is_built(*transport); }
};

/// The bus, and every transport plain and compressed, whether this build has it or not.
inline std::vector<Carrier> carriers() {
  std::vector<Carrier> all = {{"bus", std::nullopt}};
  for (const auto& [transport, name] : kRemoteTransports) {
    all.push_back({std::string(name), transport, false});
    all.push_back({std::string(name) + "_compressed", transport, true});
  }
  return all;
}

/// The two ends of a boundary in this process, on a meeting place of their own.
inline std::pair<TransportPtr, TransportPtr> connected_ends(const Carrier& carrier,
                                                            const std::string& boundary) {
  if (!carrier.transport) return make_bus(boundary);
  RemoteBinding binding{boundary, "127.0.0.1", 0, *carrier.transport, carrier.compress};
  if (carrier.transport == RemoteTransport::SharedMemory) {
    static std::atomic<int> number = 0;
    binding.name = format("carried.{}.{}.{}", ::getpid(), number++, boundary);
    binding.port = 1;
    TransportPtr first = make_transport(binding);
    return {std::move(first), make_transport(binding)};
  }
  binding.listen = true;
  TransportPtr first = make_transport(binding);
  binding.port = first->binding().port;
  binding.listen = false;
  return {std::move(first), make_transport(binding)};
}

}  // namespace harmonics::inline in_transport
