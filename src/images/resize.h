// Pictures in another size, bit for bit as Pillow 11 resizes them (private to images).
#pragma once

#include <harmonics/images/image_steps.h>

namespace harmonics::inline in_images {

/// `width` and `height` are at least 1. Reducing averages over all pixels that a new one covers.
/// Sums run in whole numbers of 22 bits behind the point, first along rows, then along columns,
/// each rounded to 8 bits.
[[nodiscard]] Image resized(const Image& from, std::int64_t width, std::int64_t height,
                            Resample resample);

}  // namespace harmonics::inline in_images
