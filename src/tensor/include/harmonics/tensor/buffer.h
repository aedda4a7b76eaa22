// Memory under tensors: reference-counted blocks, aligned and pooled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace harmonics::inline in_tensor {

inline constexpr std::size_t kBufferAlignment = 64;

enum class DeviceKind : std::uint8_t { kCpu = 0, kCuda = 1 };

/// Where a buffer lies.
struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  std::int32_t index = 0;
  bool operator==(const Device&) const = default;
};

/// A block of memory with one owner count. The bytes of a buffer that is shared never change; only
/// the code that has just made it writes to it.
class Buffer {
 public:
  using Release = std::function<void()>;
  /// Wraps memory that someone else owns; `release` runs when the last user is gone.
  Buffer(void* data, std::size_t size, Device device, Release release);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] Device device() const { return device_; }

 private:
  std::byte* data_;
  std::size_t size_;
  Device device_;
  Release release_;
};

using BufferPtr = std::shared_ptr<Buffer>;

/// Hands out 64-byte aligned CPU buffers and keeps returned ones for reuse, in size classes of
/// powers of two. Keeps at most `keep_limit_bytes`; what comes back beyond that is freed. Thread
/// safe. Buffers may outlive the pool.
class BufferPool {
 public:
  explicit BufferPool(std::size_t keep_limit_bytes = std::size_t{1} << 30);

  /// A buffer of at least `size` bytes (its size() is exactly `size`), not cleared. Out of memory
  /// is an Error (kResourceExhausted) that names the size.
  [[nodiscard]] BufferPtr take(std::size_t size);

  [[nodiscard]] std::size_t kept_bytes() const;
  /// How many of the buffers handed out came from the kept ones.
  [[nodiscard]] std::uint64_t reuse_count() const;

  /// The process-wide pool that Tensor::empty uses.
  static BufferPool& shared();

 private:
  struct Shelves;
  std::shared_ptr<Shelves> shelves_;
};

}  // namespace harmonics::inline in_tensor
