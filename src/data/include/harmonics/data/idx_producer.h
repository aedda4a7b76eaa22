// Samples of an IDX file, the format of the MNIST digits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include <harmonics/data/byte_source.h>
#include <harmonics/data/producer.h>
#include <harmonics/data/row_places.h>

namespace harmonics::inline in_data {

class ArrayRows;

inline constexpr std::size_t kMaxIdxAxes = 8;

struct IdxOptions {
  /// The dtype of the samples: float32, float64, int64, int32, int8 or uint8. Without it the file's
  /// own (16-bit integers, which tensors do not have, become int32), or float32 when there is a
  /// scale.
  std::optional<DType> dtype;
  /// Every value is multiplied by it. Only for float dtypes.
  double scale = 1.0;
  /// A value that is not a number (NaN) is an Error, unless it is accepted here.
  bool allow_nan = false;
};

/// Reads an uncompressed IDX file of any size and any of its element types; nothing but what is
/// asked for is held in memory. The first axis counts the samples; a file with one axis (labels)
/// has samples of shape {1}, as a single column of a CSV file has.
///
/// A missing, foreign or truncated file, or one with more than kMaxIdxAxes axes, is an Error of the
/// constructor; a value that does not fit the wanted integer dtype is one when it is read.
class IdxProducer final : public IndexedProducer, public RowPlaces {
 public:
  explicit IdxProducer(const std::filesystem::path& path, const IdxOptions& options = {});
  explicit IdxProducer(ByteSourcePtr source, const IdxOptions& options = {});
  ~IdxProducer() override;

  [[nodiscard]] TensorSpec sample_spec() const override;
  [[nodiscard]] std::int64_t row_count() const override;
  [[nodiscard]] std::string place_of(std::int64_t row, std::size_t element) const override;
  void read(std::span<const std::int64_t> rows, std::span<std::byte> out) override;

 private:
  std::unique_ptr<const ArrayRows> rows_;
};

}  // namespace harmonics::inline in_data
