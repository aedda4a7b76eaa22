#include "pass_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>
#include <torch/version.h>

#include <harmonics/runtime/used_memory.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <mutex>
#include <unordered_map>

namespace harmonics::inline in_runtime {

#if TORCH_VERSION_MAJOR < 2
namespace {

/// Blocks begin on a page, so that the address of most others says that they are none.
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

thread_local int passes_here = 0;

// An eighth of a power of two: at most an eighth of a block is unused, and its pages untouched.
std::size_t block_bytes(std::size_t wanted) {
  const std::size_t step = std::bit_floor(wanted) / 8;
  return (wanted + step - 1) / step * step;
}

std::byte* mapped(std::size_t bytes) {
  void* const begin =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  TORCH_CHECK(begin != MAP_FAILED, "out of memory: no ", bytes, " bytes for a tensor");
  return static_cast<std::byte*>(begin);
}

// Large ones begin where a huge page may, and ask for them: fewer pages to look up while weights
// and images stream by.
void* new_block(std::size_t bytes) {
  if (bytes < kHugePageBytes) return mapped(bytes);
  std::byte* const begin = mapped(bytes + kHugePageBytes);
  const std::size_t over = reinterpret_cast<std::uintptr_t>(begin) % kHugePageBytes;
  const std::size_t before = over == 0 ? 0 : kHugePageBytes - over;
  if (before > 0) ::munmap(begin, before);
  ::munmap(begin + before + bytes, kHugePageBytes - before);
  ::madvise(begin + before, bytes, MADV_HUGEPAGE);
  return begin + before;
}

/// The blocks of the process, in use or idle. Any thread.
class PassBlocks {
 public:
  void* take(std::size_t wanted) {
    const std::size_t bytes = block_bytes(wanted);
    const std::lock_guard lock(mutex_);
    auto& waiting = idle_[bytes];
    if (!waiting.empty()) {
      const auto place = waiting.back();
      waiting.pop_back();
      void* block = place->block;
      by_age_.erase(place);
      idle_bytes_ -= bytes;
      use(block, bytes);
      return block;
    }
    void* block = new_block(bytes);
    use(block, bytes);
    return block;
  }

  /// False for memory that came from elsewhere.
  bool give_back(void* block) {
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.find(block);
    if (found == sizes_.end()) return false;
    const std::size_t bytes = found->second;
    sizes_.erase(found);
    used_.now -= bytes;
    by_age_.push_back({block, bytes});
    idle_[bytes].push_back(std::prev(by_age_.end()));
    idle_bytes_ += bytes;
    while (idle_bytes_ > kMaxIdlePassBytes) drop_oldest();
    return true;
  }

  std::size_t idle_bytes() {
    const std::lock_guard lock(mutex_);
    return idle_bytes_;
  }

  UsedPassMemory used(bool forget_most) {
    const std::lock_guard lock(mutex_);
    const UsedPassMemory used = used_;
    if (forget_most) used_.most = used_.now;
    return used;
  }

 private:
  struct Idle {
    void* block = nullptr;
    std::size_t bytes = 0;
  };

  void use(void* block, std::size_t bytes) {
    sizes_[block] = bytes;
    used_.now += bytes;
    used_.most = std::max(used_.most, used_.now);
  }

  void drop_oldest() {
    const Idle oldest = by_age_.front();
    // Of one size the oldest waits first.
    auto& waiting = idle_[oldest.bytes];
    waiting.pop_front();
    if (waiting.empty()) idle_.erase(oldest.bytes);
    by_age_.pop_front();
    idle_bytes_ -= oldest.bytes;
    ::munmap(oldest.block, oldest.bytes);
  }

  std::mutex mutex_;
  std::unordered_map<void*, std::size_t> sizes_;  // of blocks in use
  std::list<Idle> by_age_;
  std::unordered_map<std::size_t, std::list<std::list<Idle>::iterator>> idle_;  // by size
  std::size_t idle_bytes_ = 0;
  UsedPassMemory used_;
};

// Never destroyed: tensors of static objects end after it would be.
PassBlocks& pass_blocks() {
  static auto* const kBlocks = new PassBlocks;
  return *kBlocks;
}

void end_tensor(void* data) {
  if (data == nullptr) return;
  if (reinterpret_cast<std::uintptr_t>(data) % kPageBytes == 0 && pass_blocks().give_back(data)) {
    return;
  }
  c10::GetDefaultCPUAllocator()->raw_deleter()(data);
}

/// libtorch's own, but for large tensors of passes.
class PassAllocator final : public c10::Allocator {
 public:
  [[nodiscard]] c10::DataPtr allocate(std::size_t bytes) const override {
    if (passes_here == 0 || bytes < kLeastPassBlock) {
      return c10::GetDefaultCPUAllocator()->allocate(bytes);
    }
    void* data = pass_blocks().take(bytes);
    return {data, data, &end_tensor, c10::Device(c10::DeviceType::CPU)};
  }
  // For memory that libtorch allocated raw, here or before this was its allocator.
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &end_tensor; }
};

void use_pass_allocator() {
  static std::once_flag once;
  std::call_once(once, [] {
    static auto* const kAllocator = new PassAllocator;
    c10::SetCPUAllocator(kAllocator);
  });
}

}  // namespace

PassMemory::PassMemory() {
  use_pass_allocator();
  ++passes_here;
}
PassMemory::~PassMemory() { --passes_here; }

std::size_t PassMemory::idle_bytes() { return pass_blocks().idle_bytes(); }

UsedPassMemory used_pass_memory(bool forget_most) { return pass_blocks().used(forget_most); }

#else

PassMemory::PassMemory() = default;
PassMemory::~PassMemory() = default;
std::size_t PassMemory::idle_bytes() { return 0; }
UsedPassMemory used_pass_memory(bool) { return {}; }

#endif

}  // namespace harmonics::inline in_runtime
