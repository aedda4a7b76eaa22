#include <harmonics/dispatch/tensor_results.h>

#include <algorithm>

#include <harmonics/base/error.h>

#include "tensor_axis.h"

namespace harmonics::inline in_dispatch {
namespace {

constexpr auto kKeys = [](const auto& pair) -> const std::string& { return pair.first; };

// The rows of a run, counted from its first one.
RowRange within(RowRange rows, RowRange run) {
  return {rows.begin - run.begin, rows.end - run.begin};
}

std::size_t needed_axis(const std::string& what, const Tensor& part, int axis) {
  const std::optional<std::size_t> there = axis_of(part.shape(), axis);
  if (!there) {
    fail(ErrorCode::kInvalidArgument, "{} of {} has no axis {} to join along", what,
         spec_text(part.spec()), axis);
  }
  return *there;
}

bool same_bytes(const Tensor& one, const Tensor& other) {
  return one.spec() == other.spec() && std::ranges::equal(one.bytes(), other.bytes());
}

// A tensor like `part`, with `rows` along the axis.
Tensor make_whole(const Tensor& part, std::size_t axis, std::size_t rows) {
  Shape shape = part.shape();
  shape[axis] = static_cast<std::int64_t>(rows);
  return Tensor::empty(std::move(shape), part.dtype());
}

}  // namespace

// --- one tensor ---

void TensorSink::begin(RowRange rows, std::size_t /*lanes*/) {
  rows_ = rows;
  whole_ = {};
  made_ = std::make_unique<std::once_flag>();
}

void TensorSink::put(std::size_t /*lane*/, RowRange rows, Tensor&& part) {
  const std::size_t axis = needed_axis("an output", part, axis_);
  if (static_cast<std::size_t>(part.shape()[axis]) != rows.size()) {
    fail(ErrorCode::kInvalidArgument, "{} rows went in, an output of {} came out", rows.size(),
         spec_text(part.spec()));
  }
  std::call_once(*made_, [&] { whole_ = make_whole(part, axis, rows_.size()); });
  write_along(whole_, part, axis, within(rows, rows_));
}

Tensor TensorSink::take() { return std::move(whole_); }

// --- by name ---

void TensorMapSink::begin(RowRange rows, std::size_t /*lanes*/) {
  rows_ = rows;
  whole_.clear();
  made_ = std::make_unique<std::once_flag>();
}

void TensorMapSink::make(RowRange rows, const TensorMap& part) {
  if (part.empty()) fail(ErrorCode::kInvalidArgument, "the model returned no outputs");
  TensorMap whole;
  for (const auto& [name, tensor] : part) {
    const std::size_t axis = needed_axis("output '" + name + "'", tensor, axis_);
    whole.emplace(name, make_whole(tensor, axis, rows.size()));
  }
  whole_ = std::move(whole);
}

void TensorMapSink::put(std::size_t /*lane*/, RowRange rows, TensorMap&& part) {
  const bool all_unbatched = std::ranges::all_of(
      part, [&](const auto& one) { return length_along(one.second.shape(), axis_) == 1; });
  if (all_unbatched && rows.size() > 1 && !part.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "{} rows went in, but every output has length 1 along axis {}: at least one must be "
         "batched",
         rows.size(), axis_);
  }
  std::call_once(*made_, [&] { make(rows_, part); });
  if (!std::ranges::equal(part, whole_, {}, kKeys, kKeys)) {
    fail(ErrorCode::kInvalidArgument,
         "a sub-batch gave {} outputs of other names than the first one's {}", part.size(),
         whole_.size());
  }
  for (const auto& [name, tensor] : part) {
    const std::size_t length = length_along(tensor.shape(), axis_);
    if (length != 1 && length != rows.size()) {
      fail(ErrorCode::kInvalidArgument, "output '{}' of {} for {} rows", name,
           spec_text(tensor.spec()), rows.size());
    }
    write_along(whole_.find(name)->second, tensor,
                needed_axis("output '" + name + "'", tensor, axis_), within(rows, rows_));
  }
}

TensorMap TensorMapSink::take() { return std::exchange(whole_, {}); }

// --- derivatives ---

void DerivativeSink::set_unbatched_inputs(std::vector<std::string> names) {
  unbatched_ = std::move(names);
}

void DerivativeSink::begin(RowRange rows, std::size_t lanes) {
  rows_ = rows;
  values_.begin(rows, lanes);
  kept_.clear();
  kept_.resize(lanes);
}

void DerivativeSink::put(std::size_t lane, RowRange rows, ValuesAndDerivatives&& part) {
  values_.put(lane, rows, std::move(part.values));
  kept_[lane].push_back({rows, std::move(part.derivatives)});
}

bool DerivativeSink::batched(const std::vector<const Kept*>& parts, const std::string& out,
                             const std::string& in) const {
  const Tensor& first = parts.front()->part.at(out).at(in);
  bool of_its_length = true, single_rows = true, alike = true;
  for (const Kept* kept : parts) {
    const Tensor& block = kept->part.at(out).at(in);
    of_its_length &= length_along(block.shape(), axis_) == kept->rows.size();
    single_rows &= kept->rows.size() == 1;
    alike = alike && same_bytes(block, first);
  }
  if (!of_its_length || !axis_of(first.shape(), axis_)) return false;
  if (blocks_ == DerivativeBlocks::kAllBatched || !single_rows) return true;
  return !alike || std::ranges::find(unbatched_, in) == unbatched_.end();
}

ValuesAndDerivatives DerivativeSink::take() {
  std::vector<const Kept*> parts;
  for (const auto& shelf : kept_) {
    for (const Kept& kept : shelf) parts.push_back(&kept);
  }
  std::ranges::sort(parts, {}, [](const Kept* kept) { return kept->rows.begin; });
  ValuesAndDerivatives result{values_.take(), {}};
  for (const auto& [out, blocks] : parts.front()->part) {
    for (const auto& [in, first] : blocks) {
      Tensor& joined = result.derivatives[out][in];
      joined = first;
      if (!batched(parts, out, in)) continue;
      const std::size_t axis = needed_axis("a derivative", first, axis_);
      joined = make_whole(first, axis, rows_.size());
      for (const Kept* kept : parts) {
        write_along(joined, kept->part.at(out).at(in), axis, within(kept->rows, rows_));
      }
    }
  }
  kept_.clear();
  return result;
}

// --- ready-made functions ---

TensorFunctions tensor_functions(std::function<Tensor(Tensor&&, const WorkDevice&)> model,
                                 int axis) {
  return {.run = std::move(model), .sink = std::make_shared<TensorSink>(axis)};
}

ValueFunctions value_functions(std::function<TensorMap(TensorMap&&, const WorkDevice&)> model,
                               int axis) {
  return {.run = std::move(model), .sink = std::make_shared<TensorMapSink>(axis)};
}

DerivativeFunctions derivative_functions(
    std::function<ValuesAndDerivatives(TensorMap&&, const WorkDevice&)> model, int axis) {
  return {.run = std::move(model), .sink = std::make_shared<DerivativeSink>(axis)};
}

}  // namespace harmonics::inline in_dispatch
