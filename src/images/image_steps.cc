#include <harmonics/images/image_steps.h>

#include <algorithm>

#include <harmonics/base/error.h>

#include "resize.h"

namespace harmonics::inline in_images {
namespace {

struct Size {
  std::int64_t width = 0, height = 0;
};

Size size_after(const Image& image, const ImageSteps& steps, std::string_view name) {
  if (steps.shortest == 0) {
    return steps.height == 0 ? Size{image.width, image.height} : Size{steps.width, steps.height};
  }
  const auto longer = [&](std::int64_t of_long, std::int64_t of_short) {
    return static_cast<std::int64_t>(static_cast<double>(steps.shortest * of_long) /
                                     static_cast<double>(of_short));
  };
  const Size size = image.width <= image.height
                        ? Size{steps.shortest, longer(image.height, image.width)}
                        : Size{longer(image.width, image.height), steps.shortest};
  if (std::max(size.width, size.height) > kMaxImageSide ||
      size.width * size.height > kMaxImagePixels) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' of {} x {} pixels would become {} x {}: at most {} a side", name, image.width,
         image.height, size.width, size.height, kMaxImageSide);
  }
  return size;
}

// Rounded down also below 0.
std::int64_t middle(std::int64_t whole, std::int64_t part) {
  const std::int64_t difference = whole - part;
  return difference >= 0 ? difference / 2 : -((1 - difference) / 2);
}

}  // namespace

std::array<std::int64_t, 2> ImageSteps::sample_size() const {
  const std::array<std::int64_t, 2> size =
      crop_height > 0 ? std::array{crop_height, crop_width} : std::array{height, width};
  if (size[0] == 0) {
    fail(ErrorCode::kInvalidArgument,
         "pictures of different sizes would make samples of different sizes: write size=224, "
         "crop=224 beside shortest=, or preprocessor=FOLDER of the model");
  }
  for (const std::int64_t side :
       {size[0], size[1], std::max<std::int64_t>(shortest, 1), std::max<std::int64_t>(height, 1),
        std::max<std::int64_t>(width, 1)}) {
    if (side < 1 || side > kMaxSampleSide) {
      fail(ErrorCode::kInvalidArgument, "pictures of {} pixels a side: 1 to {} can be made", side,
           kMaxSampleSide);
    }
  }
  return size;
}

void process_image(const Image& image, const ImageSteps& steps, std::span<float> out,
                   std::string_view name) {
  const auto [height, width] = steps.sample_size();
  const Size size = size_after(image, steps, name);
  const Image scaled = resized(image, size.width, size.height, steps.resample);
  const std::int64_t top = middle(scaled.height, height), left = middle(scaled.width, width);
  // Of 256 numbers a plane has no others.
  float levels[3][256];
  for (std::size_t c = 0; c < 3; ++c) {
    const auto mean = static_cast<float>(steps.mean[c]);
    const auto deviation = static_cast<float>(steps.deviation[c]);
    for (int level = 0; level < 256; ++level) {
      const auto value = static_cast<float>(level * steps.rescale);
      levels[c][level] = steps.normalize ? (value - mean) / deviation : value;
    }
  }
  float* to = out.data();
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::int64_t y = top; y < top + height; ++y) {
      const bool inside = y >= 0 && y < scaled.height;
      for (std::int64_t x = left; x < left + width; ++x) {
        const bool shown = inside && x >= 0 && x < scaled.width;
        *to++ = levels[c][shown ? scaled.row(y)[3 * x + static_cast<std::int64_t>(c)] : 0];
      }
    }
  }
}

}  // namespace harmonics::inline in_images
