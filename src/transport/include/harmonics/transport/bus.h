// The transport inside one process.
#pragma once

#include <string>
#include <utility>

#include <harmonics/transport/transport.h>

namespace harmonics::inline in_transport {

/// The two ends of a boundary inside this process. A message is handed over as it is: the receiver
/// gets the very tensor that was sent, on any device, and no byte is copied. Otherwise the ends
/// behave as Transport says; either may outlive the other.
[[nodiscard]] std::pair<TransportPtr, TransportPtr> make_bus(const std::string& name,
                                                             Window window = {});

}  // namespace harmonics::inline in_transport
