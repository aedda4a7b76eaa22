#include <harmonics/data/synthetic_producer.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include <harmonics/base/random.h>

namespace harmonics::inline in_data {
namespace {

template <typename T>
void fill_one_hot(std::uint64_t width, Random random, std::int64_t count, std::byte* out) {
  std::uint64_t hot = 0;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i, out += sizeof(T)) {
    if (i % width == 0) hot = i + random.below(width);
    const T value = i == hot ? T{1} : T{0};
    std::memcpy(out, &value, sizeof(T));
  }
}

template <typename T>
void fill(const SyntheticOptions& options, Random random, std::int64_t count, std::byte* out) {
  const auto bound = static_cast<std::uint64_t>(options.below);
  if (options.kind == SyntheticKind::kOneHot) return fill_one_hot<T>(bound, random, count, out);
  for (std::int64_t i = 0; i < count; ++i, out += sizeof(T)) {
    T value{};
    switch (options.kind) {
      case SyntheticKind::kUniform: value = static_cast<T>(random.uniform()); break;
      case SyntheticKind::kNormal: value = static_cast<T>(random.normal()); break;
      case SyntheticKind::kIntegers: value = static_cast<T>(random.below(bound)); break;
      case SyntheticKind::kOneHot: break;
    }
    std::memcpy(out, &value, sizeof(T));
  }
}

void fill(const SyntheticOptions& options, const TensorSpec& spec, Random random, std::byte* out) {
  const std::int64_t count = element_count(spec.shape);
  switch (spec.dtype) {
    case DType::kFloat32: return fill<float>(options, random, count, out);
    case DType::kFloat64: return fill<double>(options, random, count, out);
    case DType::kInt64: return fill<std::int64_t>(options, random, count, out);
    case DType::kInt32: return fill<std::int32_t>(options, random, count, out);
    case DType::kInt8: return fill<std::int8_t>(options, random, count, out);
    case DType::kUInt8: return fill<std::uint8_t>(options, random, count, out);
    case DType::kBool: return fill<bool>(options, random, count, out);
    case DType::kBFloat16:
    case DType::kFloat16: break;
  }
}

// How many integers from 0 on the dtype holds exactly, at most the largest int64.
std::int64_t integers_in(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return std::int64_t{1} << 24;
    case DType::kFloat64: return std::int64_t{1} << 53;
    case DType::kInt64: return std::numeric_limits<std::int64_t>::max();
    case DType::kInt32: return std::int64_t{1} << 31;
    case DType::kInt8: return 128;
    case DType::kUInt8: return 256;
    case DType::kBool: return 2;
    case DType::kBFloat16:
    case DType::kFloat16: break;
  }
  return 0;
}

TensorSpec checked_spec(const SyntheticOptions& options) {
  const bool integers = options.kind == SyntheticKind::kIntegers;
  const DType dtype = options.dtype.value_or(integers ? DType::kInt64 : DType::kFloat32);
  if (integers_in(dtype) == 0 || (!integers && !is_floating(dtype))) {
    fail(ErrorCode::kInvalidArgument, "random {} cannot be made as {}: use float32 or float64{}",
         integers ? "integers" : "numbers", dtype_name(dtype),
         integers ? " or an integer dtype" : "");
  }
  if (integers && (options.below < 1 || options.below > integers_in(dtype))) {
    fail(ErrorCode::kInvalidArgument, "random integers below {} as {}: the bound must be 1 to {}",
         options.below, dtype_name(dtype), integers_in(dtype));
  }
  if (options.kind == SyntheticKind::kOneHot &&
      (options.below < 1 || options.shape.empty() || options.shape.back() != options.below)) {
    fail(ErrorCode::kInvalidArgument,
         "one-hot rows of {} classes have {} numbers, the shape {} does not end with that",
         options.below, options.below, shape_text(options.shape));
  }
  static_cast<void>(element_count(options.shape));
  return {options.shape, dtype};
}

}  // namespace

SyntheticProducer::SyntheticProducer(std::int64_t size, SyntheticOptions options)
    : size_(size), options_(std::move(options)), spec_(checked_spec(options_)) {
  if (size < 0) fail(ErrorCode::kInvalidArgument, "a data set cannot have {} samples", size);
}

void SyntheticProducer::read(std::span<const std::int64_t> rows, std::span<std::byte> out) {
  check_read(rows, out);
  const std::uint64_t key = random_key(options_.seed, "synthetic");
  std::byte* to = out.data();
  for (const std::int64_t row : rows) {
    fill(options_, spec_, Random(key, static_cast<std::uint64_t>(row)), to);
    to += sample_bytes(spec_);
  }
}

EndlessSyntheticProducer::EndlessSyntheticProducer(SyntheticOptions options)
    : options_(std::move(options)), spec_(checked_spec(options_)) {}

std::optional<Tensor> EndlessSyntheticProducer::next() {
  Tensor sample = Tensor::empty(spec_.shape, spec_.dtype);
  if (next_rows(1, sample.mutable_bytes()) == 0) return std::nullopt;
  return sample;
}

std::int64_t EndlessSyntheticProducer::next_rows(std::int64_t count, std::span<std::byte> out) {
  const std::uint64_t run = random_key(options_.seed, "endless") + position_.order.seed;
  const std::uint64_t key = random_key(random_key(run, "run") + position_.order.epoch, "epoch");
  std::byte* to = out.data();
  for (std::int64_t i = 0; i < count; ++i) {
    fill(options_, spec_, Random(key, static_cast<std::uint64_t>(position_.delivered)), to);
    ++position_.delivered;
    to += sample_bytes(spec_);
  }
  return count;
}

void EndlessSyntheticProducer::skip(std::int64_t count) {
  position_.delivered += std::max<std::int64_t>(count, 0);
}

}  // namespace harmonics::inline in_data
