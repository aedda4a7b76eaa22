// Pictures in memory, decoded from PNG and JPEG.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace harmonics::inline in_images {

/// Ceilings; a file that goes beyond them is an Error before memory is taken for its pixels.
inline constexpr std::size_t kMaxImageFileBytes = std::size_t{256} << 20;
inline constexpr std::int64_t kMaxImageSide = 32768;
inline constexpr std::int64_t kMaxImagePixels = std::int64_t{1} << 26;
/// A JPEG that is built up in more scans than this is an Error: each costs a pass over all pixels.
inline constexpr int kMaxJpegScans = 256;

/// Rows of pixels, three bytes each: red, green, blue.
struct Image {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::vector<std::uint8_t> pixels = {};

  [[nodiscard]] const std::uint8_t* row(std::int64_t y) const {
    return pixels.data() + static_cast<std::size_t>(y * width * 3);
  }
  bool operator==(const Image&) const = default;
};

/// Decodes a PNG or JPEG file by its first bytes, as Python's Pillow does with convert("RGB"): grey
/// is repeated, palettes are looked up, transparency is dropped, four inks become three colours;
/// orientation and colour profiles are not applied. Of 16 bits the upper 8 are taken. JPEG comes
/// out as libjpeg-turbo computes it by default. A file that is cut off, broken or neither of the
/// two is an Error (kDataLoss) that begins with `name`.
[[nodiscard]] Image decode_image(std::span<const std::byte> file, std::string_view name);

}  // namespace harmonics::inline in_images
