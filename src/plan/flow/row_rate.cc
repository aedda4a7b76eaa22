#include <algorithm>
#include <cmath>
#include <numeric>

#include "row_search.h"

namespace harmonics::inline in_plan {
namespace {

// Of what hosts make together; short rounds are worth the rest.
constexpr double kGoodTurns = 0.998;

// Shares of a stage's hosts, and what the hosts alone let through.
struct StageShares {
  std::vector<double> shares;
  double rate = 0;
};

// Between two stages: a link carries at most the smaller share of its ends.
double links_rate(const FlowProblem& problem, const RowStage& from, const RowStage& to,
                  std::span<const double> sends, std::span<const double> takes) {
  double rate = std::numeric_limits<double>::infinity();
  for (std::size_t a = 0; a < from.hosts.size(); ++a) {
    for (std::size_t b = 0; b < to.hosts.size(); ++b) {
      const double link = problem.link_rate(from.hosts[a], to.hosts[b], from.range.last_cut);
      const double share = std::min(sends[a], takes[b]);
      if (share > 0) rate = std::min(rate, link / share);
    }
  }
  return rate;
}

double rate_of_shares(const FlowProblem& problem, std::span<const RowStage> row,
                      std::span<const StageShares> stages) {
  double rate = row.empty() ? 0 : std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < row.size(); ++k) {
    rate = std::min(rate, stages[k].rate);
    if (k + 1 == row.size()) break;
    rate = std::min(
        rate, links_rate(problem, row[k], row[k + 1], stages[k].shares, stages[k + 1].shares));
  }
  return rate;
}

std::vector<double> rates_of(const FlowProblem& problem, const RowStage& stage) {
  std::vector<double> rates;
  for (const std::size_t host : stage.hosts) {
    rates.push_back(
        problem.rate(problem.hosts[host].kind, stage.range.first_cut, stage.range.last_cut));
  }
  return rates;
}

double rate_with(std::span<const double> rates, std::span<const std::uint32_t> turns) {
  const double round = std::accumulate(turns.begin(), turns.end(), 0.0);
  double rate = std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < rates.size(); ++k) rate = std::min(rate, rates[k] * round / turns[k]);
  return rates.empty() ? 0 : rate;
}

}  // namespace

double ideal_row_rate(const FlowProblem& problem, std::span<const RowStage> row) {
  std::vector<StageShares> stages;
  for (const RowStage& stage : row) {
    StageShares& one = stages.emplace_back();
    one.shares = rates_of(problem, stage);
    for (const double rate : one.shares) one.rate = rate > 0 ? one.rate + rate : -1e300;
    if (!(one.rate > 0)) return 0;
    for (double& share : one.shares) share /= one.rate;
  }
  return rate_of_shares(problem, row, stages);
}

std::vector<std::uint32_t> turns_for(std::span<const double> rates) {
  const double all = std::accumulate(rates.begin(), rates.end(), 0.0);
  std::vector<std::uint32_t> best(rates.size(), 1);
  double best_rate = rate_with(rates, best);
  const double enough = all * kGoodTurns;
  for (std::uint32_t round = static_cast<std::uint32_t>(rates.size()) + 1;
       round <= kMostTurnsInRound * rates.size() && best_rate < enough; ++round) {
    std::vector<std::uint32_t> turns;
    for (const double rate : rates) {
      const double share = std::round(round * rate / all);
      turns.push_back(static_cast<std::uint32_t>(std::clamp(share, 1.0, 1000.0)));
    }
    const double rate = rate_with(rates, turns);
    if (rate <= best_rate * (1 + 1e-6)) continue;
    best_rate = rate;
    best = std::move(turns);
  }
  return best;
}

double row_rate_with(const FlowProblem& problem, std::span<const RowStage> row,
                     std::span<const std::vector<std::uint32_t>> turns) {
  std::vector<StageShares> stages;
  for (std::size_t k = 0; k < row.size(); ++k) {
    StageShares& one = stages.emplace_back();
    one.rate = rate_with(rates_of(problem, row[k]), turns[k]);
    const double round = std::accumulate(turns[k].begin(), turns[k].end(), 0.0);
    for (const std::uint32_t own : turns[k]) one.shares.push_back(own / round);
  }
  return rate_of_shares(problem, row, stages);
}

}  // namespace harmonics::inline in_plan
