// Rows of a file that is a head and one array of numbers, such as IDX and NumPy have (private to
// data).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <harmonics/data/array_producer.h>
#include <harmonics/data/byte_source.h>

#include "element_conversion.h"

namespace harmonics::inline in_data {

/// What a head says: where the numbers begin, how many there are (the first axis counts the
/// samples) and what one is.
struct ArrayHead {
  Shape shape;
  std::uint64_t data_offset = 0;
  std::size_t element_bytes = 0;
  DType dtype = DType::kFloat32;
  /// The conversion into a dtype, or null where there is none.
  Convert (*convert_to)(DType) = nullptr;
};

/// Nothing but what is asked for is held in memory. Any thread.
class ArrayRows {
 public:
  /// A file of another size than its head says, or wishes that do not fit, are an Error.
  ArrayRows(ByteSourcePtr source, ArrayHead head, const ArrayOptions& wishes);

  [[nodiscard]] const TensorSpec& spec() const { return spec_; }
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] std::string place_of(std::int64_t row, std::size_t element) const;
  /// Rows within the count, into exactly their bytes. A value that does not fit the dtype, and NaN
  /// where it is not allowed, is an Error that says where.
  void read(std::span<const std::int64_t> rows, std::span<std::byte> out) const;

 private:
  ByteSourcePtr source_;
  double scale_;
  bool refuses_nan_;
  TensorSpec spec_;
  std::int64_t count_ = 0;
  std::uint64_t data_offset_ = 0;
  std::size_t row_elements_ = 0;
  std::size_t row_bytes_ = 0;  // in the file
  Convert convert_ = nullptr;
};

}  // namespace harmonics::inline in_data
