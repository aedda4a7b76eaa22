// A fixed slice of what the fuzzer of Parquet and Arrow files does, in every build.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/base/random.h>

#include "arrow_files_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_data {
namespace {

std::shared_ptr<arrow::Table> some_table() {
  const auto numbers = array_of<arrow::FloatBuilder, float>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  const auto words = array_of<arrow::StringBuilder, std::string>({"a", "b", "c", "d", "e"});
  arrow::ListBuilder lists(arrow::default_memory_pool(), std::make_shared<arrow::Int64Builder>());
  for (std::int64_t i = 0; i < 5; ++i) {
    must(lists.Append());
    auto& values = static_cast<arrow::Int64Builder&>(*lists.value_builder());
    must(values.Append(i));
    must(values.Append(-i));
  }
  return table_of({{"l", must(lists.Finish())},
                   {"p", must(arrow::FixedSizeListArray::FromArrays(numbers, 2))},
                   {"i", array_of<arrow::Int64Builder, std::int64_t>({1, 2, std::nullopt, 4, 5})},
                   {"b", array_of<arrow::BooleanBuilder, bool>({true, false, true, true, false})},
                   {"s", words}});
}

TEST(ArrowFuzz, MutationsOfSmallFiles) {
  const auto table = some_table();
  Random random(1, "arrow fuzz");
  for (const ColumnFormat format :
       {ColumnFormat::kParquet, ColumnFormat::kArrowFile, ColumnFormat::kArrowStream}) {
    const std::string whole = file_of(*table, format, 2);
    for (int i = 0; i < 1500; ++i) {
      std::string input(1, static_cast<char>(random.below(128)));
      if (format == ColumnFormat::kParquet) input[0] = static_cast<char>(input[0] | '\x80');
      input += whole;
      for (std::uint64_t changes = random.below(4); changes > 0; --changes) {
        // Ends hold what says where the rest stands.
        const std::size_t window = random.below(2) == 0 ? input.size() - 1 : 400;
        const std::size_t back = random.below(std::min(window, input.size() - 1));
        input[input.size() - 1 - back] = static_cast<char>(random.below(256));
      }
      if (random.below(8) == 0) input.resize(1 + random.below(input.size()));
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
    }
  }
}

}  // namespace
}  // namespace harmonics::inline in_data
