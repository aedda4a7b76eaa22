#include "layer_prices.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "host_prices.h"

namespace harmonics::inline in_plan {
namespace {

constexpr int kMostPriceRounds = 400;
// One graph may take this part of the budget, and it is not begun with fewer rounds in it.
constexpr std::uint64_t kLayerSolvesPerBudget = 24;
constexpr std::uint64_t kFewestPriceRounds = 16;
// Where a look takes more than this part, many are taken roughly first, until they leave no doubt.
constexpr std::uint64_t kRoughRoundsPerBudget = 2'000;
constexpr double kRoughlyRefuted = 0.995;
// A step aims this much below the best earnings, and at less and less of it once so many rounds did
// not better them.
constexpr double kPriceAim = 0.02;
constexpr int kPatience = 10;
constexpr double kLeastReach = 1e-3;
constexpr double kBetter = 1e-6;
// A direction keeps so much of the one before.
constexpr double kMomentum = 0.7;
// Steps are in proportion to prices, but not less than this share of the mean.
constexpr double kLeastStep = 0.05;

void fill(EarningTable& table, std::span<const double> price, WorkBudget& budget) {
  std::vector<double> height{0};
  for (const double one : price) height.push_back(height.back() + one);
  table.fill(height);
  budget.charge(table.work());
}

// The search for the prices under which all classes earn least; see LayerPricing.
class PriceDescent {
 public:
  PriceDescent(EarningTable& table, std::span<const double> price, WorkBudget& budget)
      : table_(table), budget_(budget), layers_(price.size()) {
    for (const double one : price) {
      scale_.push_back(std::max(std::abs(one), kLeastStep / static_cast<double>(layers_)));
    }
    direction_.assign(layers_, 0);
    look_at({price.begin(), price.end()});
  }

  // Goes on from these prices if they are better.
  void look_at(std::vector<double> price) {
    price_ = std::move(price);
    look();
    price_ = best_;
  }

  // Until all classes together earn less than `enough`, no less, or the share of the budget is
  // spent.
  void run(double enough) {
    const std::uint64_t last_step =
        std::min(budget_.limit(), budget_.spent() + budget_.limit() / kLayerSolvesPerBudget);
    for (int round = 0; round < kMostPriceRounds && budget_.spent() < last_step; ++round) {
      const double earned = look();
      if (least_ < enough) return;
      if (waited_ == kPatience) {
        fall_back();
      } else if (!step(earned)) {
        return;
      }
      if (reach_ < kLeastReach) return;
    }
  }

  double least() const { return least_; }
  const std::vector<double>& best() const { return best_; }

 private:
  double look() {
    fill(table_, price_, budget_);
    const double earned = table_.all();
    if (earned < least_ * (1 - kBetter)) {
      least_ = earned;
      best_ = price_;
      waited_ = 0;
    } else {
      ++waited_;
    }
    return earned;
  }

  // Begins again at the best prices, with shorter steps.
  void fall_back() {
    reach_ /= 2;
    waited_ = 0;
    price_ = best_;
    std::ranges::fill(direction_, 0.0);
  }

  // Layers that several classes take get cheaper, those that none takes dearer; all together stay
  // what they are. False where nothing is to be changed.
  bool step(double earned) {
    cover_.assign(layers_, 0);
    table_.count_cover(cover_);
    double covered = 0;
    double all = 0;
    for (std::size_t k = 0; k < layers_; ++k) {
      covered += scale_[k] * scale_[k] * cover_[k];
      all += scale_[k] * scale_[k];
    }
    double length = 0;
    for (std::size_t k = 0; k < layers_; ++k) {
      direction_[k] = kMomentum * direction_[k] + (1 - kMomentum) * (cover_[k] - covered / all);
      length += direction_[k] * direction_[k] * scale_[k] * scale_[k];
    }
    if (!(length > 0)) return false;
    const double step = reach_ * (earned - least_ * (1 - kPriceAim * reach_)) / length;
    for (std::size_t k = 0; k < layers_; ++k)
      price_[k] -= step * scale_[k] * scale_[k] * direction_[k];
    const double sum = std::accumulate(price_.begin(), price_.end(), 0.0);
    for (double& one : price_) one /= sum;
    return sum > 0;
  }

  EarningTable& table_;
  WorkBudget& budget_;
  std::vector<double> price_, best_;
  std::size_t layers_;
  std::vector<double> scale_;
  std::vector<double> direction_;
  std::vector<double> cover_;
  double least_ = std::numeric_limits<double>::infinity();
  double reach_ = 1;
  int waited_ = 0;
};

// A layer is worth what it saves of the way under prices per host; the same for all where that says
// nothing.
std::vector<double> first_prices(const StageGraph& graph, std::span<const double> host_price,
                                 WorkBudget& budget) {
  const std::size_t layers = graph.nodes() - 1;
  std::vector<double> price(layers, 1 / static_cast<double>(layers));
  if (host_price.empty()) return price;
  std::vector<double> to_go;
  const double whole = cheapest_way(graph, host_price, to_go, budget);
  const bool finite = std::ranges::all_of(to_go, [](double one) { return std::isfinite(one); });
  if (!finite || !(whole > 0)) return price;
  for (std::size_t k = 0; k < layers; ++k) price[k] = (to_go[k] - to_go[k + 1]) / whole;
  return price;
}

}  // namespace

bool LayerPricing::affords(const StageGraph& graph) const {
  if (!EarningTable::suits(graph, capacity_)) return false;
  return EarningTable::work_of(graph, capacity_) <=
         budget_.limit() / kLayerSolvesPerBudget / kFewestPriceRounds;
}

std::optional<LayerProof> LayerPricing::refute(const StageGraph& graph, double period_s,
                                               std::span<const double> host_price) {
  if (price_.empty()) price_ = first_prices(graph, host_price, budget_);
  table_.reset(graph, capacity_);
  budget_.charge(table_.work());
  PriceDescent descent(table_, price_, budget_);
  constexpr double kRefuted = 1 - kPriceTolerance;
  const std::uint64_t work = table_.work() * kRoughRoundsPerBudget;
  if (descent.least() >= kRefuted && work > budget_.limit()) {
    descent.look_at(rough_prices(graph, work / budget_.limit() + 1));
  }
  if (descent.least() >= kRefuted) descent.run(kRefuted);
  price_ = descent.best();
  if (descent.least() < kRefuted) return LayerProof{period_s, price_};
  guess_s_ = period_s / descent.least();
  return std::nullopt;
}

// Where a look takes long, hosts are counted in larger units first.
std::vector<double> LayerPricing::rough_prices(const StageGraph& graph,
                                               std::size_t hosts_per_unit) {
  EarningTable rough;
  rough.reset(graph, capacity_, hosts_per_unit);
  PriceDescent descent(rough, price_, budget_);
  descent.run(kRoughlyRefuted);
  return descent.best();
}

const EarningTable& LayerPricing::earnings_for(const StageGraph& graph) {
  table_.reset(graph, capacity_);
  budget_.charge(table_.work());
  fill(table_, price_, budget_);
  return table_;
}

}  // namespace harmonics::inline in_plan
