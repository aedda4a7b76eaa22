// Fuzzes the CSV reader: the first byte picks options, the rest is the file. Whatever the bytes,
// the reader answers with an Error or with exactly what its dumb twin reads, in sequence and at
// random.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include <harmonics/data/csv_producer.h>

#include <memory_file_testing.h>
#include "csv_twin_testing.h"

namespace harmonics::inline in_data {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

// The values of all rows, read twice; nothing when an Error came.
template <typename T>
std::optional<std::vector<T>> read_all(const MemoryFile& file, const CsvOptions& options) {
  try {
    CsvProducer producer(file.path(), options);
    const auto count = static_cast<std::size_t>(producer.row_count());
    const auto width = static_cast<std::size_t>(producer.sample_spec().shape.at(0));
    std::vector<T> values;
    while (const auto sample = producer.next()) {
      values.insert(values.end(), sample->values<T>().begin(), sample->values<T>().end());
    }
    require(values.size() == count * width);
    std::vector<T> row(width);
    for (std::size_t i = count; i-- > 0;) {
      const auto number = static_cast<std::int64_t>(i);
      producer.read(std::span(&number, 1), std::as_writable_bytes(std::span(row)));
      require(std::memcmp(row.data(), values.data() + i * width, width * sizeof(T)) == 0);
    }
    return values;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// What the twin makes of it; nothing when it finds a fault. It knows two selections of columns:
// all, and the first, beside which any text may stand.
template <typename T>
std::optional<std::vector<T>> read_twin(std::string_view text, const CsvOptions& options) {
  const auto rows = CsvTwin(text, options.delimiter).rows();
  if (!rows || rows->empty()) return std::nullopt;
  std::vector<T> values;
  for (const TwinRow& row : *rows) {
    if (row.size() != rows->front().size()) return std::nullopt;
    const std::size_t wanted = options.columns.empty() ? row.size() : 1;
    for (std::size_t column = 0; column < wanted; ++column) {
      const auto value = CsvTwin::value<T>(row[column]);
      if (!value) return std::nullopt;
      values.push_back(*value);
    }
  }
  return values;
}

template <typename T>
void compare(std::string_view text, CsvOptions options) {
  options.header = CsvHeader::kNo;
  options.dtype = DTypeOf<T>::value;
  const MemoryFile file(text);
  const auto ours = read_all<T>(file, options);
  const auto twin = read_twin<T>(text, options);
  require(ours.has_value() == twin.has_value());
  if (!ours) return;
  require(ours->size() == twin->size());
  for (std::size_t i = 0; i < ours->size(); ++i) {
    const T a = (*ours)[i];
    const T b = (*twin)[i];
    require((a != a && b != b) || std::memcmp(&a, &b, sizeof(T)) == 0);
  }
}

// Other options have no twin, but must hold together as well.
template <typename T>
void survive(std::string_view text, CsvOptions options) {
  options.dtype = DTypeOf<T>::value;
  static_cast<void>(read_all<T>(MemoryFile(text), options));
}

void fuzz(std::string_view input) {
  if (input.empty()) return;
  const auto choice = static_cast<unsigned char>(input[0]);
  const std::string_view text = input.substr(1);
  CsvOptions options;
  options.allow_nan = true;  // as the twin does
  options.delimiter = ",;\t "[choice / 8 % 4];
  if (choice >= 128) options.columns = "0";
  if (choice % 8 == 0) return compare<float>(text, options);
  if (choice % 8 == 1) return compare<double>(text, options);
  options.columns = choice % 2 == 0 ? "" : choice % 3 == 0 ? "1,0" : "a";
  options.row_limit = 64;
  if (choice % 8 < 4) return survive<std::int64_t>(text, options);
  if (choice % 8 < 6) return survive<std::uint8_t>(text, options);
  options.scale = choice % 8 == 6 ? 0.5 : 1.0;
  if (choice % 8 == 6) return survive<float>(text, options);
  survive<double>(text, options);
}

}  // namespace
}  // namespace harmonics::inline in_data

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  harmonics::fuzz({reinterpret_cast<const char*>(data), size});
  return 0;
}
