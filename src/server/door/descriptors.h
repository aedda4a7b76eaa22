// How many files this process may open (private to server).
#pragma once

#include <cstdint>

namespace harmonics::inline in_server {

/// More than any server has connections; beyond it a limit is no help.
inline constexpr std::uint64_t kMaxDescriptors = 1 << 20;

/// Raises the soft limit to the hard one, up to kMaxDescriptors; the limit from now on.
std::uint64_t raise_descriptor_limit();

}  // namespace harmonics::inline in_server
