// Plans for operator graphs: which host runs which operators, and a proof of how good that is.
//
// The time of a stage is that of its operators and of its transfers: a tensor costs the stage that
// makes it once if any other stage takes it, and each of those stages once; what only passes by
// costs nothing. With overlap the largest of computing, receiving and sending counts, without it
// their sum. The slowest stage is the period.
//
// A contiguous split is a chain of stages in which no tensor of the forward pass goes back; a free
// one may give a host any operators. Operators of one class stay together, and so do classes that
// depend on each other both ways.
//
// Deterministic: the search is limited in steps of work and not in time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/plan/cost_model.h>
#include <harmonics/plan/operator_graph.h>

namespace harmonics::inline in_plan {

enum class OperatorSplit { kContiguous, kFree };

/// Steps of work of a search that was given none: some seconds on a core of 2023.
inline constexpr std::uint64_t kDefaultOperatorWork = 1'000'000'000;
/// Lattices of more ideals are not searched whole.
inline constexpr std::size_t kMaxIdeals = 100'000;

struct OperatorPlanOptions {
  Overlap overlap = Overlap::kFull;
  OperatorSplit split = OperatorSplit::kContiguous;
  /// 0: the default.
  std::uint64_t work = 0;
};

/// The operators of one host.
struct OperatorStage {
  std::size_t device = 0;
  /// Which of the device's hosts.
  std::size_t host = 0;
  /// Ascending.
  std::vector<std::size_t> nodes;

  bool operator==(const OperatorStage&) const = default;
};

struct OperatorStageCosts {
  double compute_s = 0;
  double receive_s = 0;
  double send_s = 0;
  /// What the stage adds to the period.
  double period_s = 0;
  double memory_mb = 0;
};

/// Of one stage; infinite where its device cannot run an operator.
[[nodiscard]] OperatorStageCosts operator_stage_costs(const OperatorGraph& graph, Overlap overlap,
                                                      const OperatorStage& stage);
/// The slowest stage; 0 without stages.
[[nodiscard]] double operator_period(const OperatorGraph& graph, Overlap overlap,
                                     std::span<const OperatorStage> stages);

/// How a plan was found.
enum class OperatorMethod {
  /// All chains of ideals were looked at, so that the plan is the best one.
  kWholeLattice,
  /// Orders of the operators were cut like a chain: the best of those that were tried.
  kOrders,
  /// All ways to give operators to hosts were looked at (free splits).
  kWholeAssignments,
  /// Operators were moved from host to host for as long as that helped (free splits).
  kMoves,
};
/// "whole lattice", "orders", "whole assignments", "moves".
[[nodiscard]] std::string operator_method_name(OperatorMethod method);

/// Proof that no plan, contiguous or free, has a shorter period than `bound_s`: give every host of
/// device d the price price[d]; all hosts together cost 1 a second. Each operator (more exactly,
/// those that must be together) is run where its time costs least, which gives `bound_s` in all: so
/// much must be paid, and for a shorter period there is not so much to spend. Transfers are left
/// out.
struct OperatorLoadProof {
  double bound_s = 0;
  std::vector<double> price;
};

struct OperatorOutcome {
  /// In the order of the pipeline (contiguous), or by device and host (free).
  std::vector<OperatorStage> stages;
  double period_s = 0;
  /// No plan of this split has a shorter period.
  double lower_bound_s = 0;
  /// The period is the shortest: by an exhaustive search, or since the bound is as large.
  bool proven = false;
  OperatorMethod method = OperatorMethod::kOrders;
  /// Groups of operators that stay together, and ideals of their lattice: 0 where it has more than
  /// `kMaxIdeals`.
  std::size_t units = 0;
  std::size_t ideals = 0;
  OperatorLoadProof proof;
  std::uint64_t work = 0;

  /// period / lower bound - 1; infinite without a bound.
  [[nodiscard]] double gap() const;
};

/// Plans. Throws NoFeasiblePlan where there is no plan or none was found, `Error` for a graph that
/// is not in order. A graph without operators has no stages.
[[nodiscard]] OperatorOutcome plan_operators(const OperatorGraph& graph,
                                             const OperatorPlanOptions& options);

/// "- host: [operator, …]" per stage, "[]" without stages.
[[nodiscard]] std::string operator_plan_to_yaml(const OperatorGraph& graph,
                                                const OperatorOutcome& outcome);
[[nodiscard]] std::string operator_report_to_text(const OperatorGraph& graph,
                                                  const OperatorPlanOptions& options,
                                                  const OperatorOutcome& outcome);
[[nodiscard]] Json operator_report_to_json(const OperatorGraph& graph,
                                           const OperatorPlanOptions& options,
                                           const OperatorOutcome& outcome);

}  // namespace harmonics::inline in_plan
