#include "shm_blocks.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include <harmonics/base/error.h>

namespace harmonics::inline in_transport {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kBlockUnit = std::size_t{64} << 10;
// The peer's I/O thread reads announcements as they are needed; one that does not is gone.
constexpr auto kNoticeTimeout = std::chrono::seconds(10);

std::size_t rounded(std::size_t bytes) {
  return std::max(kBlockUnit, (bytes + kBlockUnit - 1) / kBlockUnit * kBlockUnit);
}

}  // namespace

BlockSender::BlockSender(std::shared_ptr<ShmRegion> control, BlockWords& words, int socket,
                         const BlockBudget& budget)
    : control_(std::move(control)), words_(words), socket_(socket), budget_(budget) {}

bool BlockSender::is_free(std::size_t index) const {
  return blocks_[index].region && words_[index].load(std::memory_order_acquire) == 0;
}

// The smallest that fits without wasting more than half; the first of those, whose pages are warm.
std::size_t BlockSender::find_free(std::size_t bytes) const {
  std::size_t best = kNone;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (!is_free(i)) continue;
    const std::size_t size = blocks_[i].region->size();
    if (size < bytes || size > 2 * rounded(bytes)) continue;
    if (best == kNone || size < blocks_[best].region->size()) best = i;
  }
  return best;
}

void BlockSender::evict(std::uint64_t wanted) {
  for (std::size_t i = 0; i < blocks_.size() && allocated_ + wanted > budget_.total(); ++i) {
    if (!is_free(i)) continue;
    allocated_ -= blocks_[i].region->size();
    blocks_[i].region.reset();
    ++blocks_[i].generation;
    send_notice(socket_, {static_cast<std::uint32_t>(i), blocks_[i].generation, 0}, -1,
                deadline_in(kNoticeTimeout));
  }
}

std::size_t BlockSender::make_block(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  evict(size);
  std::size_t index = 0;
  while (index < blocks_.size() && blocks_[index].region) ++index;
  if (allocated_ + size > budget_.total() || index == kMaxBlocks) {
    fail(ErrorCode::kResourceExhausted,
         "{} bytes of shared memory in {} blocks are taken and the peer gives none back",
         allocated_, blocks_.size());
  }
  if (index == blocks_.size()) blocks_.emplace_back();
  Block& block = blocks_[index];
  block.region = ShmRegion::create(size);
  ++block.generation;
  allocated_ += size;
  send_notice(socket_, {static_cast<std::uint32_t>(index), block.generation, size},
              block.region->fd(), deadline_in(kNoticeTimeout));
  return index;
}

BlockRef BlockSender::fill(ByteSpan bytes) {
  std::size_t index = find_free(bytes.size());
  if (index == kNone) index = make_block(bytes.size());
  Block& block = blocks_[index];
  std::memcpy(block.region->data(), bytes.data(), bytes.size());
  words_[index].store(1, std::memory_order_release);
  return {static_cast<std::uint32_t>(index), block.generation};
}

// What tensors of this receiver keep of the blocks.
struct BlockReceiver::Held {
  std::atomic<std::uint64_t> bytes = 0;
  std::atomic<std::size_t> blocks = 0;
};

BlockReceiver::BlockReceiver(std::shared_ptr<ShmRegion> control, BlockWords& words, int socket,
                             const BlockBudget& budget)
    : control_(std::move(control)),
      words_(words),
      socket_(socket),
      budget_(budget),
      blocks_(kMaxBlocks),
      held_(std::make_shared<Held>()) {}

void BlockReceiver::read_notices() {
  while (std::optional<ReceivedNotice> received = receive_notice(socket_)) {
    const ShmNotice& notice = received->notice;
    if (notice.index >= kMaxBlocks || notice.bytes > budget_.total()) {
      fail(ErrorCode::kDataLoss, "the peer announced block {} of {} bytes", notice.index,
           notice.bytes);
    }
    Block& block = blocks_[notice.index];
    block.generation = notice.generation;
    block.region.reset();
    if (notice.bytes > 0) block.region = ShmRegion::map(std::move(received->file), notice.bytes);
  }
}

BufferPtr BlockReceiver::open(const BlockRef& ref, std::size_t bytes) {
  if (ref.index >= kMaxBlocks) fail(ErrorCode::kDataLoss, "there is no block {}", ref.index);
  Block& block = blocks_[ref.index];
  if (!block.region || block.generation != ref.generation) read_notices();
  if (!block.region || block.generation != ref.generation || block.region->size() < bytes) {
    fail(ErrorCode::kDataLoss, "the peer uses block {} without having announced it", ref.index);
  }
  std::atomic<std::uint32_t>& word = words_[ref.index];
  const std::uint64_t size = block.region->size();
  if (held_->blocks >= kMaxHeldBlocks || held_->bytes + bytes > budget_.window) {
    BufferPtr copy = BufferPool::shared().take(bytes);
    std::memcpy(copy->data(), block.region->data(), bytes);
    word.store(0, std::memory_order_release);
    return copy;
  }
  ++held_->blocks;
  held_->bytes += size;
  return std::make_shared<Buffer>(
      block.region->data(), bytes, Device{},
      [region = block.region, control = control_, held = held_, &word, size] {
        held->bytes -= size;
        --held->blocks;
        word.store(0, std::memory_order_release);
      });
}

}  // namespace harmonics::inline in_transport
