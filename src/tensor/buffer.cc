#include <harmonics/tensor/buffer.h>

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include <harmonics/base/check.h>
#include <harmonics/base/error.h>

namespace harmonics::inline in_tensor {
namespace {

// Blocks of 2^0 to 2^47 bytes; the address space of a process ends there.
constexpr std::size_t kSizeClasses = 48;
// Blocks of several huge pages ask for those: the first touch of a block costs a fault for each
// page, and a copy or checksum a translation for each.
constexpr std::size_t kHugePage = std::size_t{2} << 20;

void* allocate(std::size_t bytes) {
  if (bytes < 2 * kHugePage) return std::aligned_alloc(kBufferAlignment, bytes);
  void* block = std::aligned_alloc(kHugePage, bytes);
  // Where there are none, ordinary pages serve as well.
  if (block != nullptr) (void)::madvise(block, bytes, MADV_HUGEPAGE);
  return block;
}

}  // namespace

Buffer::Buffer(void* data, std::size_t size, Device device, Release release)
    : data_(static_cast<std::byte*>(data)),
      size_(size),
      device_(device),
      release_(std::move(release)) {}

Buffer::~Buffer() {
  if (release_) release_();
}

struct BufferPool::Shelves {
  explicit Shelves(std::size_t limit) : keep_limit(limit) {}
  ~Shelves() {
    for (auto& shelf : shelves) {
      for (void* block : shelf) std::free(block);
    }
  }

  void* take(std::size_t size_class) {
    const std::lock_guard lock(mutex);
    auto& shelf = shelves[size_class];
    if (shelf.empty()) return nullptr;
    HARMONICS_CHECK(kept >= std::size_t{1} << size_class, "{} bytes are kept, a block has more",
                    kept);
    void* block = shelf.back();
    shelf.pop_back();
    kept -= std::size_t{1} << size_class;
    ++reused;
    return block;
  }

  void give_back(void* block, std::size_t size_class) {
    const std::size_t bytes = std::size_t{1} << size_class;
    {
      const std::lock_guard lock(mutex);
      if (kept + bytes <= keep_limit) {
        shelves[size_class].push_back(block);
        kept += bytes;
        return;
      }
    }
    std::free(block);
  }

  const std::size_t keep_limit;
  mutable std::mutex mutex;
  std::array<std::vector<void*>, kSizeClasses> shelves;
  std::size_t kept = 0;
  std::uint64_t reused = 0;
};

BufferPool::BufferPool(std::size_t keep_limit_bytes)
    : shelves_(std::make_shared<Shelves>(keep_limit_bytes)) {}

BufferPtr BufferPool::take(std::size_t size) {
  const auto size_class =
      static_cast<std::size_t>(std::bit_width(std::max(size, kBufferAlignment) - 1));
  void* block = nullptr;
  if (size_class < kSizeClasses) {
    block = shelves_->take(size_class);
    if (block == nullptr) {
      block = allocate(std::size_t{1} << size_class);
    }
  }
  if (block == nullptr) {
    fail(ErrorCode::kResourceExhausted, "out of memory: cannot allocate a tensor of {} bytes",
         size);
  }
  return std::make_shared<Buffer>(block, size, Device{}, [shelves = shelves_, block, size_class] {
    shelves->give_back(block, size_class);
  });
}

std::size_t BufferPool::kept_bytes() const {
  const std::lock_guard lock(shelves_->mutex);
  return shelves_->kept;
}

std::uint64_t BufferPool::reuse_count() const {
  const std::lock_guard lock(shelves_->mutex);
  return shelves_->reused;
}

BufferPool& BufferPool::shared() {
  static BufferPool pool;
  return pool;
}

}  // namespace harmonics::inline in_tensor
