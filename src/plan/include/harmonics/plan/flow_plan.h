// Plans in which work flows over several routes at once, with a bound on what any of them reaches.
//
// Every host holds one range of consecutive layers. What one host has finished goes on to hosts
// whose range begins there, over links of limited rate, and may split; ranges of different routes
// overlap as they like. The rate of a placement is the maximum flow from the source to the sink,
// where a host lets through no more than it computes. A row of stages with replicas and several
// pipelines side by side are such placements too.
//
// Deterministic: the search is limited in steps of work and not in time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/json.h>

namespace harmonics::inline in_plan {

inline constexpr std::size_t kMaxFlowLayers = 1'000;
inline constexpr std::size_t kMaxFlowHosts = 256;
/// Rates of all kinds together.
inline constexpr std::size_t kMaxFlowRates = 20'000'000;
/// Of the files that flow problems are read from.
inline constexpr std::size_t kMaxFlowFileBytes = std::size_t{8} << 20;
/// Steps of work of a search that was given none: about five seconds on a core of 2023.
inline constexpr std::uint64_t kDefaultFlowWork = 900'000'000;

/// Hosts that compute alike.
struct FlowKind {
  std::string type;
  /// Items a second of a host that holds the layers behind cut i and n of them, at [i][n - 1]; a
  /// range that is missing or 0 is one that the host cannot hold. One row alone counts for every
  /// cut.
  std::vector<std::vector<double>> rates;
};

struct FlowHost {
  std::string name;
  std::size_t kind = 0;
};

/// A value; checked by check_flow.
struct FlowProblem {
  std::size_t layers = 0;
  std::vector<FlowKind> kinds;
  std::vector<FlowHost> hosts;
  /// What a link from a to b carries a second, at [a * (hosts + 2) + b]; 0: there is none. The
  /// source is `source()`, the sink `sink()`.
  std::vector<double> link_rates;
  /// What an item weighs at each cut (one more than there are layers): a link that carries r lets r
  /// / weight of them through. Empty: 1 everywhere.
  std::vector<double> cut_weights = {};

  [[nodiscard]] std::size_t source() const { return hosts.size(); }
  [[nodiscard]] std::size_t sink() const { return hosts.size() + 1; }
  /// Items a second from a to b that cross this cut.
  [[nodiscard]] double link_rate(std::size_t a, std::size_t b, std::size_t cut) const {
    const double rate = link_rates[a * (hosts.size() + 2) + b];
    if (cut_weights.empty()) return rate;
    if (cut_weights[cut] > 0) return rate / cut_weights[cut];
    return rate > 0 ? std::numeric_limits<double>::infinity() : 0;
  }
  /// Of a host of this kind; 0 where it cannot hold the range.
  [[nodiscard]] double rate(std::size_t kind, std::size_t first_cut, std::size_t last_cut) const {
    const auto& rates = kinds[kind].rates;
    const auto& row = rates[rates.size() == 1 ? 0 : first_cut];
    return last_cut > first_cut && last_cut - first_cut <= row.size()
               ? row[last_cut - first_cut - 1]
               : 0;
  }
};

/// Throws an `Error` (kInvalidArgument) unless every list has its length, every number is in order
/// and the ceilings hold.
void check_flow(const FlowProblem& problem);

/// The layers between two cuts; of a host that is left out both are 0.
struct FlowRange {
  std::size_t first_cut = 0;
  std::size_t last_cut = 0;

  [[nodiscard]] bool used() const { return last_cut > first_cut; }
  bool operator==(const FlowRange&) const = default;
};

/// What goes over one link; the ends are hosts, the source or the sink.
struct FlowUse {
  std::size_t from = 0;
  std::size_t to = 0;
  double rate = 0;
};

/// What goes one way from the source to the sink, over these hosts in order.
struct FlowRoute {
  std::vector<std::size_t> hosts;
  double rate = 0;
};

/// The maximum flow of a placement. Written by itself: the search does not use it.
struct FlowEvaluation {
  double rate = 0;
  std::vector<FlowUse> uses;
  /// Which hosts and links are full and so keep the flow from growing: a minimum cut.
  std::vector<std::size_t> full_hosts;
  std::vector<FlowUse> full_links;
};
[[nodiscard]] FlowEvaluation evaluate_flow(const FlowProblem& problem,
                                           std::span<const FlowRange> ranges);
/// The flow as routes, largest first; together they carry all of it.
[[nodiscard]] std::vector<FlowRoute> flow_routes(const FlowProblem& problem,
                                                 const FlowEvaluation& evaluation);

/// Proof that no placement has a larger rate than `rate`: the layers have weights that add up to 1.
/// At rate F a host with a range adds at most its layers' weight times the smaller of F and its
/// rate there, and all hosts together must come to F. For every F above `rate` even their best
/// ranges do not. Without weights the links at the source or at the sink are the limit.
struct FlowProof {
  double rate = 0;
  std::vector<double> layer_weights;
};
[[nodiscard]] FlowProof bound_flow(const FlowProblem& problem);

struct FlowOutcome {
  std::vector<FlowRange> ranges;
  FlowEvaluation evaluation;
  FlowProof proof;
  /// No placement has a larger rate: all were looked at, or the bound is reached.
  bool proven = false;
  std::uint64_t work = 0;

  [[nodiscard]] double rate() const { return evaluation.rate; }
  /// What could be gained at most, as a share.
  [[nodiscard]] double gap() const;
};

struct FlowOptions {
  /// Steps of work; 0 for the default.
  std::uint64_t work = 0;
  /// Placements to start from; the outcome is never worse than the best of them.
  std::vector<std::vector<FlowRange>> starts = {};
};

/// Searches. Throws NoFeasiblePlan where none was found through which anything flows.
[[nodiscard]] FlowOutcome plan_flow(const FlowProblem& problem, const FlowOptions& options);

/// "- host: [first, last]" per host that is used, by first layer; layers count from 1.
[[nodiscard]] std::string flow_to_yaml(const FlowProblem& problem, const FlowOutcome& outcome);
[[nodiscard]] std::string flow_report_to_text(const FlowProblem& problem,
                                              const FlowOutcome& outcome);
[[nodiscard]] Json flow_report_to_json(const FlowProblem& problem, const FlowOutcome& outcome);
/// Words for what keeps the flow from growing: "node-1, node-4 and the link node-2 to node-3".
[[nodiscard]] std::string flow_limit_text(const FlowProblem& problem,
                                          const FlowEvaluation& evaluation);

/// Reads the placement problem that Helix (ASPLOS 2025) writes for its solver, a file in LP format,
/// as it is: layers, what each node passes by the number of layers that it holds, and the capacity
/// of links. Anything else is an `Error` with the name of the constraint.
[[nodiscard]] FlowProblem parse_helix_lp(std::string_view text, std::string_view name);

}  // namespace harmonics::inline in_plan
