#include <harmonics/data/npy_producer.h>

#include <cmath>
#include <string>
#include <vector>

#include <harmonics/base/error.h>

#include "element_conversion.h"
#include "npy_header.h"

namespace harmonics::inline in_data {
namespace {

// Bytes of 0 and 1, as they are.
bool copy_truths(const char* in, std::size_t count, double, std::byte* out) {
  for (std::size_t i = 0; i < count; ++i) {
    if (in[i] != 0 && in[i] != 1) return false;
    out[i] = static_cast<std::byte>(in[i]);
  }
  return true;
}

template <std::endian kOrder>
Convert truths_to(DType dtype) {
  return dtype == DType::kBool ? copy_truths : convert_to<std::uint8_t, kOrder>(dtype);
}

struct NpyElement {
  std::string_view code;  // descr without its byte order
  std::size_t bytes;
  DType dtype;
  Convert (*little)(DType);
  Convert (*big)(DType);
};

template <typename T>
constexpr NpyElement npy_element(std::string_view code, DType dtype) {
  return {code, sizeof(T), dtype, convert_to<T, std::endian::little>,
          convert_to<T, std::endian::big>};
}

constexpr NpyElement kNpyElements[] = {
    npy_element<float>("f4", DType::kFloat32),
    npy_element<double>("f8", DType::kFloat64),
    npy_element<std::int64_t>("i8", DType::kInt64),
    npy_element<std::int32_t>("i4", DType::kInt32),
    npy_element<std::int16_t>("i2", DType::kInt32),
    npy_element<std::int8_t>("i1", DType::kInt8),
    npy_element<std::uint32_t>("u4", DType::kInt64),
    npy_element<std::uint16_t>("u2", DType::kInt32),
    npy_element<std::uint8_t>("u1", DType::kUInt8),
    {"b1", 1, DType::kBool, truths_to<std::endian::little>, truths_to<std::endian::big>},
};

const NpyElement& npy_element_of(const ByteSource& file, const std::string& descr) {
  for (const NpyElement& element : kNpyElements) {
    const bool ordered = descr.starts_with('<') || descr.starts_with('>') ||
                         (descr.starts_with('|') && element.bytes == 1);
    if (ordered && descr.substr(1) == element.code) return element;
  }
  fail(ErrorCode::kUnimplemented,
       "'{}' holds elements of the kind '{}', which cannot be read: convert the array with "
       "astype('float32') or astype('int64')",
       file.path(), descr);
}

}  // namespace

struct NpyProducer::Array {
  Array(ByteSourcePtr opened, const NpyOptions& options);

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

NpyProducer::Array::Array(ByteSourcePtr opened, const NpyOptions& options)
    : source(std::move(opened)), scale(options.scale), refuses_nan(!options.allow_nan) {
  const NpyHeader header = read_npy_header(file);
  const NpyElement& element = npy_element_of(file, header.descr);
  Shape shape = header.shape;
  if (shape.empty()) {
    fail(ErrorCode::kInvalidArgument, "'{}' holds one number: an array needs an axis of samples",
         file.path());
  }
  if (header.fortran_order && shape.size() > 1) {
    fail(ErrorCode::kUnimplemented,
         "'{}' is in Fortran's order: save numpy.ascontiguousarray of it", file.path());
  }
  data_offset = header.data_offset;
  const auto count = static_cast<std::uint64_t>(element_count(shape));
  if (count > (file.size() - data_offset) / element.bytes ||
      count * element.bytes != file.size() - data_offset) {
    fail(ErrorCode::kDataLoss,
         "'{}' is truncated or foreign: shape {} of {}-byte elements does not come to its {} bytes",
         file.path(), shape_text(shape), element.bytes, file.size());
  }
  rows = shape[0];
  shape.erase(shape.begin());
  if (shape.empty()) shape.push_back(1);
  spec = {shape, options.dtype.value_or(scale == 1.0 ? element.dtype : DType::kFloat32)};
  refuses_nan = refuses_nan && is_floating(element.dtype);
  row_elements = static_cast<std::size_t>(element_count(shape));
  row_bytes = row_elements * element.bytes;
  convert = (header.descr.starts_with('>') ? element.big : element.little)(spec.dtype);
  if (convert == nullptr) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' cannot be read as {}: use float32, float64, int64, int32, int8 or uint8",
         file.path(), dtype_name(spec.dtype));
  }
  if (!std::isfinite(scale) || (scale != 1.0 && !is_floating(spec.dtype))) {
    fail(ErrorCode::kInvalidArgument,
         "'{}': a scale of {} with dtype {}; it must be finite and needs a float dtype",
         file.path(), scale, dtype_name(spec.dtype));
  }
}

NpyProducer::NpyProducer(const std::filesystem::path& path, const NpyOptions& options)
    : NpyProducer(open_file(path.string()), options) {}

NpyProducer::NpyProducer(ByteSourcePtr source, const NpyOptions& options)
    : array_(std::make_unique<const Array>(std::move(source), options)) {}

NpyProducer::~NpyProducer() = default;

TensorSpec NpyProducer::sample_spec() const { return array_->spec; }
std::int64_t NpyProducer::row_count() const { return array_->rows; }

std::string NpyProducer::place_of(std::int64_t row, std::size_t element) const {
  return format("'{}' sample {}, element {}", array_->file.path(), row, element);
}

void NpyProducer::read(std::span<const std::int64_t> rows, std::span<std::byte> out) {
  check_read(rows, out);
  const Array& array = *array_;
  std::vector<char> raw(array.row_bytes);
  std::byte* to = out.data();
  for (const std::int64_t row : rows) {
    array.file.read_at(array.data_offset + static_cast<std::uint64_t>(row) * array.row_bytes, raw);
    if (!array.convert(raw.data(), array.row_elements, array.scale, to)) {
      fail(ErrorCode::kOutOfRange, "'{}' sample {}: a value is no {} or out of its range",
           array.file.path(), row, dtype_name(array.spec.dtype));
    }
    const auto nan =
        array.refuses_nan ? first_nan(array.spec.dtype, to, array.row_elements) : std::nullopt;
    if (nan) {
      fail(ErrorCode::kInvalidArgument,
           "{}: NaN is no number to compute with: mend it, leave the sample out, or accept it with "
           "nan=allow",
           place_of(row, *nan));
    }
    to += sample_bytes(array.spec);
  }
}

}  // namespace harmonics::inline in_data
