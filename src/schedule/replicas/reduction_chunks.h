// ReductionChunks: how named tensors are cut into the pieces of a reduction (private to schedule).
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <harmonics/runtime/stage.h>
#include <harmonics/schedule/reduction.h>

namespace harmonics::inline in_schedule {

/// How tensors share chunks.
enum class ChunkCut {
  /// One after another without gaps, so that all chunks but the last are full.
  kFull,
  /// A tensor that fills a chunk has chunks of its own, and leaves as soon as it is there; small
  /// ones share chunks.
  kByTensor,
};

/// A chunk is a run of values of one dtype, taken from the tensors in the order of the layout; all
/// ranks that are given the same layout cut alike. Tensors may come later and from any thread; what
/// came is shared, not copied. The rest belongs to one thread.
class ReductionChunks {
 public:
  /// A tensor that is not float32 or float64, or a name that stands twice, is an Error.
  ReductionChunks(ReductionLayout layout, std::size_t chunk_bytes, ChunkCut cut);
  /// Of tensors that are all there, in name order.
  ReductionChunks(const NamedTensors& tensors, std::size_t chunk_bytes);
  ReductionChunks(const ReductionChunks&) = delete;
  ReductionChunks& operator=(const ReductionChunks&) = delete;

  /// A tensor that is not in the layout, came before or is not in main memory is an Error.
  void give(const std::string& name, Tensor tensor);
  /// Wakes who waits: what has not come will not come.
  void cancel();
  [[nodiscard]] bool is_there(std::size_t chunk) const;
  /// Waits until all of the chunk is there; one that will not come is an Error (kAborted).
  void await(std::size_t chunk) const;

  [[nodiscard]] std::size_t count() const { return chunks_.size(); }
  /// A number that depends on names, shapes, dtypes and cuts: equal where the cuts are.
  [[nodiscard]] std::uint32_t layout() const { return layout_; }
  /// Type and length of a chunk.
  [[nodiscard]] TensorSpec spec(std::size_t chunk) const;
  /// The values of a chunk that is there: a view where they lie in one tensor, else a copy.
  [[nodiscard]] Tensor values(std::size_t chunk) const;
  /// Copies a chunk's values into tensors of this layout.
  void store(std::size_t chunk, const Tensor& values, NamedTensors& to) const;
  /// Writes own + values (`own_first`) or values + own into tensors of this layout.
  void store_sum(std::size_t chunk, const Tensor& values, bool own_first, NamedTensors& to) const;
  /// Tensors of this layout: those of `spare` that fit, else uninitialised ones.
  [[nodiscard]] NamedTensors results(const NamedTensors& spare) const;

 private:
  struct Piece {
    std::size_t tensor = 0;  // its place in the layout
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  struct Chunk {
    DType dtype = DType::kFloat32;
    std::int64_t count = 0;
    std::vector<Piece> pieces;
  };
  void cut_full(DType dtype, std::int64_t most);
  void cut_by_tensor(DType dtype, std::int64_t most);
  void add_pieces(std::size_t tensor, std::int64_t most, std::int64_t& room);
  [[nodiscard]] bool has_come(const Chunk& chunk) const;

  const ReductionLayout order_;
  std::map<std::string, std::size_t, std::less<>> places_;
  std::vector<Chunk> chunks_;
  std::uint32_t layout_ = 0;
  mutable std::mutex mutex_;
  mutable std::condition_variable came_;
  std::vector<Tensor> tensors_;  // by place; undefined until it came
  bool cancelled_ = false;
};

/// Names and specs in name order.
[[nodiscard]] ReductionLayout layout_of(const NamedTensors& tensors);

/// Uninitialised tensors of the same names, shapes and dtypes.
[[nodiscard]] NamedTensors empty_like(const NamedTensors& tensors);

/// a + b, element by element, in new memory. Both of one float dtype and size.
[[nodiscard]] Tensor sum_of(const Tensor& a, const Tensor& b);

}  // namespace harmonics::inline in_schedule
