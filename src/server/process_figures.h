// What the system says about this process (private to server).
#pragma once

#include <cstdint>

namespace harmonics::inline in_server {

/// 0 where the system does not say.
struct ProcessFigures {
  double cpu_s = 0;
  double started_s = 0;  ///< Since 1970.
  std::uint64_t resident_bytes = 0;
  std::uint64_t virtual_bytes = 0;
  std::uint64_t descriptors = 0;
  std::uint64_t max_descriptors = 0;
};

[[nodiscard]] ProcessFigures process_figures();

}  // namespace harmonics::inline in_server
