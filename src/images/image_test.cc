// Decoders, sizes and numbers of pictures; tests/interop/images_test.py compares them with Pillow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include <harmonics/base/error.h>
#include <harmonics/images/image_steps.h>

#include "image_files_testing.h"
#include "resize.h"

namespace harmonics::inline in_images {
namespace {

using testing::HasSubstr;

Image decoded(const std::string& file) {
  return decode_image(std::as_bytes(std::span(file)), "some.file");
}

std::string refusal(const std::string& file) {
  try {
    static_cast<void>(decoded(file));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    return error.what();
  }
  return "none";
}

TEST(Decode, PngOfEveryColourType) {
  const Image image = sample_picture(13, 7);
  EXPECT_EQ(decoded(png_file(image)), image);
  EXPECT_EQ(decoded(png_file(image, PNG_COLOR_TYPE_RGB, true)), image);
  EXPECT_EQ(decoded(png_file(image, PNG_COLOR_TYPE_RGB_ALPHA)), image);
  Image grey = image, indexed = image;
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
    const std::uint8_t red = image.pixels[i];
    grey.pixels[i + 1] = grey.pixels[i + 2] = red;
    indexed.pixels[i] = static_cast<std::uint8_t>(255 - red);
    indexed.pixels[i + 1] = red;
    indexed.pixels[i + 2] = 7;
  }
  EXPECT_EQ(decoded(png_file(image, PNG_COLOR_TYPE_GRAY)), grey);
  EXPECT_EQ(decoded(png_file(image, PNG_COLOR_TYPE_GRAY_ALPHA)), grey);
  EXPECT_EQ(decoded(png_file(image, PNG_COLOR_TYPE_PALETTE)), indexed);
}

TEST(Decode, JpegIsNearWhatItWasMadeOf) {
  Image image = sample_picture(33, 21);
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    image.pixels[i] = static_cast<std::uint8_t>(40 + i / 3 % 33 * 5);
  }
  for (const bool grey : {false, true}) {
    for (const bool progressive : {false, true}) {
      const Image back = decoded(jpeg_file(image, grey, progressive));
      ASSERT_EQ(back.pixels.size(), image.pixels.size());
      for (std::size_t i = 0; i < image.pixels.size(); ++i) {
        EXPECT_NEAR(back.pixels[i], image.pixels[i], 12) << i << grey << progressive;
      }
    }
  }
}

TEST(Decode, FilesThatAreCutOffSayWhichAndWhy) {
  const Image image = sample_picture(40, 30);
  for (const std::string& file :
       {png_file(image), jpeg_file(image), jpeg_file(image, false, true)}) {
    for (std::size_t length = 0; length + 12 < file.size(); length += 7) {
      EXPECT_THAT(refusal(file.substr(0, length)), HasSubstr("some.file")) << length;
    }
  }
  EXPECT_THAT(refusal("GIF89a……………"), HasSubstr("neither a PNG nor a JPEG"));
}

TEST(Decode, HeadersThatClaimTooMuchAreRefusedBeforeMemoryIsTaken) {
  std::string png = png_file(sample_picture(4, 4));
  const auto with_size = [&](std::string width, std::string height) {
    std::string file = png;
    file.replace(16, 4, width).replace(20, 4, height);
    // The header's own check sum, so that the size alone is wrong.
    std::uint32_t crc = 0xFFFFFFFF;
    for (std::size_t i = 12; i < 29; ++i) {
      crc ^= static_cast<unsigned char>(file[i]);
      for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0xEDB88320 : crc >> 1;
    }
    crc = ~crc;
    for (int i = 0; i < 4; ++i) file[29 + i] = static_cast<char>(crc >> (24 - 8 * i));
    return file;
  };
  const std::string huge("\x7f\xff\xff\xff", 4), side("\0\0\x70\0", 4), some("\0\0\x10\0", 4);
  EXPECT_THAT(refusal(with_size(huge, huge)), HasSubstr("some.file"));
  EXPECT_THAT(refusal(with_size(side, side)), HasSubstr("cut off"));
  EXPECT_THAT(refusal(with_size(some, some)), HasSubstr("cut off"));
  std::string jpeg = jpeg_file(sample_picture(8, 8));
  const std::size_t frame = jpeg.find("\xFF\xC0");
  jpeg.replace(frame + 5, 4, std::string("\xFF\0\xFF\0", 4));
  EXPECT_THAT(refusal(jpeg), HasSubstr("65280 x 65280 pixels"));
}

TEST(Resize, WorkedOutByHand) {
  // Two pixels become four: a quarter and three quarters of each in the middle.
  const Image two{2, 1, {0, 0, 0, 100, 200, 40}};
  EXPECT_EQ(resized(two, 4, 1, Resample::kBilinear).pixels,
            (std::vector<std::uint8_t>{0, 0, 0, 25, 50, 10, 75, 150, 30, 100, 200, 40}));
  EXPECT_EQ(resized(two, 4, 1, Resample::kNearest).pixels,
            (std::vector<std::uint8_t>{0, 0, 0, 0, 0, 0, 100, 200, 40, 100, 200, 40}));
  EXPECT_EQ(resized(two, 1, 1, Resample::kBox).pixels, (std::vector<std::uint8_t>{50, 100, 20}));
  const Image tall{1, 2, two.pixels};
  EXPECT_EQ(resized(tall, 1, 4, Resample::kBilinear).pixels,
            resized(two, 4, 1, Resample::kBilinear).pixels);
}

TEST(Resize, AnEvenColourStaysInEveryFilter) {
  Image even = sample_picture(17, 11);
  std::ranges::fill(even.pixels, std::uint8_t{201});
  for (int i = 0; i < kResampleCount; ++i) {
    for (const auto& [width, height] : {std::pair{5, 4}, {40, 33}, {17, 3}, {3, 11}, {1, 1}}) {
      const Image other = resized(even, width, height, static_cast<Resample>(i));
      ASSERT_EQ(other.pixels.size(), static_cast<std::size_t>(width * height * 3));
      EXPECT_EQ(std::ranges::count(other.pixels, 201), width * height * 3) << i;
    }
  }
}

TEST(Steps, CutRescaleAndNormalise) {
  ImageSteps steps;
  steps.crop_height = 1, steps.crop_width = 4;
  steps.mean = {0.5, 0, 0}, steps.deviation = {0.5, 1, 2};
  steps.normalize = true;
  const Image two{2, 1, {0, 0, 0, 255, 51, 255}};
  std::vector<float> out(12);
  process_image(two, steps, out, "two");
  // Black beyond the picture on both sides.
  EXPECT_EQ(out, (std::vector<float>{-1, -1, 1, -1, 0, 0, static_cast<float>(51 * (1.0 / 255)), 0,
                                     0, 0, 0.5f, 0}));
}

TEST(Steps, ProportionIsKeptUpToACeiling) {
  ImageSteps steps;
  steps.shortest = 100, steps.crop_height = steps.crop_width = 10;
  std::vector<float> out(300);
  process_image(sample_picture(40, 20), steps, out, "wide");
  EXPECT_THROW(process_image(sample_picture(1, 4000), steps, out, "thin"), Error);
}

constexpr std::string_view kViT = R"({"do_resize": true, "size": {"height": 224, "width": 224},
  "resample": 2, "do_rescale": true, "rescale_factor": 0.00392156862745098, "do_normalize": true,
  "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "image_processor_type": "ViTImageProcessor"})";

TEST(Preprocessor, ReadsWhatFoldersHold) {
  const ImageSteps vit = parse_preprocessor(kViT, "vit");
  EXPECT_EQ(vit.height, 224);
  EXPECT_EQ(vit.resample, Resample::kBilinear);
  EXPECT_TRUE(vit.normalize);
  const ImageSteps clip = parse_preprocessor(
      R"({"crop_size": 224, "do_center_crop": true, "size": 224, "resample": 3, "image_mean": [0.4, 0.5, 0.6],
          "image_std": [0.1, 0.2, 0.3], "feature_extractor_type": "CLIPFeatureExtractor"})",
      "clip");
  EXPECT_EQ(clip.shortest, 224);
  EXPECT_EQ(clip.height, 0);
  EXPECT_EQ(clip.crop_width, 224);
  EXPECT_EQ(clip.resample, Resample::kBicubic);
}

TEST(Preprocessor, RefusesWhatItDoesNotHonour) {
  const auto refused = [](std::string from, const std::string& to) {
    std::string json(kViT);
    json.replace(json.find(from), from.size(), to);
    try {
      static_cast<void>(parse_preprocessor(json, "some.json"));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_THAT(refused("\"resample\": 2", "\"crop_pct\": 0.9"),
              HasSubstr("'crop_pct' is not honoured"));
  EXPECT_THAT(refused("ViTImage", "LevitImage"), HasSubstr("asks for LevitImageProcessor"));
  EXPECT_THAT(refused("\"resample\": 2", "\"resample\": 9"), HasSubstr("'resample' must be"));
  EXPECT_THAT(refused("\"height\": 224", "\"longest_edge\": 224"), HasSubstr("shortest_edge"));
  EXPECT_THAT(refused("[0.5, 0.5, 0.5], \"image_std\"", "[0.5], \"image_std\""),
              HasSubstr("three numbers"));
  EXPECT_THAT(refused("\"height\": 224", "\"height\": 90000"), HasSubstr("1 to"));
}

}  // namespace
}  // namespace harmonics::inline in_images
