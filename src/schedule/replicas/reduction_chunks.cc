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
void add(std::span<const T> left, std::span<const T> right, std::span<T> sum) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = left[i] + right[i];
}

/// Adds pieces that begin at these elements.
template <typename T>
void add_piece(std::span<const T> own, std::span<const T> values, bool own_first,
               std::span<T> sum) {
  if (own_first) {
    add<T>(own, values, sum);
  } else {
    add<T>(values, own, sum);
  }
}

template <typename T>
auto part_of(std::span<T> all, std::int64_t first, std::int64_t count) {
  return all.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
}

}  // namespace

ReductionLayout layout_of(const NamedTensors& tensors) {
  ReductionLayout layout;
  for (const auto& [name, tensor] : tensors) layout.emplace_back(name, tensor.spec());
  return layout;
}

ReductionChunks::ReductionChunks(ReductionLayout layout, std::size_t chunk_bytes, ChunkCut cut)
    : order_(std::move(layout)), tensors_(order_.size()) {
  ByteWriter text;
  text.number(static_cast<std::uint64_t>(chunk_bytes));
  text.number(static_cast<std::uint32_t>(cut));
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const auto& [name, spec] = order_[i];
    const bool sums = spec.dtype == DType::kFloat32 || spec.dtype == DType::kFloat64;
    if (!sums || !places_.emplace(name, i).second) {
      fail(ErrorCode::kInvalidArgument,
           "'{}' cannot be reduced: a reduction takes float32 and float64 tensors in main memory, "
           "each name once",
           name);
    }
    text.text(name);
    text.text(dtype_name(spec.dtype));
    text.text(shape_text(spec.shape));
  }
  layout_ = crc32c(text.bytes());
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const auto most =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(chunk_bytes / dtype_size(dtype)));
    if (cut == ChunkCut::kFull) {
      cut_full(dtype, most);
    } else {
      cut_by_tensor(dtype, most);
    }
  }
}

ReductionChunks::ReductionChunks(const NamedTensors& tensors, std::size_t chunk_bytes)
    : ReductionChunks(layout_of(tensors), chunk_bytes, ChunkCut::kFull) {
  for (const auto& [name, tensor] : tensors) give(name, tensor);
}

// The values of one tensor: into the last chunk while it has room, then into new ones.
void ReductionChunks::add_pieces(std::size_t tensor, std::int64_t most, std::int64_t& room) {
  const TensorSpec& spec = order_[tensor].second;
  const std::int64_t size = element_count(spec.shape);
  for (std::int64_t first = 0; first < size;) {
    if (room == 0) {
      chunks_.push_back({spec.dtype, 0, {}});
      room = most;
    }
    const std::int64_t count = std::min(room, size - first);
    chunks_.back().pieces.push_back({tensor, first, count});
    chunks_.back().count += count;
    first += count;
    room -= count;
  }
}

void ReductionChunks::cut_full(DType dtype, std::int64_t most) {
  std::int64_t room = 0;
  for (std::size_t i = 0; i < order_.size(); ++i) {
    if (order_[i].second.dtype == dtype) add_pieces(i, most, room);
  }
}

void ReductionChunks::cut_by_tensor(DType dtype, std::int64_t most) {
  std::vector<std::size_t> small;
  std::int64_t waiting = 0;  // values of these
  const auto send_small = [&] {
    std::int64_t room = 0;
    for (const std::size_t tensor : small) add_pieces(tensor, most, room);
    small.clear();
    waiting = 0;
  };
  for (std::size_t i = 0; i < order_.size(); ++i) {
    if (order_[i].second.dtype != dtype) continue;
    const std::int64_t size = element_count(order_[i].second.shape);
    if (size >= most) {
      std::int64_t room = 0;
      add_pieces(i, most, room);
      continue;
    }
    if (waiting + size > most) send_small();
    small.push_back(i);
    waiting += size;
  }
  send_small();
}

void ReductionChunks::give(const std::string& name, Tensor tensor) {
  const auto place = places_.find(name);
  if (place == places_.end() || !tensor.defined() ||
      tensor.spec() != order_[place->second].second || tensor.device().kind != DeviceKind::kCpu) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' cannot be reduced: {} was announced, in main memory, and another came", name,
         place == places_.end() ? "nothing of that name"
                                : shape_text(order_[place->second].second.shape));
  }
  const std::lock_guard lock(mutex_);
  if (tensors_[place->second].defined()) {
    fail(ErrorCode::kInvalidArgument, "'{}' cannot be reduced twice in a step", name);
  }
  tensors_[place->second] = std::move(tensor);
  came_.notify_all();
}

void ReductionChunks::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  came_.notify_all();
}

bool ReductionChunks::has_come(const Chunk& chunk) const {
  return std::ranges::all_of(chunk.pieces,
                             [&](const Piece& piece) { return tensors_[piece.tensor].defined(); });
}

bool ReductionChunks::is_there(std::size_t chunk) const {
  const std::lock_guard lock(mutex_);
  return has_come(chunks_[chunk]);
}

void ReductionChunks::await(std::size_t chunk) const {
  std::unique_lock lock(mutex_);
  came_.wait(lock, [&] { return cancelled_ || has_come(chunks_[chunk]); });
  if (!has_come(chunks_[chunk])) {
    fail(ErrorCode::kAborted, "the pass that computes chunk {} was broken off", chunk);
  }
}

TensorSpec ReductionChunks::spec(std::size_t chunk) const {
  return {{chunks_[chunk].count}, chunks_[chunk].dtype};
}

// Those that came do not change any more, so that they are read without the lock.
Tensor ReductionChunks::values(std::size_t chunk) const {
  const Chunk& wanted = chunks_[chunk];
  if (wanted.pieces.size() == 1) {
    const Piece& piece = wanted.pieces.front();
    const Tensor& whole = tensors_[piece.tensor];
    return whole.reshaped({whole.size()}).slice(piece.first, piece.first + piece.count);
  }
  const std::size_t width = dtype_size(wanted.dtype);
  Tensor packed = Tensor::empty({wanted.count}, wanted.dtype);
  std::byte* to = packed.mutable_bytes().data();
  for (const Piece& piece : wanted.pieces) {
    const std::size_t bytes = static_cast<std::size_t>(piece.count) * width;
    const std::size_t offset = static_cast<std::size_t>(piece.first) * width;
    std::memcpy(to, tensors_[piece.tensor].bytes().data() + offset, bytes);
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
    Tensor& target = to.find(order_[piece.tensor].first)->second;
    std::memcpy(target.mutable_bytes().data() + offset, from, bytes);
    from += bytes;
  }
}

void ReductionChunks::store_sum(std::size_t chunk, const Tensor& values, bool own_first,
                                NamedTensors& to) const {
  const Chunk& wanted = chunks_[chunk];
  std::int64_t from = 0;
  for (const Piece& piece : wanted.pieces) {
    const Tensor& own = tensors_[piece.tensor];
    Tensor& target = to.find(order_[piece.tensor].first)->second;
    const auto sum = [&]<typename T>(T /*of this type*/) {
      add_piece<T>(part_of(own.values<T>(), piece.first, piece.count),
                   part_of(values.values<T>(), from, piece.count), own_first,
                   part_of(target.mutable_values<T>(), piece.first, piece.count));
    };
    if (wanted.dtype == DType::kFloat32) {
      sum(float{});
    } else {
      sum(double{});
    }
    from += piece.count;
  }
}

NamedTensors ReductionChunks::results(const NamedTensors& spare) const {
  NamedTensors made;
  for (const auto& [name, spec] : order_) {
    const auto found = spare.find(name);
    const bool fits =
        found != spare.end() && found->second.defined() && found->second.spec() == spec;
    made.emplace(name, fits ? found->second : Tensor::empty(spec.shape, spec.dtype));
  }
  return made;
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
    add<float>(a.values<float>(), b.values<float>(), out.mutable_values<float>());
  } else {
    add<double>(a.values<double>(), b.values<double>(), out.mutable_values<double>());
  }
  return out;
}

}  // namespace harmonics::inline in_schedule
