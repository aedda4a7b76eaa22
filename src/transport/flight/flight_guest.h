// Flight clients that know nothing of Harmonics. Only the flight_*.cc files include this.
#pragma once

#include <arrow/flight/server.h>

#include <string>

#include "reception.h"

namespace harmonics::inline in_transport {

/// What a guest asked for.
struct GuestWish {
  std::string boundary;
  std::string run;
  std::string token;
  std::string peer;
  /// Of the call.
  const arrow::flight::ServerCallContext& context;
};

/// Makes the guest the other end of a boundary of this process, over a socket pair, until it
/// leaves: record batches in and out, as docs/guides/transports.md says. Runs on the thread of the
/// handler. A guest that ends its writes closes the boundary, one that just goes abandons it.
[[nodiscard]] arrow::Status serve_guest(Reception& reception, const GuestWish& wish,
                                        arrow::flight::FlightMessageReader& reader,
                                        arrow::flight::FlightMessageWriter& writer);

}  // namespace harmonics::inline in_transport
