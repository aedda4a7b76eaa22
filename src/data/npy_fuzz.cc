// Fuzzes the decoder of NumPy files: the first byte picks options, the rest is the file. Whatever
// the bytes, it answers with an Error or with as many samples as it promised.
#include <cstdint>
#include <string_view>

#include <harmonics/data/npy_producer.h>

#include "array_fuzz_testing.h"

namespace harmonics::inline in_data {
namespace {

void fuzz(std::string_view input) {
  if (input.empty()) return;
  const auto choice = static_cast<unsigned char>(input[0]);
  NpyOptions options;
  if (choice % 2 == 1) options.dtype = static_cast<DType>(choice / 2 % kDTypeCount);
  if (choice >= 128) options.scale = 0.5;
  options.allow_nan = choice % 3 == 0;
  read_or_refuse<NpyProducer>(input.substr(1), options);
}

}  // namespace
}  // namespace harmonics::inline in_data

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  harmonics::fuzz({reinterpret_cast<const char*>(data), size});
  return 0;
}
