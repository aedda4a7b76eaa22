// PNG and JPEG files in memory, for tests.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
// It needs size_t and FILE before it.
#include <jpeglib.h>
#include <png.h>

#include <string>

#include <harmonics/base/random.h>
#include <harmonics/images/image.h>

namespace harmonics::inline in_images {

/// A picture whose colours run smoothly, with a little noise.
inline Image sample_picture(std::int64_t width, std::int64_t height, std::uint64_t seed = 1) {
  Image image{width, height, {}};
  Random random(seed, "picture");
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      for (const std::int64_t base : {x * 200 / width, y * 200 / height, (x + y) % 200}) {
        image.pixels.push_back(static_cast<std::uint8_t>(base + random.below(56)));
      }
    }
  }
  return image;
}

/// `color` is one of libpng's PNG_COLOR_TYPE_…: grey is the red of the picture, alpha its blue.
inline std::string png_file(const Image& image, int color = PNG_COLOR_TYPE_RGB,
                            bool interlaced = false) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  if (setjmp(png_jmpbuf(png)) != 0) std::abort();
  png_set_write_fn(
      png, &file,
      [](png_structp to, png_bytep bytes, std::size_t count) {
        static_cast<std::string*>(png_get_io_ptr(to))
            ->append(reinterpret_cast<const char*>(bytes), count);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(image.width),
               static_cast<png_uint_32>(image.height), 8, color,
               interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_color palette[256];
  for (int i = 0; i < 256; ++i) {
    palette[i] = {static_cast<png_byte>(255 - i), static_cast<png_byte>(i), 7};
  }
  if (color == PNG_COLOR_TYPE_PALETTE) png_set_PLTE(png, info, palette, 256);
  std::vector<std::vector<png_byte>> rows(static_cast<std::size_t>(image.height));
  std::vector<png_bytep> begins;
  for (std::int64_t y = 0; y < image.height; ++y) {
    std::vector<png_byte>& row = rows[static_cast<std::size_t>(y)];
    for (std::int64_t x = 0; x < image.width; ++x) {
      const std::uint8_t* const pixel = image.row(y) + 3 * x;
      const bool rgb = color == PNG_COLOR_TYPE_RGB || color == PNG_COLOR_TYPE_RGB_ALPHA;
      row.insert(row.end(), pixel, pixel + (rgb ? 3 : 1));
      if ((color & PNG_COLOR_MASK_ALPHA) != 0) row.push_back(pixel[2]);
    }
    begins.push_back(row.data());
  }
  png_write_info(png, info);
  png_write_image(png, begins.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

/// As grey, it is the red of the picture.
inline std::string jpeg_file(const Image& image, bool grey = false, bool progressive = false) {
  jpeg_compress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_width = static_cast<JDIMENSION>(image.width);
  jpeg.image_height = static_cast<JDIMENSION>(image.height);
  jpeg.input_components = grey ? 1 : 3;
  jpeg.in_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 95, TRUE);
  if (progressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  std::vector<JSAMPLE> row;
  while (jpeg.next_scanline < jpeg.image_height) {
    row.clear();
    for (std::int64_t x = 0; x < image.width; ++x) {
      const std::uint8_t* const pixel = image.row(jpeg.next_scanline) + 3 * x;
      row.insert(row.end(), pixel, pixel + (grey ? 1 : 3));
    }
    JSAMPROW begin = row.data();
    jpeg_write_scanlines(&jpeg, &begin, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::string file(reinterpret_cast<const char*>(bytes), size);
  std::free(bytes);
  jpeg_destroy_compress(&jpeg);
  return file;
}

}  // namespace harmonics::inline in_images
