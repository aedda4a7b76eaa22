#include "limited_cut.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/units.h>
#include <harmonics/place/profile_memory.h>

namespace harmonics::inline in_place {
namespace {

constexpr double kUnreachable = std::numeric_limits<double>::infinity();
constexpr double kDecimalMegabyte = 1e6;

double real_bytes(const TensorSpec& spec) { return static_cast<double>(byte_count(spec)); }

// Parameters of one layer: as they are, and with gradient and two slots of Adam where they learn.
double weight_bytes(const LayerShape& shape, bool training) {
  double bytes = 0;
  for (const ParameterSpec& spec : shape.parameters) {
    if (!spec.tied_to.empty() && !spec.away) continue;  // its owner's
    const double own = real_bytes({spec.shape, shape.output.dtype});
    bytes += training && spec.trainable ? 4 * own : own;
  }
  return bytes;
}

// Where cuts may lie: before each unit, or before each layer when there are too few units.
std::vector<std::size_t> cut_places(const HarmonicGraph& graph, std::size_t parts) {
  std::vector<std::size_t> starts;
  for (const Unit& unit : graph_units(graph)) starts.push_back(unit.first_layer);
  if (parts > starts.size()) {
    starts.resize(graph.layers().size());
    std::iota(starts.begin(), starts.end(), std::size_t{0});
  }
  starts.push_back(graph.layers().size());
  return starts;
}

/// Dynamic programme over (part, cut): the smallest bottleneck of the first parts up to a cut.
class LimitedSearch {
 public:
  LimitedSearch(const HarmonicGraph& graph, std::span<const double> weights,
                const PartitionLimits& limits)
      : graph_(graph),
        weights_(weights),
        limits_(limits),
        starts_(cut_places(graph, weights.size())),
        cost_up_to_(graph.layers().size() + 1, 0.0) {
    for (std::size_t i = 0; i < graph.layers().size(); ++i) {
      cost_up_to_[i + 1] = cost_up_to_[i] + layer_cost(graph, i);
    }
  }

  /// First layers, or nothing where no cut keeps within the limits.
  std::vector<std::size_t> run() {
    const std::size_t parts = weights_.size(), cuts = starts_.size();
    std::vector<double> before(cuts, kUnreachable);
    before[0] = 0;
    std::vector<std::vector<std::size_t>> from(parts, std::vector<std::size_t>(cuts, 0));
    for (std::size_t part = 0; part < parts; ++part) before = advance(part, before, from[part]);
    if (before.back() == kUnreachable) return {};
    std::vector<std::size_t> first_layers(parts);
    std::size_t cut = cuts - 1;
    for (std::size_t part = parts; part-- > 0;) {
      cut = from[part][cut];
      first_layers[part] = starts_[cut];
    }
    return first_layers;
  }

 private:
  std::vector<double> advance(std::size_t part, const std::vector<double>& before,
                              std::vector<std::size_t>& from) const {
    std::vector<double> after(starts_.size(), kUnreachable);
    for (std::size_t begin = 0; begin + 1 < starts_.size(); ++begin) {
      if (before[begin] == kUnreachable) continue;
      for (std::size_t end = begin + 1; end < starts_.size(); ++end) {
        const double load =
            (cost_up_to_[starts_[end]] - cost_up_to_[starts_[begin]]) / weights_[part];
        const double worst = std::max(before[begin], load);
        if (worst >= after[end]) continue;
        if (!fits(part, starts_[begin], starts_[end])) continue;
        after[end] = worst;
        from[end] = begin;
      }
    }
    return after;
  }

  bool fits(std::size_t part, std::size_t first, std::size_t end) const {
    const std::optional<double>& limit = limits_.memory_mb[part];
    return !limit || part_bytes(graph_, first, end, limits_, weights_.size() - part) <=
                         *limit * kDecimalMegabyte;
  }

  const HarmonicGraph& graph_;
  std::span<const double> weights_;
  const PartitionLimits& limits_;
  std::vector<std::size_t> starts_;
  std::vector<double> cost_up_to_;
};

}  // namespace

double part_bytes(const HarmonicGraph& graph, std::size_t first, std::size_t end,
                  const PartitionLimits& limits, std::size_t parts_behind) {
  const bool training = !graph.taps().empty();
  double weights = 0, kept = 0, widest = 0;
  std::set<std::string_view> made, entering;
  for (std::size_t i = first; i < end; ++i) {
    const LayerNode& node = graph.layers()[i];
    const LayerShape& shape = graph.layer_shape(i);
    weights += weight_bytes(shape, training);
    double alive = real_bytes(shape.output) * (node.activation.empty() ? 1 : 2);
    kept += alive;
    for (const std::string& input : node.inputs) {
      alive += real_bytes(graph.spec(input));
      if (!made.contains(input) && entering.insert(input).second)
        kept += real_bytes(graph.spec(input));
    }
    widest = std::max(widest, alive);
    made.insert(node.name);
  }
  const auto samples = static_cast<double>(limits.micro_batch);
  if (!training) return weights + widest * samples;
  return weights + kept * samples * static_cast<double>(parts_behind);
}

std::vector<std::size_t> limited_first_layers(const HarmonicGraph& graph,
                                              std::span<const double> weights,
                                              const PartitionLimits& limits) {
  if (limits.memory_mb.size() != weights.size() || limits.micro_batch < 1) {
    fail(ErrorCode::kInvalidArgument,
         "memory limits are given for {} partitions and micro-batches of {}; there are {} "
         "partitions",
         limits.memory_mb.size(), limits.micro_batch, weights.size());
  }
  // Says what is wrong with weights, counts and unresolved graphs; the answer where nothing binds.
  const std::vector<std::size_t> unlimited = balanced_first_layers(graph, weights);
  const std::vector<std::size_t> found = LimitedSearch(graph, weights, limits).run();
  if (!found.empty()) return found;
  std::string needs;
  for (std::size_t part = 0; part < unlimited.size(); ++part) {
    const std::size_t end =
        part + 1 < unlimited.size() ? unlimited[part + 1] : graph.layers().size();
    const double bytes = part_bytes(graph, unlimited[part], end, limits, unlimited.size() - part);
    add_item(needs,
             format("part {} {:.1f} MB{}", part, bytes / kDecimalMegabyte,
                    limits.memory_mb[part] ? format(" of {}", *limits.memory_mb[part]) : ""));
  }
  fail(ErrorCode::kResourceExhausted,
       "graph '{}' cannot be cut within the memory of its {} partitions (by their weights alone: "
       "{}): use smaller micro-batches or more partitions",
       graph.name(), weights.size(), needs);
}

}  // namespace harmonics::inline in_place
