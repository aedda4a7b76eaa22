// Rows of a NumPy file as samples.
#pragma once

#include <cstddef>
#include <filesystem>

#include <harmonics/data/array_producer.h>
#include <harmonics/data/byte_source.h>

namespace harmonics::inline in_data {

inline constexpr std::size_t kMaxNpyAxes = 8;
inline constexpr std::size_t kMaxNpyHeader = std::size_t{64} << 10;

using NpyOptions = ArrayOptions;

/// Reads what numpy.save wrote, of any size and either byte order. A missing, foreign or truncated
/// file, an array in Fortran's order, one of objects, texts, halves or complex numbers, or one with
/// more than kMaxNpyAxes axes, is an Error of the constructor.
class NpyProducer final : public ArrayProducer {
 public:
  explicit NpyProducer(const std::filesystem::path& path, const NpyOptions& options = {});
  explicit NpyProducer(const ByteSourcePtr& source, const NpyOptions& options = {});
};

}  // namespace harmonics::inline in_data
