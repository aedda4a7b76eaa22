// Rows of a CSV file as samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <harmonics/data/byte_source.h>
#include <harmonics/data/producer.h>
#include <harmonics/data/row_places.h>

namespace harmonics::inline in_data {

inline constexpr std::int64_t kMaxCsvRows = std::int64_t{1} << 31;  // an index of 16 GiB
inline constexpr std::size_t kMaxCsvColumns = std::size_t{1} << 20;
inline constexpr std::size_t kMaxCsvRowBytes = std::size_t{16} << 20;

/// Whether the first row of a file names the columns.
enum class CsvHeader {
  kAuto,  // it does when none of its wanted fields is a number; some numbers, some not is an Error
  kYes,
  kNo,
};

struct CsvOptions {
  /// Which columns make a sample, in this order: numbers from 0, ranges and header names, with
  /// commas between them ("0-63", "7,0-3", "width,height"). Empty: all of them.
  std::string columns;
  /// float32, float64, int64, int32, int8, uint8 or bool.
  DType dtype = DType::kFloat32;
  /// Every value is multiplied by it, in float64 before rounding. Only for float dtypes.
  double scale = 1.0;
  /// The shape of a sample; as many elements as there are columns. Empty: {columns}.
  Shape shape;
  CsvHeader header = CsvHeader::kAuto;
  char delimiter = ',';
  /// A file with more rows is an Error.
  std::int64_t row_limit = kMaxCsvRows;
  /// A value that is not a number (nan) is an Error, unless it is accepted here.
  bool allow_nan = false;
};

/// Reads a CSV file (RFC 4180: quotes, doubled quotes, line ends inside quotes) of any size. Lines
/// end with LF or CRLF, the last one need not; blank lines are passed over, as are a byte order
/// mark and spaces around values. inf and -inf are floats, and so is nan where `allow_nan` says so.
///
/// The constructor reads the beginning of the file. The first call that needs to know the rows
/// walks over the whole file once and keeps 8 bytes for each; nothing else is held in memory but a
/// block of 256 KiB, so a file may be larger than memory.
///
/// A missing or empty file, a column that is not there, and text that is no value of the dtype or
/// out of its range, a row of another length, a quote never closed: each is an Error with path,
/// line (counted from 1), column (counted from 0) and the text. A file that shrinks while it is
/// read is an Error too.
class CsvProducer final : public IndexedProducer, public RowPlaces {
 public:
  explicit CsvProducer(const std::filesystem::path& path, CsvOptions options = {});
  explicit CsvProducer(ByteSourcePtr source, CsvOptions options = {});
  ~CsvProducer() override;

  [[nodiscard]] TensorSpec sample_spec() const override;
  [[nodiscard]] std::int64_t row_count() const override;
  [[nodiscard]] std::string place_of(std::int64_t row, std::size_t element) const override;
  void read(std::span<const std::int64_t> rows, std::span<std::byte> out) override;

  /// The names in the header, one per column of the file; empty when there is no header.
  [[nodiscard]] const std::vector<std::string>& header() const;

 protected:
  void read_run(std::int64_t first, std::int64_t count, std::span<std::byte> out) override;

 private:
  class Table;
  class Window;
  std::unique_ptr<const Table> table_;
  std::unique_ptr<Window> ahead_;  // what sequential reading has loaded
};

}  // namespace harmonics::inline in_data
