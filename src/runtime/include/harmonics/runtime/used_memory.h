// What large tensors of passes take in main memory: they lie in blocks of their own, which malloc
// does not count.
#pragma once

#include <cstddef>

namespace harmonics::inline in_runtime {

/// Bytes of the whole process.
struct UsedPassMemory {
  std::size_t now = 0;
  /// The most since it was last forgotten.
  std::size_t most = 0;
};

/// Counted at every block; any thread. Blocks that wait for later passes are not in it. With
/// libtorch 2, whose tensors malloc counts, both are 0.
[[nodiscard]] UsedPassMemory used_pass_memory(bool forget_most = false);

}  // namespace harmonics::inline in_runtime
