// A fixed slice of what the fuzzer of pictures does, in every build, from small files of every
// kind.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include <harmonics/base/random.h>

#include "image_files_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_images {
namespace {

TEST(ImageFuzz, MutationsOfSmallFiles) {
  const Image image = sample_picture(11, 9);
  const std::string seeds[] = {png_file(image),
                               png_file(image, PNG_COLOR_TYPE_PALETTE),
                               png_file(image, PNG_COLOR_TYPE_GRAY_ALPHA, true),
                               png_file(image, PNG_COLOR_TYPE_RGB_ALPHA, true),
                               jpeg_file(image),
                               jpeg_file(image, true),
                               jpeg_file(image, false, true),
                               R"({"size": {"height": 4, "width": 4}, "resample": 3, "crop_size": 2,
                                   "image_mean": [0, 0.5, 1], "image_std": [1, 1, 2]})"};
  Random random(1, "image fuzz");
  for (int i = 0; i < 12000; ++i) {
    const auto seed = static_cast<std::size_t>(random.below(std::size(seeds)));
    std::string file = seeds[seed];
    for (std::uint64_t n = random.below(4); n > 0; --n) {
      file[random.below(file.size())] = static_cast<char>(random.below(256));
    }
    if (random.below(4) == 0) file.resize(random.below(file.size() + 1));
    const bool json = seed + 1 == std::size(seeds);
    file.insert(0, 1, static_cast<char>(json ? 255 : random.below(255)));
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(file.data()), file.size());
  }
}

}  // namespace
}  // namespace harmonics::inline in_images
