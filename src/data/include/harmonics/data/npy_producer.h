// Rows of a NumPy file as samples.
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

inline constexpr std::size_t kMaxNpyAxes = 8;
inline constexpr std::size_t kMaxNpyHeader = std::size_t{64} << 10;

struct NpyOptions {
  /// The dtype of the samples: float32, float64, int64, int32, int8 or uint8, and bool for a file
  /// of them. Without it the file's own (int16 and uint16 become int32, uint32 becomes int64), or
  /// float32 when there is a scale.
  std::optional<DType> dtype;
  /// Every value is multiplied by it. Only for float dtypes.
  double scale = 1.0;
  /// A value that is not a number (NaN) is an Error, unless it is accepted here.
  bool allow_nan = false;
};

/// Reads what numpy.save wrote, of any size and either byte order; nothing but what is asked for is
/// held in memory. The first axis counts the samples; a file with one axis has samples of shape
/// {1}.
///
/// A missing, foreign or truncated file, an array in Fortran's order, one of objects, texts, halves
/// or complex numbers, or one with more than kMaxNpyAxes axes, is an Error of the constructor; a
/// value that does not fit the wanted integer dtype is one when it is read.
class NpyProducer final : public IndexedProducer, public RowPlaces {
 public:
  explicit NpyProducer(const std::filesystem::path& path, const NpyOptions& options = {});
  explicit NpyProducer(ByteSourcePtr source, const NpyOptions& options = {});
  ~NpyProducer() override;

  [[nodiscard]] TensorSpec sample_spec() const override;
  [[nodiscard]] std::int64_t row_count() const override;
  [[nodiscard]] std::string place_of(std::int64_t row, std::size_t element) const override;
  void read(std::span<const std::int64_t> rows, std::span<std::byte> out) override;

 private:
  std::unique_ptr<const ArrayRows> rows_;
};

}  // namespace harmonics::inline in_data
