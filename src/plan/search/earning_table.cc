#include "earning_table.h"

#include <algorithm>

namespace harmonics::inline in_plan {
namespace {

constexpr std::uint64_t kCellsPerStep = 20;

std::size_t cells_of(const StageGraph& graph, std::span<const std::uint16_t> capacity) {
  std::size_t hosts = capacity.size();
  for (const std::uint16_t count : capacity) hosts += count;
  return hosts * graph.nodes();
}

}  // namespace

bool EarningTable::suits(const StageGraph& graph, std::span<const std::uint16_t> capacity) {
  return graph.shape == StageGraphShape::kCuts && cells_of(graph, capacity) <= kMaxEarningCells;
}

std::uint64_t EarningTable::work_of(const StageGraph& graph,
                                    std::span<const std::uint16_t> capacity) {
  std::uint64_t cells = cells_of(graph, capacity);
  for (const StageArc& arc : graph.arcs) cells += capacity[arc.host_class] + 1u - arc.hosts;
  return cells / kCellsPerStep;
}

void EarningTable::reset(const StageGraph& graph, std::span<const std::uint16_t> capacity,
                         std::size_t hosts_per_unit) {
  // Rounded to the nearest, so that errors even out.
  const auto units = [&](std::size_t hosts) {
    const std::size_t count = (hosts + hosts_per_unit / 2) / hosts_per_unit;
    return static_cast<std::uint16_t>(std::max<std::size_t>(hosts > 0 ? 1 : 0, count));
  };
  capacity_.clear();
  for (const std::uint16_t hosts : capacity) capacity_.push_back(units(hosts));
  cuts_ = graph.nodes();
  first_stage_.assign(capacity.size() * cuts_ + 1, 0);
  for (std::size_t cut = 0; cut < cuts_; ++cut) {
    for (const StageArc& arc : graph.arcs_of(cut)) ++first_stage_[arc.host_class * cuts_ + cut + 1];
  }
  for (std::size_t k = 1; k < first_stage_.size(); ++k) first_stage_[k] += first_stage_[k - 1];
  stages_.resize(graph.arcs.size());
  std::vector<std::size_t> next(first_stage_.begin(), first_stage_.end() - 1);
  for (std::size_t cut = 0; cut < cuts_; ++cut) {
    for (const StageArc& arc : graph.arcs_of(cut)) {
      stages_[next[arc.host_class * cuts_ + cut]++] = {
          static_cast<std::uint32_t>(cut), static_cast<std::uint32_t>(arc.to), units(arc.hosts)};
    }
  }
  first_cell_.clear();
  std::size_t cells = 0;
  for (const std::uint16_t hosts : capacity_) {
    first_cell_.push_back(cells);
    cells += (hosts + std::size_t{1}) * cuts_;
  }
  cells_.assign(cells, 0);
  work_ = work_of(graph, capacity) / hosts_per_unit + stages_.size();
}

void EarningTable::fill(std::span<const double> height) {
  height_.assign(height.begin(), height.end());
  for (std::size_t u = 0; u < capacity_.size(); ++u) {
    for (std::size_t cut = cuts_ - 1; cut-- > 0;) fill_cut(u, cut);
  }
}

void EarningTable::fill_cut(std::size_t host_class, std::size_t cut) {
  const std::size_t row = capacity_[host_class] + std::size_t{1};
  double* const first = cells_.data() + first_cell_[host_class];
  double* const here = first + cut * row;
  std::copy_n(here + row, row, here);  // the layer is left out
  for (const Stage& stage : stages(host_class, cut)) {
    const double earned = climb(stage);
    if (earned <= 0) continue;
    const double* const after = first + stage.last_cut * row;
    double* const with = here + stage.hosts;
    const std::size_t count = row - stage.hosts;
    for (std::size_t h = 0; h < count; ++h) with[h] = std::max(with[h], after[h] + earned);
  }
}

double EarningTable::all() const {
  double sum = 0;
  for (std::size_t u = 0; u < capacity_.size(); ++u) sum += most(u, 0, capacity_[u]);
  return sum;
}

void EarningTable::count_cover(std::vector<double>& cover) const {
  for (std::size_t u = 0; u < capacity_.size(); ++u) {
    std::size_t hosts = capacity_[u];
    for (std::size_t cut = 0; cut + 1 < cuts_;) {
      const double best = most(u, cut, hosts);
      const auto taken = std::ranges::find_if(stages(u, cut), [&](const Stage& stage) {
        return stage.hosts <= hosts &&
               most(u, stage.last_cut, hosts - stage.hosts) + climb(stage) == best;
      });
      if (best == most(u, cut + 1, hosts) || taken == stages(u, cut).end()) {
        ++cut;
        continue;
      }
      for (; cut < taken->last_cut; ++cut) cover[cut] += 1;
      hosts -= taken->hosts;
    }
  }
}

}  // namespace harmonics::inline in_plan
