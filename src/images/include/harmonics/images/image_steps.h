// What is done to a picture before a model sees it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include <harmonics/images/image.h>

namespace harmonics::inline in_images {

/// How pixels of another size are mixed; in the order of Pillow's numbers, which
/// preprocessor_config.json uses.
enum class Resample { kNearest = 0, kLanczos, kBilinear, kBicubic, kBox, kHamming };
inline constexpr int kResampleCount = 6;

/// Ceiling of a sample's sides.
inline constexpr std::int64_t kMaxSampleSide = 8192;
inline constexpr std::size_t kMaxPreprocessorBytes = std::size_t{1} << 20;

/// In this order: resize, cut out the middle, rescale, subtract the mean, divide by the deviation.
struct ImageSteps {
  /// Both 0: `shortest` says the size, or the picture stays as it is.
  std::int64_t height = 0, width = 0;
  /// The shorter side becomes this, the other keeps its proportion; 0: not.
  std::int64_t shortest = 0;
  Resample resample = Resample::kBilinear;
  /// What is cut out of the middle; beyond the picture lies black. 0: nothing is cut.
  std::int64_t crop_height = 0, crop_width = 0;
  double rescale = 1.0 / 255;
  std::array<double, 3> mean = {0, 0, 0};
  std::array<double, 3> deviation = {1, 1, 1};
  bool normalize = false;

  /// The sides of every sample: of what is cut out, else of what is resized to. Where pictures of
  /// different sizes would make different samples, or a side is out of 1..kMaxSampleSide, it is an
  /// Error that says what to write.
  [[nodiscard]] std::array<std::int64_t, 2> sample_size() const;
};

/// Reads preprocessor_config.json of a Hugging Face folder (ViT, DeiT, CLIP and BiT processors). A
/// value that is not honoured is an Error that names it and `name`.
[[nodiscard]] ImageSteps parse_preprocessor(std::string_view json, std::string_view name);

/// The sample: red, green and blue planes of sample_size() each. The numbers are those of
/// transformers' processors over Pillow, bit for bit. `name` is for errors.
void process_image(const Image& image, const ImageSteps& steps, std::span<float> out,
                   std::string_view name);

}  // namespace harmonics::inline in_images
