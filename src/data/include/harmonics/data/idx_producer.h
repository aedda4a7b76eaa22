// Samples of an IDX file, the format of the MNIST digits.
#pragma once

#include <cstddef>
#include <filesystem>

#include <harmonics/data/array_producer.h>
#include <harmonics/data/byte_source.h>

namespace harmonics::inline in_data {

inline constexpr std::size_t kMaxIdxAxes = 8;

using IdxOptions = ArrayOptions;

/// Reads an uncompressed IDX file of any size and any of its element types. A missing, foreign or
/// truncated file, or one with more than kMaxIdxAxes axes, is an Error of the constructor.
class IdxProducer final : public ArrayProducer {
 public:
  explicit IdxProducer(const std::filesystem::path& path, const IdxOptions& options = {});
  explicit IdxProducer(const ByteSourcePtr& source, const IdxOptions& options = {});
};

}  // namespace harmonics::inline in_data
