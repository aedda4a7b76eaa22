// WeightRows: a matrix of a source, row by row, as it lies in its file.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include <harmonics/models/weight_source.h>

namespace harmonics::inline in_models {

/// A tensor seen as a matrix of shape.front() rows (one of a single axis: one row). Packed and
/// 16-bit numbers stay as they are stored, so that a matrix takes what its file takes; a row is
/// turned into float32 when it is asked for, with the bits that WeightSource::read gives. Only a
/// matrix that is stored the other way round is copied. A value; any thread.
class WeightRows {
 public:
  WeightRows() = default;
  /// A tensor of whole numbers, or none of that name, is an Error.
  WeightRows(const WeightSource& source, std::string_view name);

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t columns() const { return columns_; }
  /// The row where it lies, or null where it has to be unpacked.
  [[nodiscard]] const float* plain(std::int64_t row) const;
  /// All rows one after another where they lie, or null.
  [[nodiscard]] const float* all_plain() const;
  /// Writes the row as float32; `out` has columns() numbers.
  void unpack(std::int64_t row, std::span<float> out) const;
  /// The bytes of a row as they are stored, row_bytes() of them: blocks of packing(), or plain
  /// numbers of dtype().
  [[nodiscard]] const std::byte* stored(std::int64_t row) const { return at(row); }
  [[nodiscard]] Packing packing() const { return packing_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] std::uint64_t row_bytes() const { return row_bytes_; }
  /// What is kept in memory beside the mapped file.
  [[nodiscard]] std::uint64_t copied_bytes() const { return copied_bytes_; }
  /// What is stored, and read for every product.
  [[nodiscard]] std::uint64_t stored_bytes() const {
    return row_bytes_ * static_cast<std::uint64_t>(rows_);
  }

 private:
  [[nodiscard]] const std::byte* at(std::int64_t row) const;

  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  Packing packing_ = Packing::kPlain;
  DType dtype_ = DType::kFloat32;
  std::uint64_t row_bytes_ = 0;
  std::uint64_t copied_bytes_ = 0;
  std::int64_t paired_heads_ = 0;
  const std::byte* data_ = nullptr;
  MappedFilePtr file_;
  Tensor copied_;
};

}  // namespace harmonics::inline in_models
