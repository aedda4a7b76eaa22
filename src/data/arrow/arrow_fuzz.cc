// Fuzzes the readers of Parquet and Arrow files: the first byte picks format and options, the rest
// is the file. Whatever the bytes, they answer with an Error or with as many samples as promised.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <harmonics/base/error.h>

#include <memory_file_testing.h>

#include "arrow_producer.h"

namespace harmonics::inline in_data {
namespace {

// More rows than these are not counted one by one.
constexpr std::int64_t kCounted = 100'000;

void fuzz(std::string_view input) {
  if (input.empty()) return;
  const auto choice = static_cast<unsigned char>(input[0]);
  ColumnWishes wishes;
  if (choice % 4 < 2) wishes.dtype = choice % 4 == 0 ? DType::kFloat32 : DType::kInt64;
  if (choice % 8 >= 4) wishes.columns = "0";
  if (choice % 16 >= 8) wishes.shape = {2};
  wishes.allow_nan = choice % 32 >= 16;
  const MemoryFile file(input.substr(1));
  try {
    ArrowProducer producer(open_file(file.path()), choice >= 128 ? parquet_groups : ipc_groups,
                           wishes);
    if (producer.row_count() > kCounted) return;
    std::int64_t samples = 0;
    while (producer.next()) ++samples;
    if (samples != producer.row_count()) std::abort();
  } catch (const Error&) {
  }
}

}  // namespace
}  // namespace harmonics::inline in_data

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  harmonics::fuzz({reinterpret_cast<const char*>(data), size});
  return 0;
}
