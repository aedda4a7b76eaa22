// ReductionChunks: how named tensors are cut into the pieces of a reduction (private to schedule).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <harmonics/runtime/stage.h>

namespace harmonics::inline in_schedule {

/// A chunk is a run of values of one dtype, taken from the tensors in name order; all ranks that
/// hold the same names, shapes and dtypes cut alike. Shares the tensors' memory.
class ReductionChunks {
 public:
  /// A tensor that is not float32 or float64, or not in main memory, is an Error that names it.
  ReductionChunks(const NamedTensors& tensors, std::size_t chunk_bytes);
  ReductionChunks(const ReductionChunks&) = delete;
  ReductionChunks& operator=(const ReductionChunks&) = delete;

  [[nodiscard]] std::size_t count() const { return chunks_.size(); }
  /// A number that depends on names, shapes, dtypes and cuts: equal where the cuts are.
  [[nodiscard]] std::uint32_t layout() const { return layout_; }
  /// Type and length of a chunk.
  [[nodiscard]] TensorSpec spec(std::size_t chunk) const;
  /// The values of a chunk: a view where they lie in one tensor, else a copy.
  [[nodiscard]] Tensor values(std::size_t chunk) const;
  /// Copies a chunk's values into tensors of this layout.
  void store(std::size_t chunk, const Tensor& values, NamedTensors& to) const;

 private:
  struct Piece {
    NamedTensors::const_iterator tensor;
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  struct Chunk {
    DType dtype = DType::kFloat32;
    std::int64_t count = 0;
    std::vector<Piece> pieces;
  };
  void cut(DType dtype, std::size_t chunk_bytes);

  NamedTensors tensors_;
  std::vector<Chunk> chunks_;
  std::uint32_t layout_ = 0;
};

/// Uninitialised tensors of the same names, shapes and dtypes.
[[nodiscard]] NamedTensors empty_like(const NamedTensors& tensors);

/// a + b, element by element, in new memory. Both of one float dtype and size.
[[nodiscard]] Tensor sum_of(const Tensor& a, const Tensor& b);

}  // namespace harmonics::inline in_schedule
