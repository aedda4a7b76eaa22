#include <harmonics/data/npy_producer.h>

#include <string>

#include <harmonics/base/error.h>

#include "array_rows.h"
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

ArrayHead npy_head(const ByteSource& file) {
  const NpyHeader header = read_npy_header(file);
  const NpyElement& element = npy_element_of(file, header.descr);
  if (header.shape.empty()) {
    fail(ErrorCode::kInvalidArgument, "'{}' holds one number: an array needs an axis of samples",
         file.path());
  }
  if (header.fortran_order && header.shape.size() > 1) {
    fail(ErrorCode::kUnimplemented,
         "'{}' is in Fortran's order: save numpy.ascontiguousarray of it", file.path());
  }
  return {header.shape, header.data_offset, element.bytes, element.dtype,
          header.descr.starts_with('>') ? element.big : element.little};
}

}  // namespace

NpyProducer::NpyProducer(const std::filesystem::path& path, const NpyOptions& options)
    : NpyProducer(open_file(path.string()), options) {}

NpyProducer::NpyProducer(const ByteSourcePtr& source, const NpyOptions& options)
    : ArrayProducer(std::make_unique<const ArrayRows>(source, npy_head(*source), options)) {}

}  // namespace harmonics::inline in_data
