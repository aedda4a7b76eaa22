#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <harmonics/base/format.h>
#include <harmonics/base/random.h>
#include <harmonics/plan/flow_plan.h>
#include <harmonics/plan/planner.h>

namespace harmonics::inline in_plan {
namespace {

constexpr int kDrawn = 150;
constexpr double kNear = 1e-7;

// The least cut over all sets of places, by the theorem and not by paths.
double least_cut(const FlowProblem& problem, const std::vector<FlowRange>& ranges) {
  const std::size_t hosts = ranges.size();
  double least = std::numeric_limits<double>::infinity();
  const auto near_in = [&](std::size_t set, std::size_t h) { return (set >> (2 * h)) & 1; };
  const auto near_out = [&](std::size_t set, std::size_t h) { return (set >> (2 * h + 1)) & 1; };
  for (std::size_t set = 0; set < (std::size_t{1} << (2 * hosts)); ++set) {
    double sum = 0;
    for (std::size_t h = 0; h < hosts; ++h) {
      const FlowRange a = ranges[h];
      if (!a.used()) continue;
      if (near_in(set, h) && !near_out(set, h)) {
        sum += problem.rate(problem.hosts[h].kind, a.first_cut, a.last_cut);
      }
      if (a.first_cut == 0 && !near_in(set, h)) sum += problem.link_rate(problem.source(), h, 0);
      if (a.last_cut == problem.layers && near_out(set, h)) {
        sum += problem.link_rate(h, problem.sink(), problem.layers);
      }
      for (std::size_t k = 0; k < hosts; ++k) {
        if (k == h || !ranges[k].used() || ranges[k].first_cut != a.last_cut) continue;
        if (near_out(set, h) && !near_in(set, k)) sum += problem.link_rate(h, k, a.last_cut);
      }
    }
    least = std::min(least, sum);
  }
  return least;
}

FlowProblem drawn(Random& random, std::size_t most_hosts, std::size_t most_layers) {
  FlowProblem problem;
  problem.layers = 2 + random.below(most_layers - 1);
  const std::size_t kinds = 1 + random.below(3);
  for (std::size_t u = 0; u < kinds; ++u) {
    FlowKind kind{format("k{}", u), {}};
    const std::size_t rows = random.below(2) == 0 ? 1 : problem.layers;
    for (std::size_t i = 0; i < rows; ++i) {
      std::vector<double>& row = kind.rates.emplace_back();
      const std::size_t most = 1 + random.below(problem.layers);
      for (std::size_t n = 1; n <= most; ++n) {
        row.push_back(static_cast<double>(random.below(40)) / static_cast<double>(n));
      }
    }
    problem.kinds.push_back(std::move(kind));
  }
  const std::size_t hosts = 1 + random.below(most_hosts);
  for (std::size_t h = 0; h < hosts; ++h) {
    problem.hosts.push_back({format("h{}", h), static_cast<std::size_t>(random.below(kinds))});
  }
  for (std::size_t k = 0; k < (hosts + 2) * (hosts + 2); ++k) {
    problem.link_rates.push_back(random.below(4) == 0 ? 0
                                                      : static_cast<double>(1 + random.below(30)));
  }
  if (random.below(2) == 0) {
    for (std::size_t c = 0; c <= problem.layers; ++c) {
      problem.cut_weights.push_back(static_cast<double>(random.below(3)));
    }
  }
  return problem;
}

double best_of_all(const FlowProblem& problem) {
  double best = 0;
  std::vector<FlowRange> at(problem.hosts.size());
  const std::function<void(std::size_t)> place = [&](std::size_t h) {
    if (h == at.size()) {
      best = std::max(best, least_cut(problem, at));
      return;
    }
    at[h] = {};
    place(h + 1);
    for (std::size_t i = 0; i < problem.layers; ++i) {
      for (std::size_t j = i + 1; j <= problem.layers; ++j) {
        at[h] = {i, j};
        if (problem.rate(problem.hosts[h].kind, i, j) > 0) place(h + 1);
      }
    }
  };
  place(0);
  return best;
}

// What the proof says, by itself: at any larger rate the hosts' best ranges are not enough.
bool proof_of_flow_holds(const FlowProblem& problem, const FlowProof& proof) {
  if (proof.layer_weights.empty()) return true;
  double all = 0;
  for (const double weight : proof.layer_weights) all += weight;
  if (std::abs(all - 1) > kNear) return false;
  const double rate = proof.rate * (1 + kNear);
  double sum = 0;
  for (const FlowHost& host : problem.hosts) {
    double most = 0;
    for (std::size_t i = 0; i < problem.layers; ++i) {
      double weight = 0;
      for (std::size_t j = i + 1; j <= problem.layers; ++j) {
        weight += proof.layer_weights[j - 1];
        most = std::max(most, weight * std::min(rate, problem.rate(host.kind, i, j)));
      }
    }
    sum += most;
  }
  return sum <= rate * (1 + kNear);
}

TEST(FlowPlan, EvaluatesAsTheLeastCutSays) {
  Random random(7, "flow evaluation");
  for (int round = 0; round < 400; ++round) {
    const FlowProblem problem = drawn(random, 5, 5);
    std::vector<FlowRange> ranges(problem.hosts.size());
    for (std::size_t h = 0; h < ranges.size(); ++h) {
      const std::size_t i = random.below(problem.layers);
      const FlowRange range{i, i + 1 + random.below(problem.layers - i)};
      if (problem.rate(problem.hosts[h].kind, range.first_cut, range.last_cut) > 0) {
        ranges[h] = range;
      }
    }
    const FlowEvaluation found = evaluate_flow(problem, ranges);
    const double least = least_cut(problem, ranges);
    ASSERT_NEAR(found.rate, least, kNear * (1 + least)) << "round " << round;
    double routed = 0;
    for (const FlowRoute& route : flow_routes(problem, found)) routed += route.rate;
    ASSERT_NEAR(routed, found.rate, 1e-6 * (1 + found.rate)) << "round " << round;
  }
}

TEST(FlowPlan, FindsTheBestOfAllSmallPlacements) {
  Random random(11, "flow plans");
  int flowing = 0;
  for (int round = 0; round < kDrawn; ++round) {
    const FlowProblem problem = drawn(random, 3, 4);
    const double best = best_of_all(problem);
    const FlowProof proof = bound_flow(problem);
    ASSERT_GE(proof.rate * (1 + kNear), best) << "round " << round;
    ASSERT_TRUE(proof_of_flow_holds(problem, proof)) << "round " << round;
    if (best == 0) {
      EXPECT_THROW((void)plan_flow(problem, {}), NoFeasiblePlan);
      continue;
    }
    ++flowing;
    const FlowOutcome outcome = plan_flow(problem, {});
    ASSERT_NEAR(outcome.rate(), best, kNear * best) << "round " << round;
    ASSERT_TRUE(outcome.proven);
    ASSERT_NEAR(evaluate_flow(problem, outcome.ranges).rate, best, kNear * best);
  }
  EXPECT_GT(flowing, kDrawn / 3);
}

// Too many to look at all, few enough to know the best: hosts that all pass 1 / n in a chain.
TEST(FlowPlan, ReachesTheBoundWhereHostsAreAlike) {
  FlowProblem problem;
  problem.layers = 24;
  problem.kinds = {{"even", {{}}}};
  for (std::size_t n = 1; n <= 24; ++n) {
    problem.kinds[0].rates[0].push_back(24.0 / static_cast<double>(n));
  }
  for (int h = 0; h < 8; ++h) problem.hosts.push_back({format("h{}", h), 0});
  problem.link_rates.assign(100, std::numeric_limits<double>::infinity());
  const FlowOutcome outcome = plan_flow(problem, {});
  EXPECT_NEAR(outcome.rate(), 8, 1e-5);
  EXPECT_TRUE(outcome.proven);
  EXPECT_EQ(plan_flow(problem, {}).ranges, outcome.ranges) << "not deterministic";
}

TEST(FlowPlan, IsNeverWorseThanItsStart) {
  Random random(13, "flow starts");
  FlowProblem problem = drawn(random, 3, 4);
  problem.kinds = {{"one", {{4, 2, 1, 0.5}}}};
  problem.layers = 4;
  problem.cut_weights.clear();
  problem.hosts = {{"a", 0}, {"b", 0}};
  problem.link_rates.assign(16, 100);
  const FlowOutcome outcome = plan_flow(problem, {.work = 1, .starts = {{{0, 2}, {2, 4}}}});
  EXPECT_GE(outcome.rate(), 2 - kNear);
  EXPECT_THROW((void)plan_flow(problem, {.starts = {{{0, 9}, {2, 4}}}}), Error);
}

TEST(HelixFile, SaysWhatIsWrong) {
  const auto complaint = [](std::string_view text) {
    try {
      (void)parse_helix_lp(text, "x.lp");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_NE(complaint("Maximize x").find("Subject To"), std::string::npos);
  EXPECT_NE(complaint("Subject To\n a: x + y").find("no end"), std::string::npos);
  EXPECT_NE(complaint("Subject To\n a: x <= 1\nEnd").find("no nodes"), std::string::npos);
  EXPECT_NE(complaint("Subject To\n end_constraint_0: start_0 <= 1e9\nEnd").find("layers"),
            std::string::npos);
  EXPECT_NE(complaint("Subject To\n edge_disable_constr2_0_1: start_0 - hold_1_2 <= 8\nEnd")
                .find("within its range"),
            std::string::npos);
}

TEST(HelixFile, IsReadAsItIs) {
  const FlowProblem problem = parse_helix_lp(
      "\\ a comment\nMaximize\n flow_source_0\nSubject To\n"
      " end_constraint_0: start_0 + hold_0_1 + 2 hold_0_2 <= 2\n"
      " node_throughput_constraint_0: - 7.5 hold_0_1\n   - 3e+00 hold_0_2 + flow_source_0 <= 0\n"
      " edge_flow_constr_source_0: flow_source_0 - 2.5 switch_source_0\n   <= 0\n"
      " edge_flow_constr_0_sink: flow_0_sink - 5e+08 switch_0_sink <= 0\nBounds\nEnd\n",
      "x.lp");
  EXPECT_EQ(problem.layers, 2u);
  EXPECT_EQ(problem.kinds.at(0).rates, (std::vector<std::vector<double>>{{7.5, 3}}));
  const FlowOutcome outcome = plan_flow(problem, {});
  EXPECT_DOUBLE_EQ(outcome.rate(), 2.5);
  EXPECT_TRUE(outcome.proven);
}

}  // namespace
}  // namespace harmonics::inline in_plan
