// Payloads in shared memory: blocks that the sender fills and the receiver's tensors look into.
//
// Every block is a memory file of its own, passed once and used again and again, so blocks of any
// size come and go without fragmenting anything. Whether a block is taken stands in a word that
// both processes see: the sender sets it, the receiver clears it when its last tensor is gone.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <harmonics/base/bytes.h>
#include <harmonics/tensor/buffer.h>

#include "shm_region.h"

namespace harmonics::inline in_transport {

/// The most blocks of one direction: those in flight (kMaxShmMessages) and those that the receiver
/// holds (kMaxHeldBlocks), and some to spare.
inline constexpr std::size_t kMaxBlocks = 1024;
/// The most blocks that a receiver's tensors may keep; beyond, payloads are copied out.
inline constexpr std::size_t kMaxHeldBlocks = 512;

/// One word per block: 0 free, 1 taken.
using BlockWords = std::array<std::atomic<std::uint32_t>, kMaxBlocks>;

/// Names a block in a record of the ring.
struct BlockRef {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
};

/// What blocks may cost in all, in bytes.
struct BlockBudget {
  /// The window of the direction, which bounds both what is in flight and what tensors hold.
  std::uint64_t window = 0;
  std::uint64_t largest = 0;

  /// Blocks are up to twice as large as what lies in them.
  [[nodiscard]] std::uint64_t total() const { return 4 * window + 2 * largest + kSlack; }
  static constexpr std::uint64_t kSlack = std::uint64_t{1} << 20;
};

/// The sender's blocks. One thread at a time.
class BlockSender {
 public:
  /// `words` lies in `control`, which it keeps. Blocks are announced on `socket`.
  BlockSender(std::shared_ptr<ShmRegion> control, BlockWords& words, int socket,
              const BlockBudget& budget);

  /// Copies `bytes` into a free block, which is the receiver's from then on. No block left within
  /// the budget is an Error (kResourceExhausted): the peer never gives any back.
  [[nodiscard]] BlockRef fill(ByteSpan bytes);

  [[nodiscard]] std::uint64_t allocated_bytes() const { return allocated_; }

 private:
  struct Block {
    std::shared_ptr<ShmRegion> region;
    std::uint32_t generation = 0;
  };
  [[nodiscard]] std::size_t find_free(std::size_t bytes) const;
  [[nodiscard]] std::size_t make_block(std::size_t bytes);
  void evict(std::uint64_t wanted);
  [[nodiscard]] bool is_free(std::size_t index) const;

  std::shared_ptr<ShmRegion> control_;
  BlockWords& words_;
  int socket_;
  BlockBudget budget_;
  std::vector<Block> blocks_;
  std::uint64_t allocated_ = 0;
};

/// The receiver's view of the blocks. One thread; the buffers may be released anywhere.
class BlockReceiver {
 public:
  BlockReceiver(std::shared_ptr<ShmRegion> control, BlockWords& words, int socket,
                const BlockBudget& budget);

  /// The first `bytes` of a block as a buffer. While tensors hold few blocks it looks into the
  /// block and gives it back when it is released; otherwise it is a copy. A block that was never
  /// announced or is too small is an Error (kDataLoss).
  [[nodiscard]] BufferPtr open(const BlockRef& ref, std::size_t bytes);
  /// Reads announcements; kUnavailable when the peer is gone.
  void read_notices();

 private:
  struct Held;
  struct Block {
    std::shared_ptr<ShmRegion> region;
    std::uint32_t generation = 0;
  };

  std::shared_ptr<ShmRegion> control_;
  BlockWords& words_;
  int socket_;
  BlockBudget budget_;
  std::vector<Block> blocks_;
  std::shared_ptr<Held> held_;
};

}  // namespace harmonics::inline in_transport
