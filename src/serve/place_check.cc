#include "place_check.h"

#include <algorithm>
#include <functional>
#include <span>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/base/random.h>

namespace harmonics::inline in_serve {
namespace {

// The length of open axes in batches that are only tried.
constexpr std::int64_t kShortAxis = 16;
// Odd, so that no output is lost behind those after it.
constexpr std::size_t kHashFactor = 1'000'003;

Shape tried_shape(const ModelCard& card, const TensorCard& input, std::int64_t rows) {
  Shape shape = input.sample.shape;
  for (const NamedExtent& extent : input.extents) {
    const auto axis = std::ranges::find(card.axes, extent.axis, &AxisNode::name);
    const std::int64_t ceiling = axis == card.axes.end() ? 1 : axis->ceiling;
    shape[extent.position] = extent.at(std::min(kShortAxis, ceiling));
  }
  shape.insert(shape.begin(), rows);
  return shape;
}

// Numbers of either sign and of several sizes; zeros and ones where they may be looked up.
void fill_sample(const TensorCard& input, std::int64_t sample, std::span<std::byte> row) {
  Random chance(static_cast<std::uint64_t>(sample), input.name);
  if (input.sample.dtype == DType::kFloat32) {
    const std::span numbers(reinterpret_cast<float*>(row.data()), row.size() / sizeof(float));
    for (float& number : numbers) {
      number = static_cast<float>(chance.below(2'000'001)) / 1'000'000.0F - 1.0F;
    }
  } else if (!is_floating(input.sample.dtype)) {
    const std::size_t step = dtype_size(input.sample.dtype);
    for (std::size_t i = 0; i < row.size(); i += step) {  // little-endian
      row[i] = static_cast<std::byte>(input.id_limit == 1 ? 0 : chance.below(2));
    }
  }
}

std::int64_t numbers_of(const std::vector<TensorCard>& tensors) {
  std::int64_t sum = 0;
  for (const TensorCard& one : tensors) sum += element_count(one.sample.shape);
  return sum;
}

std::int64_t rounds_for(const ModelCard& card) {
  if (numbers_of(card.outputs) >= PlaceCheck::kFewOutputs) return PlaceCheck::kRounds;
  return numbers_of(card.inputs) >= PlaceCheck::kFewInputs ? PlaceCheck::kRoundsOfFewOutputs
                                                           : PlaceCheck::kRoundsOfSmallModel;
}

std::size_t hash_of_row(const Tensor& output, std::int64_t row) {
  const Tensor one = output.slice(row, row + 1);
  return std::hash<std::string_view>{}(
      {reinterpret_cast<const char*>(one.bytes().data()), one.byte_size()});
}

}  // namespace

PlaceCheck::PlaceCheck(const ModelCard& card) : card_(card) {
  if (!card.axes.empty()) {
    sizes_ = {1};
    return;
  }
  sizes_ = {card.batch_rows};
  for (std::int64_t size = 1; size < card.batch_rows; size *= 2) sizes_.push_back(size);
  for (const std::int64_t size : sizes_) known_[size] = {};
  rounds_ = rounds_for(card);
}

Tensor PlaceCheck::inputs_of(const TensorCard& input, const Trial& trial) const {
  Tensor tensor = Tensor::zeros(tried_shape(card_, input, trial.rows), input.sample.dtype);
  const std::span<std::byte> bytes = tensor.mutable_bytes();
  const std::size_t row = bytes.size() / static_cast<std::size_t>(trial.rows);
  for (std::int64_t place = 0; place < trial.rows; ++place) {
    fill_sample(input, (trial.first + place) % kSamples,
                bytes.subspan(static_cast<std::size_t>(place) * row, row));
  }
  return tensor;
}

std::optional<TensorsByName> PlaceCheck::next() {
  if (!has_next()) return std::nullopt;
  const Trial trial{sizes_[next_size_], round_};
  if (++next_size_ == sizes_.size()) {
    next_size_ = 0;
    ++round_;
  }
  trials_.push_back(trial);
  TensorsByName inputs;
  for (const TensorCard& input : card_.inputs) {
    inputs.emplace(input.name, inputs_of(input, trial));
  }
  return inputs;
}

void PlaceCheck::take(const TensorsByName& outputs) {
  const Trial trial = trials_.front();
  trials_.pop_front();
  if (known_.empty()) return;
  Known& size = known_[trial.rows];
  for (std::int64_t place = 0; place < trial.rows; ++place) {
    std::size_t bits = 0;
    for (const TensorCard& output : card_.outputs) {
      bits = bits * kHashFactor + hash_of_row(outputs.find(output.name)->second, place);
    }
    const auto [known, is_new] = size.bits.emplace((trial.first + place) % kSamples, bits);
    if (!is_new && known->second != bits) size.same = false;
  }
}

std::vector<std::int64_t> PlaceCheck::sizes() const {
  std::vector<std::int64_t> found;
  const auto largest =
      std::find_if(known_.rbegin(), known_.rend(), [](const auto& one) { return one.second.same; });
  const bool has_company =
      largest != known_.rend() && (largest->first > 1 || card_.batch_rows == 1);
  if (!has_company) return found;
  const auto agrees = [&](const Known& size) {
    return size.same && std::ranges::all_of(size.bits, [&](const auto& one) {
             const auto measure = largest->second.bits.find(one.first);
             return measure == largest->second.bits.end() || measure->second == one.second;
           });
  };
  for (const auto& [size, known] : known_) {
    if (size <= largest->first && agrees(known)) found.push_back(size);
  }
  return found;
}

TensorsByName PlaceCheck::idle_inputs(const ModelCard& card, std::int64_t rows) {
  TensorsByName inputs;
  for (const TensorCard& input : card.inputs) {
    inputs.emplace(input.name, Tensor::zeros(tried_shape(card, input, rows), input.sample.dtype));
  }
  return inputs;
}

}  // namespace harmonics::inline in_serve
