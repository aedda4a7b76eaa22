#include <algorithm>
#include <cmath>
#include <numeric>

#include <harmonics/plan/flow_plan.h>

namespace harmonics::inline in_plan {
namespace {

constexpr int kRateHalvings = 60;
// Ranges that are looked at to find good weights.
constexpr double kMostLooks = 2e8;
constexpr double kMostRounds = 400;
constexpr double kFirstStep = 0.5;
// The bound is rounded up, so that rounding never makes it too small.
constexpr double kRounding = 1e-9;
constexpr double kNothing = 1e-15;

class WeightedLayers {
 public:
  explicit WeightedLayers(const FlowProblem& problem)
      : problem_(problem), count_(problem.kinds.size(), 0), best_(problem.kinds.size()) {
    for (const FlowHost& host : problem.hosts) ++count_[host.kind];
    for (std::size_t u = 0; u < count_.size(); ++u) {
      if (count_[u] == 0) continue;
      for (std::size_t i = 0; i < problem.layers; ++i) looks_ += static_cast<double>(row(u, i));
    }
  }

  double looks() const { return std::max(1.0, looks_); }

  // What all hosts add at most when this much flows.
  double most(const std::vector<double>& before, double rate) {
    double sum = 0;
    for (std::size_t u = 0; u < count_.size(); ++u) {
      if (count_[u] > 0) sum += static_cast<double>(count_[u]) * most_of(u, before, rate);
    }
    return sum;
  }

  // Where the hosts come to just as much as flows, rounding must not say that they do not.
  bool enough(const std::vector<double>& before, double rate) {
    return most(before, rate) >= rate * (1 - kRounding / 8);
  }

  // The largest rate for which that is enough.
  double largest_rate(const std::vector<double>& weights, double high) {
    const std::vector<double> before = sums(weights);
    if (enough(before, high)) return high;
    // Per item the hosts add the more the less flows: too little now is too little for all rates.
    double low = high * kNothing;
    if (!enough(before, low)) return 0;
    for (int k = 0; k < kRateHalvings && high - low > kRounding * high / 4; ++k) {
      const double middle = (low + high) / 2;
      (enough(before, middle) ? low : high) = middle;
    }
    return high;
  }

  // Moves weight to layers that the hosts' best ranges cover least.
  void shift(std::vector<double>& weights, double rate, double step) {
    const std::vector<double> before = sums(weights);
    (void)most(before, rate);
    std::vector<double> change(weights.size() + 1, 0);
    for (std::size_t u = 0; u < count_.size(); ++u) {
      if (count_[u] == 0 || best_[u].first >= best_[u].last) continue;
      const double part = static_cast<double>(count_[u]) * best_[u].rate / rate;
      change[best_[u].first] += part;
      change[best_[u].last] -= part;
    }
    double covered = 0;
    double sum = 0;
    for (std::size_t l = 0; l < weights.size(); ++l) {
      covered += change[l];
      weights[l] *= std::exp(-step * std::min(4.0, covered - 1));
      sum += weights[l];
    }
    for (double& weight : weights) weight /= sum;
  }

 private:
  struct Best {
    std::size_t first = 0;
    std::size_t last = 0;
    double rate = 0;
  };

  std::size_t row(std::size_t u, std::size_t i) const {
    const auto& rates = problem_.kinds[u].rates;
    return std::min(problem_.layers - i, rates[rates.size() == 1 ? 0 : i].size());
  }

  double most_of(std::size_t u, const std::vector<double>& before, double rate) {
    double most = 0;
    best_[u] = {};
    const auto& rates = problem_.kinds[u].rates;
    for (std::size_t i = 0; i < problem_.layers; ++i) {
      const std::vector<double>& of = rates[rates.size() == 1 ? 0 : i];
      for (std::size_t n = 1; n <= row(u, i); ++n) {
        const double passes = std::min(of[n - 1], rate);
        const double adds = (before[i + n] - before[i]) * passes;
        if (adds <= most) continue;
        most = adds;
        best_[u] = {i, i + n, passes};
      }
    }
    return most;
  }

  static std::vector<double> sums(const std::vector<double>& weights) {
    std::vector<double> before(weights.size() + 1, 0);
    std::partial_sum(weights.begin(), weights.end(), before.begin() + 1);
    return before;
  }

  const FlowProblem& problem_;
  std::vector<std::size_t> count_;
  std::vector<Best> best_;
  double looks_ = 0;
};

// What the links at one end and the hosts behind them let through.
double end_limit(const FlowProblem& problem, bool source) {
  double sum = 0;
  for (std::size_t h = 0; h < problem.hosts.size(); ++h) {
    const double link = source ? problem.link_rate(problem.source(), h, 0)
                               : problem.link_rate(h, problem.sink(), problem.layers);
    double rate = 0;
    for (std::size_t n = 1; n <= problem.layers; ++n) {
      const std::size_t first = source ? 0 : problem.layers - n;
      rate = std::max(rate, problem.rate(problem.hosts[h].kind, first, first + n));
    }
    sum += std::min(link, rate);
  }
  return sum;
}

// By how long a layer takes on the kinds of hosts that there are.
std::vector<double> time_weights(const FlowProblem& problem) {
  std::vector<double> weights(problem.layers, 0);
  for (const FlowHost& host : problem.hosts) {
    for (std::size_t l = 0; l < problem.layers; ++l) {
      const double rate = problem.rate(host.kind, l, l + 1);
      if (rate > 0) weights[l] += 1 / rate;
    }
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (!(sum > 0) || !std::isfinite(sum)) return {};
  for (double& weight : weights) weight /= sum;
  return weights;
}

}  // namespace

FlowProof bound_flow(const FlowProblem& problem) {
  const double ends = std::min(end_limit(problem, true), end_limit(problem, false));
  FlowProof proof{.rate = ends, .layer_weights = {}};
  WeightedLayers layers(problem);
  const std::vector<double> even(problem.layers, 1.0 / static_cast<double>(problem.layers));
  std::vector<double> weights = even;
  for (const std::vector<double>& start : {even, time_weights(problem)}) {
    if (start.empty()) continue;
    const double rate = layers.largest_rate(start, proof.rate);
    if (rate >= proof.rate) continue;
    proof = {rate, start};
    weights = start;
  }
  const double rounds = std::min(kMostRounds, kMostLooks / layers.looks());
  for (double k = 0; k < rounds && proof.rate > 0; ++k) {
    layers.shift(weights, proof.rate, kFirstStep / (1 + k / 8));
    const double rate = layers.largest_rate(weights, proof.rate);
    if (rate < proof.rate) proof = {rate, weights};
  }
  proof.rate *= 1 + kRounding;
  return proof;
}

}  // namespace harmonics::inline in_plan
