#include <algorithm>
#include <cmath>

#include <harmonics/base/error.h>
#include <harmonics/plan/flow_plan.h>

namespace harmonics::inline in_plan {
namespace {

void check_rates(std::span<const double> numbers, std::string_view what) {
  for (const double number : numbers) {
    if (std::isnan(number) || number < 0) {
      fail(ErrorCode::kInvalidArgument, "flow problem: {} of {} is no rate", what, number);
    }
  }
}

void check_kind(const FlowProblem& problem, const FlowKind& kind) {
  const std::size_t rows = kind.rates.size();
  if (rows != 1 && rows != problem.layers) {
    fail(ErrorCode::kInvalidArgument, "flow problem: type '{}' has {} rows of rates, not 1 or {}",
         kind.type, rows, problem.layers);
  }
  for (const std::vector<double>& row : kind.rates) {
    check_rates(row, "a host's rate");
    if (std::ranges::any_of(row, [](double rate) { return std::isinf(rate); })) {
      fail(ErrorCode::kInvalidArgument, "flow problem: type '{}' has an infinite rate", kind.type);
    }
  }
}

}  // namespace

void check_flow(const FlowProblem& problem) {
  const auto wrong = [](const std::string& what) {
    fail(ErrorCode::kInvalidArgument, "flow problem: {}", what);
  };
  const std::size_t ends = problem.hosts.size() + 2;
  if (problem.layers == 0 || problem.layers > kMaxFlowLayers) {
    wrong(format("{} layers, not 1 to {}", problem.layers, kMaxFlowLayers));
  }
  if (problem.hosts.empty() || problem.hosts.size() > kMaxFlowHosts) {
    wrong(format("{} hosts, not 1 to {}", problem.hosts.size(), kMaxFlowHosts));
  }
  for (const FlowHost& host : problem.hosts) {
    if (host.kind >= problem.kinds.size()) wrong(format("host '{}' has no kind", host.name));
  }
  if (problem.link_rates.size() != ends * ends) wrong("the links are no square of all ends");
  if (!problem.cut_weights.empty() && problem.cut_weights.size() != problem.layers + 1) {
    wrong(format("{} weights of cuts, not {}", problem.cut_weights.size(), problem.layers + 1));
  }
  check_rates(problem.link_rates, "a link's rate");
  check_rates(problem.cut_weights, "a cut's weight");
  std::size_t rates = 0;
  for (const FlowKind& kind : problem.kinds) {
    check_kind(problem, kind);
    for (const std::vector<double>& row : kind.rates) rates += row.size();
  }
  if (rates > kMaxFlowRates) wrong(format("{} rates, the limit is {}", rates, kMaxFlowRates));
}

double FlowOutcome::gap() const {
  return rate() > 0 ? std::max(0.0, proof.rate / rate() - 1)
                    : std::numeric_limits<double>::infinity();
}

}  // namespace harmonics::inline in_plan
