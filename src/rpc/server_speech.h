// What listens at an address, found out with one small connection (private to rpc).
#pragma once

#include <chrono>
#include <string>

namespace harmonics::inline in_rpc {

enum class Speech {
  kNothing,  ///< Nobody listens there, or nobody answers in time.
  kPlain,    ///< Whoever listens does not speak TLS.
  kTls,
};

/// Connects to "HOST:PORT", begins a TLS conversation and looks at the first byte that comes back.
/// Never throws; waits no longer than `patience`.
[[nodiscard]] Speech speech_of(const std::string& address, std::chrono::milliseconds patience);

}  // namespace harmonics::inline in_rpc
