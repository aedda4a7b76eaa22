// Which process it is, so that one that died is told from one that got its number later.
#pragma once

#include <cstdint>

namespace harmonics::inline in_share {

/// A number, and when the process of that number started. All zero: nobody.
struct ProcessIdentity {
  std::int32_t pid = 0;
  std::uint64_t started = 0;
  bool operator==(const ProcessIdentity&) const = default;
  [[nodiscard]] bool nobody() const { return pid == 0; }
};

[[nodiscard]] ProcessIdentity this_process();

/// False once the process has ended, even if its parent has not fetched its exit status yet.
[[nodiscard]] bool is_alive(const ProcessIdentity& process);

}  // namespace harmonics::inline in_share
