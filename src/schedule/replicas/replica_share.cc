#include "replica_share.h"

#include <cmath>
#include <optional>
#include <utility>
#include <variant>

#include <harmonics/base/error.h>

namespace harmonics::inline in_schedule {
namespace {

constexpr const char* kReached = "@reached";
constexpr const char* kTaps = "@taps";
constexpr const char* kFlags = "@flags";
constexpr const char* kBuffer = "@buffer.";
constexpr std::size_t kTapCounts = 3;

Tensor doubles(std::span<const double> values) {
  return Tensor::of<double>({static_cast<std::int64_t>(values.size())}, values);
}

double element(const Tensor& tensor, std::size_t index) {
  return tensor.dtype() == DType::kFloat64 ? tensor.values<double>()[index]
                                           : static_cast<double>(tensor.values<float>()[index]);
}

/// Batch norm is the one layer whose buffers are running means: r becomes (1 - m) r + m x.
std::optional<double> kept_share(const HarmonicGraph& graph, std::size_t layer) {
  if (graph.layers()[layer].type != "batch_norm") return std::nullopt;
  const Attribute& momentum = graph.full_attributes(layer).at("momentum");
  if (const auto* whole = std::get_if<std::int64_t>(&momentum)) {
    return 1.0 - static_cast<double>(*whole);
  }
  return 1.0 - std::get<double>(momentum);
}

}  // namespace

namespace {

/// Sets the rows' share of the batch, once the micro-batches are known.
ReplicaShare weighed(ReplicaShare share, const SlicedBatch& batch) {
  if (share.idle()) return share;
  const std::int64_t rows = batch.micro_batches.front().batch_samples;
  const auto first_row = [&](std::size_t index) {
    return index < share.total ? batch.micro_batches[index].first_sample : rows;
  };
  share.weight =
      static_cast<double>(first_row(share.first + share.count) - first_row(share.first)) /
      static_cast<double>(rows);
  return share;
}

}  // namespace

ReplicaShare replica_share(const SlicedBatch& batch, std::size_t replica, std::size_t replicas) {
  ReplicaShare share;
  share.total = batch.micro_batches.size();
  share.first = share.total / replicas * replica + std::min(replica, share.total % replicas);
  share.count = share.total / replicas + (replica < share.total % replicas ? 1 : 0);
  return weighed(share, batch);
}

ReplicaShare replica_share(const SlicedBatch& batch, std::size_t replica, const DealtRows& dealt) {
  ReplicaShare share;
  share.total = batch.micro_batches.size();
  for (std::size_t i = 0; i < replica; ++i) share.first += dealt[i].size();
  share.count = dealt[replica].size();
  return weighed(share, batch);
}

SlicedBatch slice_of(const SlicedBatch& batch, const ReplicaShare& share) {
  SlicedBatch own;
  own.loss_scale = share.idle() ? 0.0 : batch.loss_scale;
  own.keep_outputs = batch.keep_outputs;
  const std::size_t first = share.idle() ? 0 : share.first;
  const std::size_t count = share.idle() ? 1 : share.count;
  for (std::size_t i = 0; i < count; ++i) {
    own.micro_batches.push_back(batch.micro_batches[first + i]);
    own.micro_batches.back().index = static_cast<std::uint32_t>(i);
    own.slices.push_back(batch.slices[first + i]);
  }
  return own;
}

ReplicaSums::ReplicaSums(std::span<const Stage> stages, const ReplicaShare& share,
                         NamedTensors before)
    : share_(share), before_(std::move(before)) {
  for (const Stage& stage : stages) {
    for (std::size_t i = 0; i < stage->graph().layers().size(); ++i) add_layer(stage->graph(), i);
  }
}

void ReplicaSums::add_layer(const HarmonicGraph& graph, std::size_t index) {
  if (is_frozen(graph.layers()[index])) return;  // the same everywhere, and stays so
  const LayerShape& shape = graph.layer_shape(index);
  const DType dtype = shape.output.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  for (const ParameterSpec& spec : shape.parameters) {
    if (!spec.tied_to.empty()) continue;  // its owner brings it
    const std::string name = graph.layers()[index].name + "." + spec.name;
    if (spec.trainable) {
      trained_.emplace(name, TensorSpec{spec.shape, dtype});
      order_.push_back(name);
    } else {
      buffers_.emplace(name, Buffer{{spec.shape, dtype}, kept_share(graph, index)});
    }
  }
}

// Running means follow one process, which takes the micro-batches one after another: what this
// replica's left behind fades by those that come after it. Other buffers are averaged over the
// rows.
Tensor ReplicaSums::buffer_summand(const std::string& name, const Tensor& after) const {
  const Buffer& buffer = buffers_.at(name);
  const Tensor& before = before_.at(name);
  Tensor summand = Tensor::zeros(buffer.spec.shape, DType::kFloat64);
  const std::span<double> out = summand.mutable_values<double>();
  const auto kept = [&](std::size_t micro_batches) {
    return std::pow(*buffer.keeps, static_cast<double>(micro_batches));
  };
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!buffer.keeps) {
      out[i] = share_.weight * element(after, i);
      continue;
    }
    const double old = element(before, i);
    if (share_.first == 0 && !share_.idle()) out[i] += kept(share_.total) * old;
    if (share_.idle()) continue;
    const double left = element(after, i) - kept(share_.count) * old;
    out[i] += kept(share_.total - share_.first - share_.count) * left;
  }
  return summand;
}

ReductionLayout ReplicaSums::layout(std::size_t flags) const {
  ReductionLayout layout;
  for (auto name = order_.rbegin(); name != order_.rend(); ++name) {
    layout.emplace_back(*name, trained_.at(*name));
  }
  for (const auto& [name, buffer] : buffers_) {
    layout.emplace_back(kBuffer + name, TensorSpec{buffer.spec.shape, DType::kFloat64});
  }
  const auto add = [&](const char* name, std::size_t count) {
    layout.emplace_back(name, TensorSpec{{static_cast<std::int64_t>(count)}, DType::kFloat64});
  };
  add(kReached, trained_.size());
  add(kFlags, flags);
  add(kTaps, kTapCounts);
  return layout;
}

NamedTensors ReplicaSums::rest(const std::set<std::string>& reached, const NamedTensors& buffers,
                               const TapReport& taps, std::span<const double> flags) const {
  NamedTensors all;
  std::vector<double> by_name;
  for (const auto& [name, spec] : trained_) by_name.push_back(reached.contains(name) ? 1.0 : 0.0);
  for (const auto& [name, buffer] : buffers_) {
    all.emplace(kBuffer + name, buffer_summand(name, buffers.at(name)));
  }
  all.emplace(kReached, doubles(by_name));
  all.emplace(kFlags, doubles(flags));
  const double weight = share_.idle() ? 0.0 : 1.0;
  const double counts[kTapCounts] = {share_.idle() ? 0.0 : taps.loss_sum,
                                     weight * static_cast<double>(taps.judged),
                                     weight * static_cast<double>(taps.correct)};
  all.emplace(kTaps, doubles(counts));
  return all;
}

NamedTensors ReplicaSums::gradients(const NamedTensors& sums) const {
  NamedTensors reached;
  const std::span<const double> by_name = sums.at(kReached).values<double>();
  std::size_t index = 0;
  for (const auto& [name, spec] : trained_) {
    // What no replica's loss reached has no gradient, as in one process.
    if (by_name[index++] > 0) reached.emplace(name, sums.at(name));
  }
  return reached;
}

NamedTensors ReplicaSums::buffers(const NamedTensors& sums) const {
  NamedTensors all;
  for (const auto& [name, buffer] : buffers_) {
    const Tensor& sum = sums.at(kBuffer + name);
    Tensor value = Tensor::empty(buffer.spec.shape, buffer.spec.dtype);
    for (std::int64_t i = 0; i < value.size(); ++i) {
      const double wide = sum.values<double>()[static_cast<std::size_t>(i)];
      if (buffer.spec.dtype == DType::kFloat64) {
        value.mutable_values<double>()[static_cast<std::size_t>(i)] = wide;
      } else {
        value.mutable_values<float>()[static_cast<std::size_t>(i)] = static_cast<float>(wide);
      }
    }
    all.emplace(name, std::move(value));
  }
  return all;
}

TapReport ReplicaSums::taps(const NamedTensors& sums) {
  const std::span<const double> counts = sums.at(kTaps).values<double>();
  return {counts[0], static_cast<std::int64_t>(counts[1]), static_cast<std::int64_t>(counts[2])};
}

std::vector<double> ReplicaSums::flags(const NamedTensors& sums) {
  const std::span<const double> sum = sums.at(kFlags).values<double>();
  return {sum.begin(), sum.end()};
}

}  // namespace harmonics::inline in_schedule
