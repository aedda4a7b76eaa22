#include <harmonics/models/weight_source.h>

#include <cstring>

#include <harmonics/base/error.h>
#include <harmonics/base/nearest_word.h>

#include "unpack.h"

namespace harmonics::inline in_models {
namespace {

[[noreturn]] void misfit(const MappedFile& file, std::string_view name, const std::string& what) {
  fail(ErrorCode::kDataLoss, "'{}': tensor '{}' {}", file.path().string(), name, what);
}

void check_limits(const MappedFile& file, const std::string& name, const WeightEntry& entry) {
  if (name.empty() || name.size() > kMaxWeightName) {
    misfit(file, name.substr(0, 40), format("has a name of {} bytes", name.size()));
  }
  if (entry.stored.shape.size() > kMaxWeightAxes || entry.shape.size() > kMaxWeightAxes) {
    misfit(file, name, format("has more than {} axes", kMaxWeightAxes));
  }
  const PackingSize block = packing_size(entry.packing);
  if (entry.packing == Packing::kPlain) return;
  if (entry.stored.dtype != DType::kFloat32 || entry.stored.shape.empty() ||
      entry.stored.shape.back() % block.numbers != 0) {
    misfit(
        file, name,
        format("of {} does not divide into blocks of {}", spec_text(entry.stored), block.numbers));
  }
}

// Rows and columns of a tensor that is seen as a matrix.
struct MatrixSize {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

MatrixSize matrix_of(const Shape& shape) {
  if (shape.empty()) return {1, 1};
  const std::int64_t rows = shape.front();
  return {rows, rows == 0 ? 0 : element_count(shape) / rows};
}

bool is_rearranged(const WeightLayout& layout) { return layout != WeightLayout{}; }

void check_layout(const MappedFile& file, const std::string& name, const WeightEntry& entry) {
  const WeightLayout& layout = entry.layout;
  const auto refuse = [&] {
    misfit(file, name,
           format("of {} cannot be read as {}", spec_text(entry.stored), shape_text(entry.shape)));
  };
  if (!is_rearranged(layout)) {
    if (element_count(entry.stored.shape) != element_count(entry.shape)) refuse();
    return;
  }
  MatrixSize from = matrix_of(entry.stored.shape);
  if (layout.transposed) {
    if (entry.stored.shape.size() != 2 || entry.packing != Packing::kPlain) refuse();
    std::swap(from.rows, from.columns);
  }
  const MatrixSize to = matrix_of(entry.shape);
  if (to.columns != from.columns || layout.first_row < -1 || layout.begin() > from.rows ||
      to.rows > from.rows - layout.begin() || (layout.first_row < 0 && to.rows != from.rows)) {
    refuse();
  }
  if (layout.paired_heads < 0 ||
      (layout.paired_heads > 0 && to.rows % (2 * layout.paired_heads) != 0)) {
    refuse();
  }
}

void check_entry(const MappedFile& file, const std::string& name, const WeightEntry& entry) {
  check_limits(file, name, entry);
  const std::uint64_t size = file.bytes().size(), bytes = entry.stored_bytes();
  if (entry.offset > size || bytes > size - entry.offset) {
    misfit(file, name,
           format("of {} claims {} bytes from {}, the file has {}", spec_text(entry.stored), bytes,
                  entry.offset, size));
  }
  check_layout(file, name, entry);
}

// The plain numbers from `element` on; unpacked where they are packed.
Tensor numbers_of(const MappedFilePtr& file, const WeightEntry& entry, std::int64_t element,
                  Shape shape) {
  const TensorSpec spec{std::move(shape), entry.stored.dtype};
  const std::int64_t count = element_count(spec.shape);
  const ByteSpan all = file->bytes().subspan(entry.offset, entry.stored_bytes());
  if (entry.packing != Packing::kPlain) {
    const PackingSize block = packing_size(entry.packing);
    Tensor out = Tensor::empty(spec.shape, DType::kFloat32);
    const ByteSpan packed =
        all.subspan(static_cast<std::size_t>(element / block.numbers * block.bytes),
                    static_cast<std::size_t>(count / block.numbers * block.bytes));
    unpack(entry.packing, packed, out.mutable_values<float>());
    return out;
  }
  const std::size_t width = dtype_size(spec.dtype);
  const ByteSpan bytes = all.subspan(static_cast<std::size_t>(element) * width,
                                     static_cast<std::size_t>(count) * width);
  if (bytes.empty() || reinterpret_cast<std::uintptr_t>(bytes.data()) % width != 0) {
    Tensor out = Tensor::empty(spec.shape, spec.dtype);
    if (!bytes.empty()) std::memcpy(out.mutable_bytes().data(), bytes.data(), bytes.size());
    return out;
  }
  // The bytes of tensors never change, so that a mapping for reading serves.
  auto* const data = const_cast<std::byte*>(bytes.data());
  return {spec, std::make_shared<Buffer>(data, bytes.size(), Device{}, [file] {})};
}

Tensor transposed(const ByteSpan stored, const WeightEntry& entry) {
  const auto width = dtype_size(entry.stored.dtype);
  const auto stored_columns = static_cast<std::size_t>(entry.stored.shape[1]);
  const MatrixSize to = matrix_of(entry.shape);
  Tensor out = Tensor::empty(entry.shape, entry.stored.dtype);
  std::byte* next = out.mutable_bytes().data();
  for (std::int64_t row = 0; row < to.rows; ++row) {
    const auto column = static_cast<std::size_t>(row + entry.layout.begin());
    for (std::int64_t i = 0; i < to.columns; ++i, next += width) {
      const std::size_t at = (static_cast<std::size_t>(i) * stored_columns + column) * width;
      std::memcpy(next, stored.data() + at, width);
    }
  }
  return out;
}

Tensor without_pairs(const Tensor& in, std::int64_t heads) {
  const MatrixSize size = matrix_of(in.shape());
  const std::size_t row_bytes = in.byte_size() / static_cast<std::size_t>(size.rows);
  const std::int64_t head = size.rows / heads, half = head / 2;
  Tensor out = Tensor::empty(in.shape(), in.dtype());
  for (std::int64_t row = 0; row < size.rows; ++row) {
    const std::int64_t within = row % head;
    const std::int64_t from = row - within + 2 * (within % half) + within / half;
    std::memcpy(out.mutable_bytes().data() + static_cast<std::size_t>(row) * row_bytes,
                in.bytes().data() + static_cast<std::size_t>(from) * row_bytes, row_bytes);
  }
  return out;
}

}  // namespace

std::uint64_t WeightEntry::stored_bytes() const {
  if (packing == Packing::kPlain) return static_cast<std::uint64_t>(byte_count(stored));
  const PackingSize block = packing_size(packing);
  return static_cast<std::uint64_t>(element_count(stored.shape) / block.numbers * block.bytes);
}

WeightSource::WeightSource(std::vector<MappedFilePtr> files, WeightEntries entries,
                           std::map<std::string, std::string> metadata)
    : files_(std::move(files)), entries_(std::move(entries)), metadata_(std::move(metadata)) {
  if (entries_.size() > kMaxWeightTensors || files_.size() > kMaxWeightFiles) {
    fail(ErrorCode::kResourceExhausted,
         "{} tensors in {} files: a source of weights may have {} in {}", entries_.size(),
         files_.size(), kMaxWeightTensors, kMaxWeightFiles);
  }
  for (const auto& [name, entry] : entries_) {
    const MappedFile& file = *files_.at(entry.file);
    try {
      check_entry(file, name, entry);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidArgument) throw;
      misfit(file, name, format("is out of bounds: {}", error.what()));
    }
  }
}

void WeightSource::hold(std::map<std::string, Tensor> tensors,
                        const std::map<std::string, std::string>& source_names) {
  for (auto& [name, tensor] : tensors) {
    WeightEntry entry;
    entry.file = kHeldInMemory;
    entry.stored = tensor.spec();
    entry.shape = tensor.shape();
    const auto theirs = source_names.find(name);
    entry.source_name = theirs == source_names.end() ? name : theirs->second;
    if (!entries_.emplace(name, std::move(entry)).second) {
      fail(ErrorCode::kAlreadyExists, "tensor '{}' is there twice", name);
    }
    held_.emplace(name, std::move(tensor));
  }
}

const WeightEntry& WeightSource::at(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found != entries_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [each, entry] : entries_) names.push_back(each);
  fail(ErrorCode::kNotFound, "'{}' has no tensor '{}'{}",
       files_.empty() ? "" : files_.front()->path().string(), name,
       suggestion(std::string(name), names));
}

Tensor WeightSource::read(std::string_view name) const {
  const WeightEntry& entry = at(name);
  if (entry.file == kHeldInMemory) return held_.find(name)->second;
  const MappedFilePtr& file = files_.at(entry.file);
  const WeightLayout& layout = entry.layout;
  if (layout.transposed) {
    return transposed(file->bytes().subspan(entry.offset, entry.stored_bytes()), entry);
  }
  const std::int64_t first = layout.begin() * matrix_of(entry.stored.shape).columns;
  Tensor tensor = numbers_of(file, entry, first, entry.shape);
  if (layout.paired_heads == 0 || tensor.size() == 0) return tensor;
  return without_pairs(tensor, layout.paired_heads);
}

void WeightSource::forget(std::string_view name) const {
  const WeightEntry& entry = at(name);
  if (entry.file == kHeldInMemory) return;
  files_.at(entry.file)->forget(entry.offset, entry.stored_bytes());
}

}  // namespace harmonics::inline in_models
