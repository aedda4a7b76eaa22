#include <harmonics/data/idx_producer.h>

#include <array>
#include <string>

#include <harmonics/base/error.h>

#include "array_rows.h"

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

ArrayHead idx_head(const ByteSource& file) {
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
  std::array<char, 4 * kMaxIdxAxes> lengths{};
  file.read_at(magic.size(), std::span(lengths).first(4 * axes));
  Shape shape;
  for (std::size_t i = 0; i < axes; ++i) {
    shape.push_back(element_at<std::uint32_t, std::endian::big>(lengths.data() + 4 * i));
  }
  return {shape, magic.size() + 4 * axes, type.bytes, type.dtype, type.convert_to};
}

}  // namespace

IdxProducer::IdxProducer(const std::filesystem::path& path, const IdxOptions& options)
    : IdxProducer(open_file(path.string()), options) {}

IdxProducer::IdxProducer(const ByteSourcePtr& source, const IdxOptions& options)
    : ArrayProducer(std::make_unique<const ArrayRows>(source, idx_head(*source), options)) {}

}  // namespace harmonics::inline in_data
