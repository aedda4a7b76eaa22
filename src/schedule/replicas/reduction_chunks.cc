#include "reduction_chunks.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include <harmonics/base/bytes.h>
#include <harmonics/base/error.h>
#include <harmonics/transport/crc32c.h>

namespace harmonics::inline in_schedule {
namespace {

template <typename T>
void add(const Tensor& a, const Tensor& b, Tensor& out) {
  const std::span<const T> left = a.values<T>();
  const std::span<const T> right = b.values<T>();
  const std::span<T> sum = out.mutable_values<T>();
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = left[i] + right[i];
}

}  // namespace

ReductionChunks::ReductionChunks(const NamedTensors& tensors, std::size_t chunk_bytes)
    : tensors_(tensors) {
  ByteWriter layout;
  layout.number(static_cast<std::uint64_t>(chunk_bytes));
  for (const auto& [name, tensor] : tensors_) {
    const bool sums = tensor.dtype() == DType::kFloat32 || tensor.dtype() == DType::kFloat64;
    if (!tensor.defined() || !sums || tensor.device().kind != DeviceKind::kCpu) {
      fail(ErrorCode::kInvalidArgument,
           "'{}' cannot be reduced: a reduction takes float32 and float64 tensors in main memory",
           name);
    }
    layout.text(name);
    layout.text(dtype_name(tensor.dtype()));
    layout.text(shape_text(tensor.shape()));
  }
  layout_ = crc32c(layout.bytes());
  cut(DType::kFloat32, chunk_bytes);
  cut(DType::kFloat64, chunk_bytes);
}

void ReductionChunks::cut(DType dtype, std::size_t chunk_bytes) {
  const auto most =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(chunk_bytes / dtype_size(dtype)));
  std::int64_t room = 0;
  for (auto tensor = tensors_.cbegin(); tensor != tensors_.cend(); ++tensor) {
    if (tensor->second.dtype() != dtype) continue;
    for (std::int64_t first = 0; first < tensor->second.size();) {
      if (room == 0) {
        chunks_.push_back({dtype, 0, {}});
        room = most;
      }
      const std::int64_t count = std::min(room, tensor->second.size() - first);
      chunks_.back().pieces.push_back({tensor, first, count});
      chunks_.back().count += count;
      first += count;
      room -= count;
    }
  }
}

TensorSpec ReductionChunks::spec(std::size_t chunk) const {
  return {{chunks_[chunk].count}, chunks_[chunk].dtype};
}

Tensor ReductionChunks::values(std::size_t chunk) const {
  const Chunk& wanted = chunks_[chunk];
  if (wanted.pieces.size() == 1) {
    const Piece& piece = wanted.pieces.front();
    const Tensor& whole = piece.tensor->second;
    return whole.reshaped({whole.size()}).slice(piece.first, piece.first + piece.count);
  }
  const std::size_t width = dtype_size(wanted.dtype);
  Tensor packed = Tensor::empty({wanted.count}, wanted.dtype);
  std::byte* to = packed.mutable_bytes().data();
  for (const Piece& piece : wanted.pieces) {
    const std::size_t bytes = static_cast<std::size_t>(piece.count) * width;
    const std::size_t offset = static_cast<std::size_t>(piece.first) * width;
    std::memcpy(to, piece.tensor->second.bytes().data() + offset, bytes);
    to += bytes;
  }
  return packed;
}

void ReductionChunks::store(std::size_t chunk, const Tensor& values, NamedTensors& to) const {
  const Chunk& wanted = chunks_[chunk];
  const std::size_t width = dtype_size(wanted.dtype);
  const std::byte* from = values.bytes().data();
  for (const Piece& piece : wanted.pieces) {
    const std::size_t bytes = static_cast<std::size_t>(piece.count) * width;
    const std::size_t offset = static_cast<std::size_t>(piece.first) * width;
    std::memcpy(to.find(piece.tensor->first)->second.mutable_bytes().data() + offset, from, bytes);
    from += bytes;
  }
}

NamedTensors empty_like(const NamedTensors& tensors) {
  NamedTensors made;
  for (const auto& [name, tensor] : tensors) {
    made.emplace(name, Tensor::empty(tensor.shape(), tensor.dtype()));
  }
  return made;
}

Tensor sum_of(const Tensor& a, const Tensor& b) {
  Tensor out = Tensor::empty(a.shape(), a.dtype());
  if (a.dtype() == DType::kFloat32) {
    add<float>(a, b, out);
  } else {
    add<double>(a, b, out);
  }
  return out;
}

}  // namespace harmonics::inline in_schedule
