// Stand-ins where libpng and libjpeg-turbo were left out of the build.
#include <harmonics/base/error.h>

#include "codecs.h"

namespace harmonics::inline in_images {
namespace {

[[noreturn]] void no_codecs(std::string_view name) {
  fail(ErrorCode::kUnimplemented,
       "'{}' cannot be decoded: this build reads no pictures; install libpng-dev and "
       "libjpeg62-turbo-dev and configure with -DHARMONICS_WITH_IMAGES=ON",
       name);
}

}  // namespace

Image decode_png(std::span<const std::byte>, std::string_view name) { no_codecs(name); }
Image decode_jpeg(std::span<const std::byte>, std::string_view name) { no_codecs(name); }

}  // namespace harmonics::inline in_images
