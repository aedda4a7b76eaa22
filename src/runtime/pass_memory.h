// Memory that passes use again (private to runtime).
//
// A pass makes tensors of megabytes and drops them moments later. Left to malloc, each is a fresh
// mapping whose pages the kernel must clear: up to a third of the time of an inference.
#pragma once

#include <cstddef>

namespace harmonics::inline in_runtime {

/// Tensors below this size come from libtorch's own allocator, as do all of them outside of passes.
inline constexpr std::size_t kLeastPassBlock = std::size_t{128} << 10;
/// What the process keeps for later passes at most; the block that has waited longest goes first.
inline constexpr std::size_t kMaxIdlePassBytes = std::size_t{128} << 20;

/// While one lives, large tensors that libtorch makes on this thread in main memory take blocks
/// that earlier ones gave back. They may outlive it and end on any thread. Any number may live at
/// once. With libtorch 2 nothing is changed: its allocators' interface differs by release.
class PassMemory {
 public:
  PassMemory();
  ~PassMemory();
  PassMemory(const PassMemory&) = delete;
  PassMemory& operator=(const PassMemory&) = delete;

  /// Bytes that wait for later passes, in the whole process.
  [[nodiscard]] static std::size_t idle_bytes();
};

}  // namespace harmonics::inline in_runtime
