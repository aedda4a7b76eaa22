#include <harmonics/transport/packing.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include <harmonics/base/bytes.h>
#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/transport/message.h>

#include "packed_rows.h"

namespace harmonics::inline in_transport {
namespace {

constexpr std::uint32_t kPackedMagic = 0x4b415048;  // "HPAK"
constexpr std::uint8_t kPackedVersion = 1;
constexpr std::size_t kFixedBytes = 16;
constexpr std::size_t kScaleBytes = sizeof(float);
// Rows with a scale of their own have at least so many values, where a sample has them.
constexpr std::int64_t kShortestRow = 32;

/// Rows of a tensor, and how they lie when packed.
struct RowLayout {
  std::size_t row = 0;  // values in one
  std::size_t rows = 0;
  int bits = 0;

  [[nodiscard]] bool has_scales() const { return bits < 16; }
  [[nodiscard]] std::size_t row_bytes() const { return code_bytes(row, bits); }
  [[nodiscard]] std::uint64_t bytes(std::size_t axes) const {
    return kFixedBytes + sizeof(std::int64_t) * axes +
           std::uint64_t{rows} * (row_bytes() + (has_scales() ? kScaleBytes : 0));
  }
};

// The last axes, as many as make a row of some length, but never those of several samples.
std::size_t row_of(const Shape& shape) {
  std::int64_t row = 1;
  for (std::size_t axis = shape.size(); axis > 1 && row < kShortestRow; --axis) {
    row *= shape[axis - 1];
  }
  return static_cast<std::size_t>(row);
}

RowLayout layout_of(const TensorSpec& spec, int bits) {
  const auto count = static_cast<std::size_t>(element_count(spec.shape));
  RowLayout layout{row_of(spec.shape), 0, bits};
  layout.rows = layout.row == 0 ? 0 : count / layout.row;
  return layout;
}

/// Reads and writes rows of any floating dtype as float32.
class RowAccess {
 public:
  explicit RowAccess(const Tensor& tensor) : data_(tensor.bytes().data()), dtype_(tensor.dtype()) {}

  /// In place where it is float32, else in `scratch`.
  [[nodiscard]] std::span<const float> read(std::size_t first, std::span<float> scratch) const {
    if (dtype_ == DType::kFloat32) {
      return {reinterpret_cast<const float*>(data_) + first, scratch.size()};
    }
    const std::byte* const from = data_ + first * dtype_size(dtype_);
    dtype_ == DType::kBFloat16 ? unpack_bfloat16(from, scratch) : unpack_float16(from, scratch);
    return scratch;
  }
  static void write(Tensor& tensor, std::size_t first, std::span<const float> values) {
    std::byte* const to = tensor.mutable_bytes().data() + first * dtype_size(tensor.dtype());
    switch (tensor.dtype()) {
      case DType::kFloat32: std::memcpy(to, values.data(), values.size_bytes()); break;
      case DType::kBFloat16: pack_bfloat16(values, to); break;
      default: pack_float16(values, to);
    }
  }

 private:
  const std::byte* data_;
  DType dtype_;
};

Tensor packed_to(const Tensor& tensor, const RowLayout& layout) {
  const Shape& shape = tensor.shape();
  ByteWriter head;
  head.number(kPackedMagic);
  head.number(kPackedVersion);
  head.number(static_cast<std::uint8_t>(layout.bits));
  head.number(static_cast<std::uint8_t>(tensor.dtype()));
  head.number(static_cast<std::uint8_t>(shape.size()));
  head.number(static_cast<std::uint64_t>(layout.row));
  for (const std::int64_t extent : shape) head.number(extent);

  Tensor out =
      Tensor::empty({static_cast<std::int64_t>(layout.bytes(shape.size()))}, DType::kUInt8);
  std::byte* to = out.mutable_bytes().data();
  std::memcpy(to, head.bytes().data(), head.bytes().size());
  std::byte* scales = to + head.bytes().size();
  std::byte* codes = scales + (layout.has_scales() ? layout.rows * kScaleBytes : 0);
  const RowAccess rows(tensor);
  std::vector<float> scratch(layout.row);
  for (std::size_t row = 0; row < layout.rows; ++row, codes += layout.row_bytes()) {
    const std::span<const float> values = rows.read(row * layout.row, scratch);
    if (!layout.has_scales()) {
      pack_bfloat16(values, codes);
      continue;
    }
    const float scale = pack_row(values, layout.bits, codes);
    std::memcpy(scales + row * kScaleBytes, &scale, kScaleBytes);
  }
  return out;
}

[[noreturn]] void not_packed(std::string_view why) {
  fail(ErrorCode::kDataLoss, "a packed tensor came broken: {}", why);
}

// Head of packed bytes, checked against their number.
TensorSpec read_head(ByteReader& in, std::size_t bytes, RowLayout& layout) {
  if (in.number<std::uint32_t>() != kPackedMagic) not_packed("it does not begin as one");
  if (in.number<std::uint8_t>() != kPackedVersion) not_packed("it is of another version");
  layout.bits = in.number<std::uint8_t>();
  TensorSpec spec;
  const auto dtype = in.number<std::uint8_t>();
  spec.dtype = static_cast<DType>(dtype);
  const auto axes = in.number<std::uint8_t>();
  const auto row = in.number<std::uint64_t>();
  if (dtype >= kDTypeCount || axes > kMaxMessageAxes) not_packed("its type or shape is none");
  for (std::size_t axis = 0; axis < axes; ++axis) spec.shape.push_back(in.number<std::int64_t>());
  bool possible = std::ranges::find(kBoundaryBits, layout.bits) != kBoundaryBits.end();
  for (const std::int64_t extent : spec.shape) possible = possible && extent >= 0;
  try {
    possible = possible && is_packable(spec, layout.bits);
  } catch (const Error&) {  // more values than a tensor may have
    possible = false;
  }
  if (!possible) not_packed("nobody packs such a tensor");
  const int bits = layout.bits;
  layout = layout_of(spec, bits);
  if (layout.row != row) not_packed("its rows have another length");
  if (layout.bytes(axes) != bytes) {
    not_packed(format("{} bytes were due and {} came", layout.bytes(axes), bytes));
  }
  return spec;
}

}  // namespace

void check_bits(int bits, std::string_view what) {
  if (std::ranges::find(kBoundaryBits, bits) != kBoundaryBits.end()) return;
  fail(ErrorCode::kInvalidArgument, "{}: {} is no number of bits; choose one of 32, 16, 8, 4", what,
       bits);
}

BoundaryBits BoundaryPacking::of(std::string_view boundary) const {
  BoundaryBits bits = all;
  const auto found = named.find(boundary);
  if (found == named.end()) return bits;
  if (found->second.activations != 0) bits.activations = found->second.activations;
  if (found->second.gradients != 0) bits.gradients = found->second.gradients;
  return bits;
}

bool BoundaryPacking::packs() const {
  return all.packs() ||
         std::ranges::any_of(named, [](const auto& one) { return one.second.packs(); });
}

bool is_packable(const TensorSpec& spec, int bits) {
  const bool known = spec.dtype == DType::kFloat32 || spec.dtype == DType::kBFloat16 ||
                     spec.dtype == DType::kFloat16;
  if (!known || spec.shape.empty() || bits == 0 || bits >= kExactBits) return false;
  const RowLayout layout = layout_of(spec, bits);
  const std::size_t packed = layout.row_bytes() + (layout.has_scales() ? kScaleBytes : 0);
  return packed < layout.row * dtype_size(spec.dtype);
}

std::uint64_t packed_bytes(const TensorSpec& spec, int bits) {
  if (!is_packable(spec, bits)) return static_cast<std::uint64_t>(byte_count(spec));
  return layout_of(spec, bits).bytes(spec.shape.size());
}

Tensor pack_tensor(const Tensor& tensor, int bits) {
  if (!tensor.defined() || !is_packable(tensor.spec(), bits)) return tensor;
  return packed_to(tensor, layout_of(tensor.spec(), bits));
}

Tensor unpack_tensor(const Tensor& packed) {
  if (!packed.defined() || packed.dtype() != DType::kUInt8 || packed.shape().size() != 1) {
    not_packed("it is no row of bytes");
  }
  const ByteSpan bytes = packed.bytes();
  ByteReader in(bytes, "packed tensor");
  RowLayout layout;
  const TensorSpec spec = read_head(in, bytes.size(), layout);
  Tensor out = Tensor::empty(spec.shape, spec.dtype);
  const std::byte* scales = bytes.data() + (bytes.size() - in.left());
  const std::byte* codes = scales + (layout.has_scales() ? layout.rows * kScaleBytes : 0);
  std::vector<float> scratch(layout.row);
  for (std::size_t row = 0; row < layout.rows; ++row, codes += layout.row_bytes()) {
    std::span<float> values = scratch;
    if (spec.dtype == DType::kFloat32) {
      values = out.mutable_values<float>().subspan(row * layout.row, layout.row);
    }
    if (layout.has_scales()) {
      float scale = 0;
      std::memcpy(&scale, scales + row * kScaleBytes, kScaleBytes);
      if (!unpack_row(codes, layout.bits, scale, values)) {
        not_packed(format("row {} has a scale or codes that do not exist", row));
      }
    } else {
      unpack_bfloat16(codes, values);
    }
    if (spec.dtype != DType::kFloat32) RowAccess::write(out, row * layout.row, values);
  }
  return out;
}

Tensor pack_with_residual(const Tensor& gradient, int bits, Tensor& residual) {
  if (!gradient.defined() || !is_packable(gradient.spec(), bits)) return gradient;
  const RowLayout layout = layout_of(gradient.spec(), bits);
  Tensor sum = Tensor::empty(gradient.shape(), DType::kFloat32);
  const bool goes_on = residual.defined() && residual.shape() == gradient.shape();
  const RowAccess rows(gradient);
  std::vector<float> scratch(layout.row);
  for (std::size_t row = 0; row < layout.rows; ++row) {
    const std::size_t first = row * layout.row;
    const std::span<const float> values = rows.read(first, scratch);
    const std::span<float> to = sum.mutable_values<float>().subspan(first, layout.row);
    std::ranges::copy(values, to.begin());
    if (!goes_on) continue;
    const std::span<const float> kept = residual.values<float>().subspan(first, layout.row);
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += kept[i];
  }
  Tensor packed = pack_tensor(sum, bits);
  const Tensor sent = unpack_tensor(packed);
  residual = Tensor::empty(gradient.shape(), DType::kFloat32);
  const std::span<const float> whole = sum.values<float>();
  const std::span<const float> arrives = sent.values<float>();
  const std::span<float> lost = residual.mutable_values<float>();
  for (std::size_t i = 0; i < lost.size(); ++i) {
    const float rest = whole[i] - arrives[i];
    lost[i] = std::isfinite(rest) ? rest : 0.0F;
  }
  return packed;
}

}  // namespace harmonics::inline in_transport
