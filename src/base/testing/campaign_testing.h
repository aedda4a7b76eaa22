// For tests: how long a campaign goes on.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

namespace harmonics::inline in_base {

/// Whether campaigns run at full length (`make soak` sets HARMONICS_SOAK).
inline bool soaks() { return std::getenv("HARMONICS_SOAK") != nullptr; }

/// How many rounds a campaign has: a slice of it, or all of it.
inline std::uint64_t campaign(std::uint64_t slice, std::uint64_t full) {
  return soaks() ? full : slice;
}

/// The number in a variable of the environment, to bring a failure back or to choose a count.
inline std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoull(text);
}

}  // namespace harmonics::inline in_base
