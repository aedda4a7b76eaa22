// The decoders, one library each (private to images).
#pragma once

#include <harmonics/images/image.h>

namespace harmonics::inline in_images {

/// Whether the file begins as one of this kind does.
[[nodiscard]] bool is_png(std::span<const std::byte> file);
[[nodiscard]] bool is_jpeg(std::span<const std::byte> file);

// What goes wrong is an Error as decode_image promises it.
[[nodiscard]] Image decode_png(std::span<const std::byte> file, std::string_view name);
[[nodiscard]] Image decode_jpeg(std::span<const std::byte> file, std::string_view name);

/// Memory for pixels; sizes beyond the ceilings are an Error.
[[nodiscard]] Image blank_image(std::int64_t width, std::int64_t height, std::string_view name);

}  // namespace harmonics::inline in_images
