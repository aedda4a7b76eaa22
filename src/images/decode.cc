#include <algorithm>
#include <array>

#include <harmonics/base/error.h>

#include "codecs.h"

namespace harmonics::inline in_images {
namespace {

template <std::size_t N>
bool begins_with(std::span<const std::byte> file, const std::array<std::uint8_t, N>& mark) {
  return file.size() >= N && std::ranges::equal(file.first(N), mark, {}, [](std::byte byte) {
           return std::to_integer<std::uint8_t>(byte);
         });
}

}  // namespace

bool is_png(std::span<const std::byte> file) {
  return begins_with<8>(file, {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'});
}

bool is_jpeg(std::span<const std::byte> file) { return begins_with<3>(file, {0xFF, 0xD8, 0xFF}); }

Image blank_image(std::int64_t width, std::int64_t height, std::string_view name) {
  if (width < 1 || height < 1 || width > kMaxImageSide || height > kMaxImageSide ||
      width * height > kMaxImagePixels) {
    fail(ErrorCode::kDataLoss,
         "'{}' says that it is {} x {} pixels: at most {} a side and {} in all are read", name,
         width, height, kMaxImageSide, kMaxImagePixels);
  }
  return {width, height, std::vector<std::uint8_t>(static_cast<std::size_t>(width * height * 3))};
}

Image decode_image(std::span<const std::byte> file, std::string_view name) {
  if (file.size() > kMaxImageFileBytes) {
    fail(ErrorCode::kDataLoss, "'{}' has {} bytes: pictures of at most {} are read", name,
         file.size(), kMaxImageFileBytes);
  }
  if (is_png(file)) return decode_png(file, name);
  if (is_jpeg(file)) return decode_jpeg(file, name);
  fail(ErrorCode::kDataLoss, "'{}' is neither a PNG nor a JPEG file", name);
}

}  // namespace harmonics::inline in_images
