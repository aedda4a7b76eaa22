// Fuzzes the wrappers of libpng and libjpeg-turbo, what is done to pictures, and the preprocessor's
// reader: the first byte picks which. Whatever the bytes, the answer is an Error or a whole
// picture.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/images/image_steps.h>

namespace harmonics::inline in_images {
namespace {

void fuzz(std::string_view input) {
  if (input.empty()) return;
  const auto choice = static_cast<unsigned char>(input[0]);
  input.remove_prefix(1);
  try {
    if (choice == 255) {
      static_cast<void>(parse_preprocessor(input, "fuzz"));
      return;
    }
    const Image image = decode_image(std::as_bytes(std::span(input)), "fuzz");
    if (image.pixels.size() != static_cast<std::size_t>(image.width * image.height * 3))
      std::abort();
    ImageSteps steps;
    steps.resample = static_cast<Resample>(choice % kResampleCount);
    (choice % 2 == 0 ? steps.height : steps.shortest) = 1 + choice % 9;
    steps.width = steps.height;
    steps.crop_height = steps.crop_width = 1 + choice / 32;
    std::vector<float> sample(static_cast<std::size_t>(3 * steps.crop_height * steps.crop_width));
    process_image(image, steps, sample, "fuzz");
    for (const float value : sample) {
      if (!(value >= 0 && value <= 1)) std::abort();
    }
  } catch (const Error&) {
  }
}

}  // namespace
}  // namespace harmonics::inline in_images

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  harmonics::fuzz({reinterpret_cast<const char*>(data), size});
  return 0;
}
