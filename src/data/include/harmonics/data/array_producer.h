// ArrayProducer: what producers over a file of one array share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <harmonics/data/producer.h>
#include <harmonics/data/row_places.h>

namespace harmonics::inline in_data {

class ArrayRows;

/// What is wanted of the numbers of a file.
struct ArrayOptions {
  /// The dtype of the samples: float32, float64, int64, int32, int8 or uint8, and bool for a file
  /// of them. Without it the file's own (int16 and uint16, which tensors do not have, become int32,
  /// uint32 becomes int64), or float32 when there is a scale.
  std::optional<DType> dtype;
  /// Every value is multiplied by it. Only for float dtypes.
  double scale = 1.0;
  /// A value that is not a number (NaN) is an Error, unless it is accepted here.
  bool allow_nan = false;
};

/// The rows of an array along its first axis; nothing but what is asked for is held in memory. An
/// array of one axis has samples of shape {1}, as a single column of a CSV file has. A value that
/// does not fit the wanted integer dtype is an Error when it is read.
class ArrayProducer : public IndexedProducer, public RowPlaces {
 public:
  ~ArrayProducer() override;

  [[nodiscard]] TensorSpec sample_spec() const override;
  [[nodiscard]] std::int64_t row_count() const override;
  [[nodiscard]] std::string place_of(std::int64_t row, std::size_t element) const override;
  void read(std::span<const std::int64_t> rows, std::span<std::byte> out) override;

 protected:
  explicit ArrayProducer(std::unique_ptr<const ArrayRows> rows);

 private:
  std::unique_ptr<const ArrayRows> rows_;
};

}  // namespace harmonics::inline in_data
