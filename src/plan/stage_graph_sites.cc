#include <algorithm>
#include <vector>

#include "stage_graph_kinds.h"

namespace harmonics::inline in_plan {
namespace {

// Node 0 is the start. Then, for each inner cut, come the sites that send and after them the sites
// that receive; the last node is the end.
class SiteGraph {
 public:
  SiteGraph(const CostModel& costs, std::span<const std::uint16_t> capacity,
            std::span<const std::size_t> site_of, const StageGraphOptions& options)
      : costs_(costs),
        capacity_(capacity),
        site_of_(site_of),
        options_(options),
        layers_(costs.layers()),
        sites_(*std::ranges::max_element(site_of) + 1),
        longest_s_(options.period_s * (1 + kTimeTolerance)) {}

  StageGraph build() {
    graph_.shape = StageGraphShape::kSites;
    StageGraphWriter writer(graph_);
    writer.begin_node(0);
    for (std::size_t u = 0; u < costs_.classes(); ++u) add_stages(writer, u, 0);
    for (std::size_t i = 1; i < layers_; ++i) {
      for (std::size_t s = 0; s < sites_; ++s) {
        writer.begin_node(static_cast<std::int32_t>(i));
        add_transfers(writer, s, i);
      }
      for (std::size_t s = 0; s < sites_; ++s) {
        writer.begin_node(static_cast<std::int32_t>(i));
        for (std::size_t u = 0; u < costs_.classes(); ++u) {
          if (site_of_[u] == s && keeps(i, costs_.bandwidth(u))) add_stages(writer, u, i);
        }
      }
    }
    writer.begin_node(static_cast<std::int32_t>(layers_));
    writer.finish();
    return std::move(graph_);
  }

 private:
  std::size_t sender(std::size_t cut, std::size_t site) const {
    return cut == layers_ ? 1 + (layers_ - 1) * 2 * sites_ : 1 + (cut - 1) * 2 * sites_ + site;
  }
  bool keeps(std::size_t cut, double bytes_per_s) const {
    return costs_.transfer_s(cut, bytes_per_s) <= longest_s_;
  }

  void add_stages(StageGraphWriter& writer, std::size_t u, std::size_t i) {
    if (capacity_[u] == 0) return;
    for_each_end(costs_, {u, i, longest_stage_s(options_, 1)}, graph_.work, [&](std::size_t j) {
      if (j < layers_ && !keeps(j, costs_.bandwidth(u))) return;
      if (hosts_for(costs_.compute_s(u, i, j), options_, 1) > 0) {
        writer.arc(sender(j, site_of_[u]), u, 1);
      }
    });
  }

  void add_transfers(StageGraphWriter& writer, std::size_t from, std::size_t cut) {
    for (std::size_t to = 0; to < sites_; ++to) {
      ++graph_.work;
      if (!keeps(cut, costs_.link_bandwidth(member(from), member(to)))) continue;
      writer.arc(sender(cut, to) + sites_, kNoHostClass, 0);
    }
  }
  std::size_t member(std::size_t site) const {
    return static_cast<std::size_t>(std::ranges::find(site_of_, site) - site_of_.begin());
  }

  const CostModel& costs_;
  std::span<const std::uint16_t> capacity_;
  std::span<const std::size_t> site_of_;
  const StageGraphOptions& options_;
  const std::size_t layers_;
  const std::size_t sites_;
  const double longest_s_;
  StageGraph graph_;
};

}  // namespace

std::vector<std::size_t> sites_of(const CostModel& costs) {
  std::vector<std::size_t> site_of;
  std::vector<std::size_t> members;  // the first class of each site
  const auto same_links = [&](std::size_t u, std::size_t v) {
    for (std::size_t w = 0; w < costs.classes(); ++w) {
      if (costs.link_bandwidth(u, w) != costs.link_bandwidth(v, w)) return false;
    }
    return true;
  };
  for (std::size_t u = 0; u < costs.classes(); ++u) {
    const auto known =
        std::ranges::find_if(members, [&](std::size_t member) { return same_links(member, u); });
    site_of.push_back(static_cast<std::size_t>(known - members.begin()));
    if (known == members.end()) members.push_back(u);
  }
  return site_of;
}

StageGraph build_site_graph(const CostModel& costs, std::span<const std::uint16_t> capacity,
                            std::span<const std::size_t> site_of,
                            const StageGraphOptions& options) {
  return SiteGraph(costs, capacity, site_of, options).build();
}

}  // namespace harmonics::inline in_plan
