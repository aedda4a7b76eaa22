// Fuzzes the IDX decoder: the first byte picks options, the rest is the file. Whatever the bytes,
// it answers with an Error or with as many samples as it promised.
#include <array>
#include <cstdint>
#include <string_view>

#include <harmonics/data/idx_producer.h>

#include "array_fuzz_testing.h"

namespace harmonics::inline in_data {
namespace {

void fuzz(std::string_view input) {
  if (input.empty()) return;
  constexpr std::array kDTypes = {DType::kFloat32, DType::kFloat64, DType::kInt64,
                                  DType::kInt32,   DType::kInt8,    DType::kUInt8};
  const auto choice = static_cast<unsigned char>(input[0]);
  IdxOptions options;
  if (choice % 2 == 1) options.dtype = kDTypes[choice / 2 % kDTypes.size()];
  if (choice >= 128) options.scale = 0.5;
  read_or_refuse<IdxProducer>(input.substr(1), options);
}

}  // namespace
}  // namespace harmonics::inline in_data

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  harmonics::fuzz({reinterpret_cast<const char*>(data), size});
  return 0;
}
