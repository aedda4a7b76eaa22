#include <harmonics/data/idx_producer.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "element_conversion.h"

namespace harmonics::inline in_data {
namespace {

struct ElementType {
  unsigned char code;
  std::size_t bytes;
  DType dtype;
  Convert (*convert_to)(DType);
};

constexpr std::array<ElementType, 6> kElementTypes = {{
    {0x08, 1, DType::kUInt8, convert_to<std::uint8_t, std::endian::big>},
    {0x09, 1, DType::kInt8, convert_to<std::int8_t, std::endian::big>},
    {0x0B, 2, DType::kInt32, convert_to<std::int16_t, std::endian::big>},
    {0x0C, 4, DType::kInt32, convert_to<std::int32_t, std::endian::big>},
    {0x0D, 4, DType::kFloat32, convert_to<float, std::endian::big>},
    {0x0E, 8, DType::kFloat64, convert_to<double, std::endian::big>},
}};

const ElementType& element_type(const ByteSource& file, const std::array<char, 4>& magic) {
  if (magic[0] == '\x1f' && magic[1] == '\x8b') {
    fail(ErrorCode::kInvalidArgument, "'{}' is compressed with gzip: unpack it first (gunzip)",
         file.path());
  }
  if (magic[0] == 0 && magic[1] == 0) {
    for (const ElementType& type : kElementTypes) {
      if (type.code == static_cast<unsigned char>(magic[2])) return type;
    }
  }
  fail(ErrorCode::kInvalidArgument, "'{}' is not an IDX file: it begins with {:02x} {:02x} {:02x}",
       file.path(), static_cast<unsigned char>(magic[0]), static_cast<unsigned char>(magic[1]),
       static_cast<unsigned char>(magic[2]));
}

}  // namespace

struct IdxProducer::Table {
  Table(ByteSourcePtr opened, const IdxOptions& options);

  const ByteSourcePtr source;
  const ByteSource& file = *source;
  double scale;
  bool refuses_nan;
  TensorSpec spec;
  std::int64_t rows = 0;
  std::uint64_t data_offset = 0;
  std::size_t row_elements = 0;
  std::size_t row_bytes = 0;  // in the file
  Convert convert = nullptr;
};

IdxProducer::Table::Table(ByteSourcePtr opened, const IdxOptions& options)
    : source(std::move(opened)), scale(options.scale), refuses_nan(!options.allow_nan) {
  std::array<char, 4> magic{};
  if (file.size() < magic.size()) {
    fail(ErrorCode::kInvalidArgument, "'{}' is not an IDX file: it has {} bytes", file.path(),
         file.size());
  }
  file.read_at(0, magic);
  const ElementType& type = element_type(file, magic);
  const std::size_t axes = static_cast<unsigned char>(magic[3]);
  if (axes == 0 || axes > kMaxIdxAxes) {
    fail(ErrorCode::kInvalidArgument, "'{}' has {} axes; 1 to {} can be read", file.path(), axes,
         kMaxIdxAxes);
  }
  data_offset = magic.size() + 4 * axes;
  std::array<char, 4 * kMaxIdxAxes> lengths{};
  file.read_at(magic.size(), std::span(lengths).first(4 * axes));
  Shape shape;
  for (std::size_t i = 0; i < axes; ++i) {
    shape.push_back(element_at<std::uint32_t, std::endian::big>(lengths.data() + 4 * i));
  }
  const auto bytes = static_cast<std::uint64_t>(element_count(shape));
  if (bytes > (file.size() - data_offset) / type.bytes ||
      bytes * type.bytes != file.size() - data_offset) {
    fail(ErrorCode::kDataLoss,
         "'{}' is truncated or foreign: shape {} of {}-byte elements does not come to its {} bytes",
         file.path(), shape_text(shape), type.bytes, file.size());
  }
  rows = shape[0];
  refuses_nan = refuses_nan && is_floating(type.dtype);
  shape.erase(shape.begin());
  if (shape.empty()) shape.push_back(1);
  spec = {shape, options.dtype.value_or(scale == 1.0 ? type.dtype : DType::kFloat32)};
  row_elements = static_cast<std::size_t>(element_count(shape));
  row_bytes = row_elements * type.bytes;
  convert = type.convert_to(spec.dtype);
  if (convert == nullptr) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' cannot be read as {}: use float32, float64, int64, int32, int8 or uint8",
         file.path(), dtype_name(spec.dtype));
  }
  if (!std::isfinite(scale) || (scale != 1.0 && !is_floating(spec.dtype))) {
    fail(ErrorCode::kInvalidArgument,
         "'{}': a scale of {} with dtype {}; it must be finite and needs "
         "a float dtype",
         file.path(), scale, dtype_name(spec.dtype));
  }
}

IdxProducer::IdxProducer(const std::filesystem::path& path, const IdxOptions& options)
    : IdxProducer(open_file(path.string()), options) {}

IdxProducer::IdxProducer(ByteSourcePtr source, const IdxOptions& options)
    : table_(std::make_unique<const Table>(std::move(source), options)) {}

IdxProducer::~IdxProducer() = default;

TensorSpec IdxProducer::sample_spec() const { return table_->spec; }
std::int64_t IdxProducer::row_count() const { return table_->rows; }

std::string IdxProducer::place_of(std::int64_t row, std::size_t element) const {
  return format("'{}' sample {}, element {}", table_->file.path(), row, element);
}

void IdxProducer::require_numbers(std::int64_t row, const std::byte* sample) const {
  if (const auto element = first_nan(table_->spec.dtype, sample, table_->row_elements)) {
    fail(ErrorCode::kInvalidArgument,
         "{}: NaN is no number to compute with: mend it, leave the sample out, or accept it with "
         "nan=allow",
         place_of(row, *element));
  }
}

void IdxProducer::read(std::span<const std::int64_t> rows, std::span<std::byte> out) {
  check_read(rows, out);
  const Table& table = *table_;
  std::vector<char> raw(table.row_bytes);
  std::byte* to = out.data();
  for (const std::int64_t row : rows) {
    table.file.read_at(table.data_offset + static_cast<std::uint64_t>(row) * table.row_bytes, raw);
    if (!table.convert(raw.data(), table.row_elements, table.scale, to)) {
      fail(ErrorCode::kOutOfRange, "'{}' sample {}: a value is no {} or out of its range",
           table.file.path(), row, dtype_name(table.spec.dtype));
    }
    if (table.refuses_nan) require_numbers(row, to);
    to += sample_bytes(table.spec);
  }
}

}  // namespace harmonics::inline in_data
