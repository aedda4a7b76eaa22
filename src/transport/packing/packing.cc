#include <harmonics/transport/packing.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include <harmonics/base/bytes.h>
#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/transport/message.h>

#include "packed_rows.h"

namespace harmonics::inline in_transport {
namespace {

constexpr std::uint32_t kPackedMagic = 0x4b415048;  // "HPAK"
constexpr std::uint8_t kPackedVersion = 2;
constexpr std::size_t kFixedBytes = 16;
constexpr std::size_t kScaleBytes = sizeof(float);
// Rows with a scale of their own have at least so many values, where a sample has them.
constexpr std::int64_t kShortestRow = 32;
// A sample of at least so many rows begins with one that has more bits.
constexpr std::size_t kRowsWithLead = 64;

/// Rows of a tensor, and how they lie when packed.
struct RowLayout {
  std::size_t row = 0;  // values in one
  std::size_t rows = 0;
  std::size_t lead_every = 0;  // rows from one lead to the next; 0: there are none
  std::size_t value_bytes = 0;
  int bits = 0;

  /// The bits of a row, kExactBits where it stays as it is.
  [[nodiscard]] int bits_of(std::size_t index) const {
    if (lead_every == 0 || index % lead_every != 0) return bits;
    return bits == 8 ? kExactBits : 8;
  }
  /// A row of so many bits, without and with its scale.
  [[nodiscard]] std::size_t code_size(int wanted) const {
    return wanted == kExactBits ? row * value_bytes : code_bytes(row, wanted);
  }
  [[nodiscard]] std::size_t size(int wanted) const {
    return code_size(wanted) + (has_scale(wanted) ? kScaleBytes : 0);
  }
  [[nodiscard]] static bool has_scale(int wanted) { return wanted < 16; }
  [[nodiscard]] std::size_t leads() const { return lead_every == 0 ? 0 : rows / lead_every; }
  [[nodiscard]] std::size_t scale_bytes() const {
    if (!has_scale(bits)) return 0;
    return kScaleBytes * (has_scale(bits_of(0)) ? rows : rows - leads());
  }
  [[nodiscard]] std::uint64_t bytes(std::size_t axes) const {
    return kFixedBytes + sizeof(std::int64_t) * axes + std::uint64_t{rows - leads()} * size(bits) +
           std::uint64_t{leads()} * size(bits_of(0));
  }
};

// The last axes, as many as make a row of some length, but never those of several samples.
std::size_t row_of(const Shape& shape) {
  std::int64_t row = 1;
  for (std::size_t axis = shape.size(); axis > 1 && row < kShortestRow; --axis) {
    row *= std::min(shape[axis - 1], kMaxElements);  // strangers say more; they are refused later
  }
  return static_cast<std::size_t>(row);
}

RowLayout layout_of(const TensorSpec& spec, int bits) {
  RowLayout layout{row_of(spec.shape), 0, 0, dtype_size(spec.dtype), bits};
  if (layout.row == 0) return layout;
  layout.rows = static_cast<std::size_t>(element_count(spec.shape)) / layout.row;
  if (layout.rows == 0 || !RowLayout::has_scale(bits)) return layout;
  const std::size_t of_sample = layout.rows / static_cast<std::size_t>(spec.shape.front());
  if (of_sample >= kRowsWithLead && spec.shape.size() > 1) layout.lead_every = of_sample;
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
  std::byte* codes = scales + layout.scale_bytes();
  const RowAccess rows(tensor);
  std::vector<float> scratch(layout.row);
  for (std::size_t row = 0; row < layout.rows; ++row) {
    const int bits = layout.bits_of(row);
    std::byte* const at = std::exchange(codes, codes + layout.code_size(bits));
    if (bits == kExactBits) {
      std::memcpy(at, tensor.bytes().data() + row * layout.code_size(bits), layout.code_size(bits));
      continue;
    }
    const std::span<const float> values = rows.read(row * layout.row, scratch);
    if (!RowLayout::has_scale(bits)) {
      pack_bfloat16(values, at);
      continue;
    }
    const float scale = pack_row(values, bits, at);
    std::memcpy(scales, &scale, kScaleBytes);
    scales += kScaleBytes;
  }
  return out;
}

[[noreturn]] void not_packed(std::string_view why) {
  fail(ErrorCode::kDataLoss, "a packed tensor came broken: {}", why);
}

// Head of packed bytes, checked against their number.
TensorSpec read_head(ByteReader& in, std::size_t bytes, RowLayout& layout) {
  if (in.number<std::uint32_t>() != kPackedMagic) not_packed("it does not begin as one");
  const int version = in.number<std::uint8_t>();
  if (version != kPackedVersion) {
    not_packed(
        format("it has version {} and this end reads version {}: run the same release on "
               "both ends",
               version, int{kPackedVersion}));
  }
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
  return layout.size(bits) < layout.size(kExactBits);
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
  const std::byte* codes = scales + layout.scale_bytes();
  std::vector<float> scratch(layout.row);
  for (std::size_t row = 0; row < layout.rows; ++row) {
    const int bits = layout.bits_of(row);
    const std::byte* const at = std::exchange(codes, codes + layout.code_size(bits));
    if (bits == kExactBits) {
      std::memcpy(out.mutable_bytes().data() + row * layout.code_size(bits), at,
                  layout.code_size(bits));
      continue;
    }
    std::span<float> values = scratch;
    if (spec.dtype == DType::kFloat32) {
      values = out.mutable_values<float>().subspan(row * layout.row, layout.row);
    }
    if (RowLayout::has_scale(bits)) {
      float scale = 0;
      std::memcpy(&scale, scales, kScaleBytes);
      scales += kScaleBytes;
      if (!unpack_row(at, bits, scale, values)) {
        not_packed(format("row {} has a scale or codes that do not exist", row));
      }
    } else {
      unpack_bfloat16(at, values);
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
