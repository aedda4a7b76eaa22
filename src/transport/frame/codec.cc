#include "codec.h"

#include <zstd.h>

#include <cstring>
#include <memory>
#include <string>

#include <harmonics/base/error.h>

namespace harmonics::inline in_transport {
namespace {

constexpr int kLevel = 1;

// Regrouping works in blocks, so that the planes of a block stay in the cache.
constexpr std::size_t kBlockElements = 4096;

template <std::size_t kWidth>
void split_planes(const std::byte* from, std::size_t count, std::byte* to) {
  for (std::size_t begin = 0; begin < count; begin += kBlockElements) {
    const std::size_t end = std::min(count, begin + kBlockElements);
    for (std::size_t plane = 0; plane < kWidth; ++plane) {
      std::byte* out = to + plane * count;
      for (std::size_t i = begin; i < end; ++i) out[i] = from[i * kWidth + plane];
    }
  }
}

template <std::size_t kWidth>
void join_planes(const std::byte* from, std::size_t count, std::byte* to) {
  for (std::size_t begin = 0; begin < count; begin += kBlockElements) {
    const std::size_t end = std::min(count, begin + kBlockElements);
    for (std::size_t plane = 0; plane < kWidth; ++plane) {
      const std::byte* in = from + plane * count;
      for (std::size_t i = begin; i < end; ++i) to[i * kWidth + plane] = in[i];
    }
  }
}

void split(ByteSpan raw, std::size_t width, std::byte* to) {
  const std::size_t count = raw.size() / width;
  switch (width) {
    case 2: split_planes<2>(raw.data(), count, to); break;
    case 4: split_planes<4>(raw.data(), count, to); break;
    case 8: split_planes<8>(raw.data(), count, to); break;
    default: std::memcpy(to, raw.data(), raw.size());
  }
}

void join(const std::byte* from, std::size_t width, std::span<std::byte> raw) {
  const std::size_t count = raw.size() / width;
  switch (width) {
    case 2: join_planes<2>(from, count, raw.data()); break;
    case 4: join_planes<4>(from, count, raw.data()); break;
    case 8: join_planes<8>(from, count, raw.data()); break;
    default: std::memcpy(raw.data(), from, raw.size());
  }
}

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

// Making a context costs more than compressing a small tensor: one per thread, kept.
ZSTD_CCtx* compressor() {
  thread_local const std::unique_ptr<ZSTD_CCtx, FreeContext> context(ZSTD_createCCtx());
  if (!context) fail(ErrorCode::kResourceExhausted, "out of memory for a zstd context");
  return context.get();
}
ZSTD_DCtx* decompressor() {
  thread_local const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  if (!context) fail(ErrorCode::kResourceExhausted, "out of memory for a zstd context");
  return context.get();
}

}  // namespace

std::optional<Packed> pack(ByteSpan raw, std::size_t element_bytes) {
  if (raw.empty()) return std::nullopt;
  const BufferPtr planes = BufferPool::shared().take(raw.size());
  split(raw, element_bytes, planes->data());
  BufferPtr out = BufferPool::shared().take(raw.size());
  const std::size_t size =
      ZSTD_compressCCtx(compressor(), out->data(), out->size(), planes->data(), raw.size(), kLevel);
  // An error here means that the result would not fit, that is, would not be smaller.
  if (ZSTD_isError(size) != 0 || size >= raw.size()) return std::nullopt;
  return Packed{std::move(out), size};
}

void unpack(ByteSpan packed, std::size_t element_bytes, std::span<std::byte> raw) {
  const BufferPtr planes = BufferPool::shared().take(raw.size());
  const std::size_t size =
      ZSTD_decompressDCtx(decompressor(), planes->data(), raw.size(), packed.data(), packed.size());
  if (ZSTD_isError(size) != 0) {
    fail(ErrorCode::kDataLoss, "a compressed tensor of {} bytes cannot be restored: {}",
         packed.size(), ZSTD_getErrorName(size));
  }
  if (size != raw.size()) {
    fail(ErrorCode::kDataLoss, "a compressed tensor holds {} bytes instead of {}", size,
         raw.size());
  }
  join(planes->data(), element_bytes, raw);
}

}  // namespace harmonics::inline in_transport
