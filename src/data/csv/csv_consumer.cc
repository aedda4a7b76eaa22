#include <harmonics/data/csv_consumer.h>

#include <charconv>
#include <string_view>
#include <type_traits>
#include <utility>

#include <harmonics/base/file.h>
#include <harmonics/base/log.h>

namespace harmonics::inline in_data {
namespace {

constexpr std::size_t kWriteBytes = std::size_t{1} << 20;

void append_name(std::string& out, std::string_view name, char delimiter) {
  if (name.find_first_of(std::string("\"\r\n ") + delimiter) == std::string_view::npos) {
    out += name;
    return;
  }
  out += '"';
  for (const char c : name) out.append(c == '"' ? 2 : 1, c);
  out += '"';
}

template <typename T>
void append_rows(std::string& out, const Tensor& batch, std::int64_t width, char delimiter) {
  std::int64_t column = 0;
  char digits[64];
  for (const T value : batch.values<T>()) {
    std::to_chars_result end{};
    if constexpr (std::is_same_v<T, bool>) {
      end = std::to_chars(digits, digits + sizeof digits, value ? 1 : 0);
    } else {
      end = std::to_chars(digits, digits + sizeof digits, value);
    }
    out.append(digits, end.ptr);
    out += ++column % width == 0 ? '\n' : delimiter;
  }
}

using AppendRows = void (*)(std::string&, const Tensor&, std::int64_t, char);

AppendRows append_rows_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return append_rows<float>;
    case DType::kFloat64: return append_rows<double>;
    case DType::kInt64: return append_rows<std::int64_t>;
    case DType::kInt32: return append_rows<std::int32_t>;
    case DType::kInt8: return append_rows<std::int8_t>;
    case DType::kUInt8: return append_rows<std::uint8_t>;
    case DType::kBool: return append_rows<bool>;
    case DType::kBFloat16:
    case DType::kFloat16: break;
  }
  return nullptr;
}

}  // namespace

struct CsvConsumer::Output {
  explicit Output(const std::filesystem::path& path) : file(path) {}
  AtomicFile file;
  std::string text;  // not yet written
};

CsvConsumer::CsvConsumer(const std::filesystem::path& path, CsvConsumerOptions options)
    : output_(std::make_unique<Output>(path)), path_(path.string()), options_(std::move(options)) {
  if (options_.header.empty()) return;
  if (options_.unequal_rows) {
    fail(ErrorCode::kInvalidArgument, "'{}': rows of unequal length have no header", path_);
  }
  if (options_.kept != nullptr) {
    fail(ErrorCode::kInvalidArgument, "'{}': rows that are kept as they come have no header",
         path_);
  }
  width_ = std::ssize(options_.header);
  for (std::size_t i = 0; i < options_.header.size(); ++i) {
    if (i != 0) output_->text += options_.delimiter;
    append_name(output_->text, options_.header[i], options_.delimiter);
  }
  output_->text += '\n';
}

CsvConsumer::~CsvConsumer() {
  if (output_ != nullptr && rows_ > 0 && options_.kept == nullptr) {
    log_warn("data", "{} rows for '{}' are dropped: finish() was not called", rows_, path_);
  }
}

void CsvConsumer::push(const Tensor& batch) {
  if (output_ == nullptr) {
    fail(ErrorCode::kFailedPrecondition, "'{}' is finished: no more rows can be added", path_);
  }
  if (!batch.defined() || batch.shape().empty()) {
    fail(ErrorCode::kInvalidArgument, "'{}' takes batches, with a leading batch axis", path_);
  }
  const std::int64_t rows = batch.shape()[0];
  if (rows == 0 && options_.kept != nullptr) options_.kept->add({});
  if (rows == 0) return;
  const std::int64_t width = batch.size() / rows;
  if (width == 0 || (width_ >= 0 && width != width_ && !options_.unequal_rows)) {
    fail(ErrorCode::kInvalidArgument, "'{}': a row of {} values where the rows have {}", path_,
         width, width_ < 0 ? "at least one" : std::to_string(width_));
  }
  const AppendRows append = append_rows_of(batch.dtype());
  if (append == nullptr) {
    fail(ErrorCode::kInvalidArgument, "'{}' cannot take {}: convert it to float32 first", path_,
         dtype_name(batch.dtype()));
  }
  append(output_->text, batch, width, options_.delimiter);
  width_ = width;
  rows_ += rows;
  if (options_.kept != nullptr) {
    options_.kept->add(output_->text);
    output_->text.clear();
  }
  if (output_->text.size() >= kWriteBytes) write_out();
}

void CsvConsumer::finish() {
  if (output_ == nullptr) return;
  write_out();
  if (options_.kept != nullptr) {
    options_.kept->finish();
    options_.kept->read([this](ByteSpan piece) { output_->file.write(piece); });
  }
  output_->file.commit();
  output_.reset();
}

void CsvConsumer::write_out() {
  output_->file.write(bytes_of(output_->text));
  output_->text.clear();
}

}  // namespace harmonics::inline in_data
