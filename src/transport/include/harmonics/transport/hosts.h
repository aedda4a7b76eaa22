// Names of hosts that no name service knows.
#pragma once

#include <string>

namespace harmonics::inline in_transport {

/// The most aliases that a process may have.
inline constexpr std::size_t kMaxHostAliases = 1024;

/// From now on the transports of this process take `name` for `address` (an IP address or another
/// name); an empty address forgets the alias. The environment variable HARMONICS_HOSTS gives
/// aliases to a whole process: "hostA=127.0.0.1,hostB=10.0.0.7". Thread safe; too many aliases are
/// an Error (kResourceExhausted).
void set_host_alias(const std::string& name, const std::string& address);

}  // namespace harmonics::inline in_transport
