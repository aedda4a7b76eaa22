#include "annealing.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "draft_plan.h"

namespace harmonics::inline in_plan {
namespace {

// The next aim lies below the best period by this share.
constexpr double kAim = 2e-4;
// The first round begins from the plan as it is and keeps what is good about it, later ones look
// further: how many hosts a step back may cost, as a share of what a stage takes, at the beginning
// and at the end.
struct Round {
  double hot;
  double cold;
};
constexpr Round kAnnealingRounds[] = {
    {0.003, 0.0002}, {0.01, 0.0005}, {0.01, 0.0005}, {0.03, 0.001}};
constexpr int kStepsBetweenLooks = 256;
// Prices may say that a kind of host is worth nothing; one that is missing still is.
constexpr double kLeastWeight = 0.05;
constexpr double kNoneMissing = 1e-6;
constexpr std::uint64_t kWorkPerStage = 8;

// splitmix64: fast, and the same everywhere.
class Dice {
 public:
  std::size_t below(std::size_t bound) {
    return static_cast<std::size_t>((next() >> 32) * bound >> 32);
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t next() {
    std::uint64_t mixed = state_ += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
  }
  std::uint64_t state_ = 1;
};

class Annealing {
 public:
  Annealing(const AnnealingQuestion& question, WorkBudget& budget)
      : question_(question),
        budget_(budget),
        draft_(question.builder, question.replicate, question.known),
        best_(question.known),
        best_s_(period_of(question.builder.costs(), question.known)) {
    const std::span<const std::uint16_t> capacity = question.builder.capacity();
    double sum = 0;
    double hosts = 0;
    weight_.assign(capacity.size(), 1);
    for (std::size_t u = 0; u < capacity.size(); ++u) {
      if (capacity[u] > 0) classes_.push_back(u);
      if (!question.price.empty()) weight_[u] = question.price[u];
      sum += weight_[u] * capacity[u];
      hosts += capacity[u];
    }
    for (double& one : weight_) one = std::max(kLeastWeight, one * hosts / sum);
  }

  Placement run() {
    const std::uint64_t steps = question_.work / kWorkPerStage / std::size(kAnnealingRounds);
    if (!(best_s_ > 0)) return std::move(best_);
    std::uint64_t from = 0;
    for (const Round& round : kAnnealingRounds) {
      draft_.restart(best_);
      aim();
      cool(round, from, from + steps);
      from += steps;
    }
    budget_.charge(work() * kWorkPerStage);
    return std::move(best_);
  }

 private:
  std::uint64_t work() const { return steps_ + draft_.work(); }

  void cool(const Round& round, std::uint64_t from, std::uint64_t to) {
    while (work() < to && best_s_ > question_.lower_bound_s * (1 + kTimeTolerance)) {
      const double done = static_cast<double>(work() - from) / static_cast<double>(to - from);
      temperature_ = mean_hosts_ * round.hot * std::pow(round.cold / round.hot, done);
      for (int k = 0; k < kStepsBetweenLooks; ++k) {
        step();
        if (draft_.missing() <= kNoneMissing) reached();
      }
    }
  }

  void aim() {
    draft_.aim_at(std::max(best_s_ * (1 - kAim), question_.lower_bound_s), weight_);
    double sum = 0;
    for (const DraftStage& stage : draft_.stages()) sum += stage.hosts * weight_[stage.host_class];
    mean_hosts_ = sum / static_cast<double>(draft_.stages().size());
  }

  void reached() {
    const double period = draft_.least_period_s();
    if (period < best_s_) {
      best_s_ = period;
      best_ = draft_.placement(period);
    }
    aim();
  }

  std::size_t stages() const { return draft_.stages().size(); }
  std::size_t any_class() { return classes_[dice_.below(classes_.size())]; }

  void step() {
    ++steps_;
    changes_ = 1;
    const std::size_t kind = dice_.below(16);
    const bool made = kind < 4    ? shift()
                      : kind < 7  ? shift_several()
                      : kind < 9  ? exchange()
                      : kind < 11 ? retype()
                      : kind < 13 ? split()
                      : kind < 15 ? merge()
                                  : swap();
    if (!made) return;
    const std::span<DraftChange> changes(change_, changes_);
    const double before = draft_.cost();
    const double after = draft_.attempt(changes);
    if (after <= before || dice_.uniform() < std::exp((before - after) / temperature_)) {
      draft_.keep(changes);
    } else {
      draft_.drop();
    }
  }

  void set(std::size_t first, std::size_t removed, std::size_t added, std::size_t which = 0) {
    change_[which].first = first;
    change_[which].removed = removed;
    change_[which].added = added;
  }

  // Moves a cut.
  bool shift() {
    if (stages() < 2) return false;
    const std::size_t k = dice_.below(stages() - 1);
    const DraftStage& left = draft_.stages()[k];
    const DraftStage& right = draft_.stages()[k + 1];
    const std::size_t most = right.end - draft_.begin_of(k);
    if (most <= 2) return false;
    std::size_t reach = std::min<std::size_t>(most, std::size_t{1} << dice_.below(5));
    const std::size_t by = 1 + dice_.below(reach);
    const bool back = dice_.below(2) == 0;
    if (back ? by >= left.end - draft_.begin_of(k) : by >= right.end - left.end) return false;
    set(k, 2, 2);
    change_[0].stages[0] = {back ? left.end - by : left.end + by, left.host_class};
    change_[0].stages[1] = {right.end, right.host_class};
    return true;
  }

  // Moves several cuts in a row by as much.
  bool shift_several() {
    if (stages() < 3) return false;
    const std::size_t a = dice_.below(stages() - 2);
    const std::size_t most = std::min(stages() - a, kMostChanged);
    const std::size_t count = 3 + dice_.below(most - 2);
    const std::size_t by = 1 + dice_.below(2);
    const bool back = dice_.below(2) == 0;
    set(a, count, count);
    for (std::size_t k = 0; k < count; ++k) {
      const DraftStage& stage = draft_.stages()[a + k];
      change_[0].stages[k] = {stage.end, stage.host_class};
      if (k + 1 == count) break;
      if (back && k == 0 && stage.end - draft_.begin_of(a) <= by) return false;
      change_[0].stages[k].end = back ? stage.end - by : stage.end + by;
    }
    return change_[0].stages[count - 2].end < change_[0].stages[count - 1].end;
  }

  // Exchanges two stages that are near each other, as many layers on the same class as before.
  bool exchange() {
    if (stages() < 2) return false;
    const std::size_t a = dice_.below(stages() - 1);
    const std::size_t most = std::min(stages() - a, kMostChanged);
    const std::size_t count = 2 + dice_.below(most - 1);
    set(a, count, count);
    std::size_t end = draft_.begin_of(a);
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t from = a + (k == 0 ? count - 1 : k + 1 == count ? 0 : k);
      const DraftStage& stage = draft_.stages()[from];
      end += stage.end - draft_.begin_of(from);
      change_[0].stages[k] = {end, stage.host_class};
    }
    return true;
  }

  bool retype() {
    const std::size_t k = dice_.below(stages());
    set(k, 1, 1);
    change_[0].stages[0] = {draft_.stages()[k].end, any_class()};
    return true;
  }

  // Gives one end of a stage, or a part of its middle, to another class.
  bool split() {
    const std::size_t k = dice_.below(stages());
    const std::size_t begin = draft_.begin_of(k);
    const DraftStage& stage = draft_.stages()[k];
    const std::size_t layers = stage.end - begin;
    if (layers < 2) return false;
    const std::size_t cut = begin + 1 + dice_.below(layers - 1);
    const std::size_t other = any_class();
    const std::size_t where = dice_.below(3);
    if (where == 2 && cut + 1 < stage.end) {
      const std::size_t second = cut + 1 + dice_.below(stage.end - cut - 1);
      set(k, 1, 3);
      change_[0].stages[0] = {cut, stage.host_class};
      change_[0].stages[1] = {second, other};
      change_[0].stages[2] = {stage.end, stage.host_class};
      return true;
    }
    set(k, 1, 2);
    change_[0].stages[0] = {cut, where == 0 ? other : stage.host_class};
    change_[0].stages[1] = {stage.end, where == 0 ? stage.host_class : other};
    return true;
  }

  bool merge() {
    if (stages() < 2) return false;
    const std::size_t k = dice_.below(stages() - 1);
    set(k, 2, 1);
    change_[0].stages[0] = {draft_.stages()[k + 1].end,
                            draft_.stages()[k + dice_.below(2)].host_class};
    return true;
  }

  // Exchanges the classes of two stages.
  bool swap() {
    std::size_t a = dice_.below(stages());
    std::size_t b = dice_.below(stages());
    if (a > b) std::swap(a, b);
    const DraftStage& left = draft_.stages()[a];
    const DraftStage& right = draft_.stages()[b];
    if (left.host_class == right.host_class) return false;
    if (b - a < 3) {
      set(a, b - a + 1, b - a + 1);
      for (std::size_t k = a; k <= b; ++k) change_[0].stages[k - a] = draft_.stages()[k];
      std::swap(change_[0].stages[0].host_class, change_[0].stages[b - a].host_class);
      return true;
    }
    changes_ = 2;
    set(a, 1, 1);
    change_[0].stages[0] = {left.end, right.host_class};
    set(b, 1, 1, 1);
    change_[1].stages[0] = {right.end, left.host_class};
    return true;
  }

  const AnnealingQuestion& question_;
  WorkBudget& budget_;
  DraftPlan draft_;
  Placement best_;
  double best_s_;
  std::vector<std::size_t> classes_;
  std::vector<double> weight_;
  double mean_hosts_ = 1;
  double temperature_ = 0;
  DraftChange change_[2];
  std::size_t changes_ = 1;
  Dice dice_;
  std::uint64_t steps_ = 0;
};

}  // namespace

Placement anneal(const AnnealingQuestion& question, WorkBudget& budget) {
  return Annealing(question, budget).run();
}

}  // namespace harmonics::inline in_plan
