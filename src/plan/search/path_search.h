// Looks for a path through a stage graph within the hosts that there are: any path, or the one of
// least weight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "earning_table.h"
#include "host_prices.h"
#include "stage_graph.h"
#include "work_budget.h"

namespace harmonics::inline in_plan {

/// The most partial plans that one search keeps: 40 bytes each and 2 per class while they are at
/// the rim, 12 later.
inline constexpr std::size_t kMaxSearchLabels = 3'000'000;

struct PathQuestion {
  const StageGraph& graph;
  std::span<const std::uint16_t> capacity;
  /// What a relaxation of the same graph left: partial plans that some prices refute are dropped.
  /// At least one.
  std::span<const HostPrices> prices;
  /// Of the partial plans of as many stages, so many go on.
  std::size_t width = 1;
  /// Per arc; empty: any path will do.
  std::span<const double> weights = {};
  /// Only a path of less weight than this counts.
  double weight_limit = std::numeric_limits<double>::infinity();
  /// Prices in units of weight (see weigh_hosts), for bounds on the weight of what is left.
  std::span<const HostPrices> weight_prices = {};
  /// Per arc, a second weight of which a path may have no more than the limit; empty: none. And the
  /// least of it from each node to the end.
  std::span<const double> limited = {};
  std::span<const double> limited_to_go = {};
  double limit = std::numeric_limits<double>::infinity();
  /// What the hosts left over can still earn; bounds for search_by_node in place of the prices.
  const EarningTable* earnings = nullptr;
  /// The search gives up (kUnknown) when it would keep more.
  std::size_t max_labels = kMaxSearchLabels;
};

enum class SearchVerdict {
  kFound,
  /// Every partial plan was followed or refuted: there is no such path.
  kNone,
  /// The width or the budget cut something off.
  kUnknown,
};

struct SearchResult {
  SearchVerdict verdict = SearchVerdict::kUnknown;
  ArcPath path;
  double weight = 0;
  /// Nothing was cut off: no path has less weight.
  bool proven = false;
};

/// Goes breadth-first over the number of stages. Partial plans that took the same hosts are
/// compared by how far they came (or by weight); of those that remain, the ones go on that have the
/// best bound and have used up all kinds of hosts evenly, since hosts of one kind that are left
/// over at the end are what makes plans fail. Deterministic.
[[nodiscard]] SearchResult search_path(const PathQuestion& question, WorkBudget& budget);

}  // namespace harmonics::inline in_plan
