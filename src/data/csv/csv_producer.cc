#include <harmonics/data/csv_producer.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "csv_columns.h"
#include "csv_row.h"
#include "csv_scanner.h"
#include "lazy.h"

namespace harmonics::inline in_data {
namespace {

constexpr std::size_t kAheadBytes = std::size_t{256} << 10;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::uint64_t text_offset(const ByteSource& file) {
  char start[kByteOrderMark.size()];
  if (file.size() < sizeof start) return 0;
  file.read_at(0, start);
  return std::string_view(start, sizeof start) == kByteOrderMark ? sizeof start : 0;
}

void check_options(const CsvOptions& options) {
  constexpr std::string_view kReserved = "\"\r\n.+-";
  const char delimiter = options.delimiter;
  const bool alphanumeric = (delimiter >= '0' && delimiter <= '9') ||
                            (delimiter >= 'a' && delimiter <= 'z') ||
                            (delimiter >= 'A' && delimiter <= 'Z');
  if (alphanumeric || kReserved.find(delimiter) != std::string_view::npos || delimiter == '\0') {
    fail(ErrorCode::kInvalidArgument,
         "{} cannot be a delimiter: it may be part of a value; use a comma, a semicolon or a tab",
         quote_for_message({&delimiter, 1}));
  }
  if (!std::isfinite(options.scale)) {
    fail(ErrorCode::kInvalidArgument, "the scale {} is not a finite number", options.scale);
  }
  if (options.scale != 1.0 && !is_floating(options.dtype)) {
    fail(ErrorCode::kInvalidArgument, "a scale needs a float dtype, but the dtype is {}",
         dtype_name(options.dtype));
  }
}

}  // namespace

/// The bytes of some stretch of the file, with kCsvPadding after them.
class CsvProducer::Window {
 public:
  /// The bytes [begin, end) of the file; when they are not here, loads up to `until`.
  CsvRowText view(const ByteSource& file, std::uint64_t begin, std::uint64_t end,
                  std::uint64_t until) {
    if (begin < begin_ || end > end_) {
      end_ = begin_;  // holds nothing, should reading fail
      const auto length = static_cast<std::size_t>(until - begin);
      bytes_.resize(length + kCsvPadding);
      file.read_at(begin, std::span(bytes_).first(length));
      std::fill_n(bytes_.begin() + static_cast<std::ptrdiff_t>(length), kCsvPadding, '\n');
      begin_ = begin;
      end_ = until;
    }
    return {bytes_.data() + (begin - begin_), bytes_.data() + (end - begin_)};
  }

 private:
  std::vector<char> bytes_;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
};

/// The file, what is wanted of it, and where its rows are. Many threads.
class CsvProducer::Table {
 public:
  Table(ByteSourcePtr source, CsvOptions options);

  /// Rows first..first+count-1, of which the caller may go on to want those before `wanted_until`.
  struct Run {
    std::int64_t first;
    std::int64_t count;
    std::int64_t wanted_until;
  };
  void read_run(const Run& run, std::byte* out, Window& window) const;

  [[nodiscard]] std::int64_t row_count() const {
    return static_cast<std::int64_t>(offsets().size()) - 1;
  }
  [[nodiscard]] std::string place_of(std::int64_t row, std::size_t element) const;
  [[nodiscard]] const TensorSpec& spec() const { return spec_; }
  [[nodiscard]] const std::vector<std::string>& header() const { return header_; }

 private:
  void lay_out(CsvRowText first_row);
  [[nodiscard]] bool first_row_is_header(const std::vector<std::string>& fields) const;
  /// Where every row begins, and where the last one ends.
  [[nodiscard]] const std::vector<std::uint64_t>& offsets() const;
  [[nodiscard]] std::vector<std::uint64_t> index_rows() const;
  [[nodiscard]] std::string place_at(std::uint64_t offset, std::size_t column) const;
  [[noreturn]] void fail_in_row(std::uint64_t offset, const CsvFault& fault) const;

  const ByteSourcePtr source_;
  const ByteSource& file_ = *source_;
  CsvOptions options_;
  CsvLayout layout_;
  CsvRowReader read_row_ = nullptr;
  TensorSpec spec_;
  std::vector<std::string> header_;
  std::uint64_t first_row_offset_ = 0;
  Lazy<std::vector<std::uint64_t>> offsets_;
};

CsvProducer::Table::Table(ByteSourcePtr source, CsvOptions options)
    : source_(std::move(source)), options_(std::move(options)) {
  check_options(options_);
  CsvScanner scanner(file_, text_offset(file_), kMaxCsvRowBytes);
  auto row = scanner.next();
  if (!row)
    fail(ErrorCode::kInvalidArgument, "'{}' is empty: a CSV file needs a row", file_.path());
  first_row_offset_ = row->offset;
  lay_out(row->text);
  if (header_.empty()) return;
  row = scanner.next();
  if (!row) {
    fail(ErrorCode::kInvalidArgument, "'{}' holds a header and no rows", file_.path());
  }
  first_row_offset_ = row->offset;
}

void CsvProducer::Table::lay_out(CsvRowText first_row) {
  CsvFault fault;
  auto fields = split_csv_row(first_row, options_.delimiter, kMaxCsvColumns, fault);
  if (!fields) fail_in_row(first_row_offset_, fault);
  const std::size_t column_count = fields->size();
  std::vector<std::size_t> columns;
  try {
    if (first_row_is_header(*fields)) header_ = std::move(*fields);
    columns = select_columns(options_.columns, header_, column_count);
  } catch (const Error& error) {
    fail(error.code(), "'{}': {}", file_.path(), error.what());
  }
  layout_ = {std::vector<std::int32_t>(column_count, -1), options_.delimiter, options_.dtype,
             options_.scale, options_.allow_nan};
  for (std::size_t i = 0; i < columns.size(); ++i) {
    layout_.slots[columns[i]] = static_cast<std::int32_t>(i);
  }
  read_row_ = csv_row_reader(layout_);
  if (read_row_ == nullptr) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' cannot be read as {}: use float32, float64, int64, int32, int8, uint8 or bool",
         file_.path(), dtype_name(options_.dtype));
  }
  const auto width = static_cast<std::int64_t>(columns.size());
  spec_ = {options_.shape.empty() ? Shape{width} : options_.shape, options_.dtype};
  if (element_count(spec_.shape) != width) {
    fail(ErrorCode::kInvalidArgument, "'{}': {} columns cannot be viewed as shape {}", file_.path(),
         width, shape_text(spec_.shape));
  }
}

bool CsvProducer::Table::first_row_is_header(const std::vector<std::string>& fields) const {
  if (options_.header != CsvHeader::kAuto) {
    if (options_.header == CsvHeader::kNo && selects_by_name(options_.columns)) {
      fail(ErrorCode::kInvalidArgument, "the columns '{}' are names, but the file has no header",
           options_.columns);
    }
    return options_.header == CsvHeader::kYes;
  }
  if (selects_by_name(options_.columns)) return true;
  const auto columns = select_columns(options_.columns, {}, fields.size());
  const auto values = std::ranges::count_if(
      columns, [&](std::size_t column) { return is_csv_value(fields[column], options_.dtype); });
  if (values == 0) return true;
  if (values == std::ssize(columns)) return false;
  const auto odd = *std::ranges::find_if_not(
      columns, [&](std::size_t column) { return is_csv_value(fields[column], options_.dtype); });
  fail(
      ErrorCode::kInvalidArgument,
      "line {}, column {}: {} is not a number, but other columns of the first row are; say whether "
      "it is a header (header yes or no)",
      line_at(file_, first_row_offset_), odd, quote_for_message(fields[odd]));
}

const std::vector<std::uint64_t>& CsvProducer::Table::offsets() const {
  return offsets_.get([this] { return index_rows(); });
}

std::vector<std::uint64_t> CsvProducer::Table::index_rows() const {
  std::vector<std::uint64_t> offsets;
  CsvScanner scanner(file_, first_row_offset_, kMaxCsvRowBytes);
  while (const auto row = scanner.next()) {
    if (std::ssize(offsets) >= options_.row_limit) {
      fail(ErrorCode::kResourceExhausted, "'{}' has more rows than the limit of {}", file_.path(),
           options_.row_limit);
    }
    offsets.push_back(row->offset);
  }
  offsets.push_back(file_.size());
  return offsets;
}

void CsvProducer::Table::read_run(const Run& run, std::byte* out, Window& window) const {
  const std::uint64_t* const offsets = this->offsets().data();
  const std::size_t each = sample_bytes(spec_);
  CsvFault fault;
  for (std::int64_t row = run.first; row < run.first + run.count; ++row, out += each) {
    const std::uint64_t begin = offsets[row];
    const std::uint64_t end = offsets[row + 1];
    const std::uint64_t ahead = std::min(begin + kAheadBytes, offsets[run.wanted_until]);
    const CsvRowText text = window.view(file_, begin, end, std::max(end, ahead));
    if (!read_row_(layout_, text, out, fault)) fail_in_row(begin, fault);
  }
}

std::string CsvProducer::Table::place_at(std::uint64_t offset, std::size_t column) const {
  const std::string name =
      column < header_.size() ? format(" ({})", quote_for_message(header_[column])) : std::string();
  return format("'{}' line {}, column {}{}", file_.path(), line_at(file_, offset), column, name);
}

std::string CsvProducer::Table::place_of(std::int64_t row, std::size_t element) const {
  const auto slot = static_cast<std::int32_t>(element);
  const auto column = std::ranges::find(layout_.slots, slot) - layout_.slots.begin();
  return place_at(offsets().at(static_cast<std::size_t>(row)), static_cast<std::size_t>(column));
}

void CsvProducer::Table::fail_in_row(std::uint64_t offset, const CsvFault& fault) const {
  fail(ErrorCode::kInvalidArgument, "{}: {}", place_at(offset, fault.column), fault.what);
}

CsvProducer::CsvProducer(const std::filesystem::path& path, CsvOptions options)
    : CsvProducer(open_file(path.string()), std::move(options)) {}

CsvProducer::CsvProducer(ByteSourcePtr source, CsvOptions options)
    : table_(std::make_unique<const Table>(std::move(source), std::move(options))),
      ahead_(std::make_unique<Window>()) {}

CsvProducer::~CsvProducer() = default;

TensorSpec CsvProducer::sample_spec() const { return table_->spec(); }
std::int64_t CsvProducer::row_count() const { return table_->row_count(); }
const std::vector<std::string>& CsvProducer::header() const { return table_->header(); }
std::string CsvProducer::place_of(std::int64_t row, std::size_t element) const {
  return table_->place_of(row, element);
}

void CsvProducer::read(std::span<const std::int64_t> rows, std::span<std::byte> out) {
  check_read(rows, out);
  const std::size_t each = sample_bytes(table_->spec());
  Window window;
  for (std::size_t i = 0; i < rows.size();) {
    std::int64_t count = 1;
    while (i + count < rows.size() && rows[i + count] == rows[i] + count) ++count;
    table_->read_run({rows[i], count, rows[i] + count}, out.data() + i * each, window);
    i += static_cast<std::size_t>(count);
  }
}

void CsvProducer::read_run(std::int64_t first, std::int64_t count, std::span<std::byte> out) {
  table_->read_run({first, count, table_->row_count()}, out.data(), *ahead_);
}

}  // namespace harmonics::inline in_data
