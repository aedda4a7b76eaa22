#include <harmonics/models/weight_rows.h>

#include <cstring>

#include <harmonics/base/error.h>

#include "unpack.h"

namespace harmonics::inline in_models {
WeightRows::WeightRows(const WeightSource& source, std::string_view name) {
  const WeightEntry& entry = source.at(name);
  dtype_ = entry.stored.dtype;
  if (dtype_ != DType::kFloat32 && dtype_ != DType::kFloat16 && dtype_ != DType::kBFloat16) {
    fail(ErrorCode::kUnimplemented, "tensor '{}' holds {}: float32, float16 and bfloat16 are read",
         name, dtype_name(dtype_));
  }
  rows_ = entry.shape.size() < 2 ? 1 : entry.shape.front();
  columns_ = rows_ == 0 ? 0 : element_count(entry.shape) / rows_;
  if (entry.file == kHeldInMemory || entry.layout.transposed) {
    copied_ = source.read(name);
    copied_bytes_ = copied_.byte_size();
    row_bytes_ = static_cast<std::uint64_t>(columns_) * dtype_size(dtype_);
    data_ = copied_.bytes().data();
    return;
  }
  packing_ = entry.packing;
  const PackingSize block = packing_size(packing_);
  const auto numbers = static_cast<std::uint64_t>(columns_);
  row_bytes_ = packing_ == Packing::kPlain ? numbers * dtype_size(dtype_)
                                           : numbers / static_cast<std::uint64_t>(block.numbers) *
                                                 static_cast<std::uint64_t>(block.bytes);
  // A tensor of one axis has rows of one number in its layout.
  const std::uint64_t before =
      entry.shape.size() < 2 ? static_cast<std::uint64_t>(entry.layout.begin()) * dtype_size(dtype_)
                             : static_cast<std::uint64_t>(entry.layout.begin()) * row_bytes_;
  file_ = source.files().at(entry.file);
  if (entry.shape.size() < 2 && entry.layout.paired_heads > 0) {
    copied_ = source.read(name);
    copied_bytes_ = copied_.byte_size();
    data_ = copied_.bytes().data();
    return;
  }
  paired_heads_ = entry.layout.paired_heads;
  data_ = file_->bytes().data() + entry.offset + before;
}

const std::byte* WeightRows::at(std::int64_t row) const {
  if (paired_heads_ > 0) {
    const std::int64_t head = rows_ / paired_heads_, half = head / 2, within = row % head;
    row = row - within + 2 * (within % half) + within / half;
  }
  return data_ + static_cast<std::uint64_t>(row) * row_bytes_;
}

const float* WeightRows::plain(std::int64_t row) const {
  if (packing_ != Packing::kPlain || dtype_ != DType::kFloat32) return nullptr;
  const std::byte* const from = at(row);
  const bool aligned = reinterpret_cast<std::uintptr_t>(from) % alignof(float) == 0;
  return aligned ? reinterpret_cast<const float*>(from) : nullptr;
}

const float* WeightRows::all_plain() const {
  return paired_heads_ > 0 || rows_ == 0 ? nullptr : plain(0);
}

void WeightRows::unpack(std::int64_t row, std::span<float> out) const {
  const std::byte* const from = at(row);
  if (packing_ != Packing::kPlain) {
    harmonics::in_models::unpack(packing_, {from, static_cast<std::size_t>(row_bytes_)}, out);
    return;
  }
  if (dtype_ == DType::kFloat32) {
    std::memcpy(out.data(), from, out.size_bytes());
    return;
  }
  widen(from, dtype_ == DType::kFloat16, out);
}

}  // namespace harmonics::inline in_models
