#include "lattice_search.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "load_bound.h"
#include "stage_load.h"

namespace harmonics::inline in_plan {
namespace {

constexpr std::uint32_t kNoLabel = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kMostLabels = 20'000'000;

// A way to an ideal: which hosts it takes, and the slowest of its stages.
struct Label {
  double period_s = 0;
  std::uint64_t used = 0;  // hosts of each device, packed
  std::uint32_t ideal = 0;
  std::uint32_t before = kNoLabel;  // the label that it goes on from
  std::uint32_t next = kNoLabel;    // of the same ideal
  std::uint32_t device = 0;
};

class LatticeSearch {
 public:
  LatticeSearch(const IdealLattice& lattice, const LatticeQuestion& question, WorkBudget& budget)
      : lattice_(lattice),
        question_(question),
        budget_(budget),
        below_s_(question.below_s * (1 - kSamePeriod)),
        load_(question.units),
        first_label_(lattice.size(), kNoLabel),
        seen_(lattice.size(), 0) {
    pack_counts();
    price_open();
  }

  LatticeAnswer run() {
    LatticeAnswer answer;
    if (!packed_) return answer;
    first_label_[0] = 0;
    labels_.push_back({});
    std::uint32_t ideal = 0;
    for (; ideal + 1 < lattice_.size() && !stopped_; ++ideal) {
      gather(ideal);
      if (!own_.empty()) expand(ideal);
    }
    answer.whole = !stopped_;
    if (best_ == kNoLabel) return answer;
    answer.period_s = labels_[best_].period_s;
    for (std::uint32_t at = best_; labels_[at].before != kNoLabel; at = labels_[at].before) {
      const Label& label = labels_[at];
      answer.stages.push_back(
          {label.device, lattice_.difference(labels_[label.before].ideal, label.ideal)});
    }
    std::ranges::reverse(answer.stages);
    return answer;
  }

 private:
  // As many bits as the hosts of each device need; without room for all, nothing is searched.
  void pack_counts() {
    unsigned bits = 0;
    for (const DeviceLimits& device : question_.devices) {
      const std::size_t most = std::min(device.hosts, question_.units.size());
      unsigned width = 1;
      while ((std::size_t{1} << width) <= most) ++width;
      shift_.push_back(bits);
      mask_.push_back((std::uint64_t{1} << width) - 1);
      most_.push_back(most);
      bits += width;
      if (bits > 64) packed_ = false;
    }
  }

  std::uint64_t used(std::uint64_t packed, std::size_t device) const {
    return (packed >> shift_[device]) & mask_[device];
  }

  // What the units that are not in an ideal cost at the least.
  void price_open() {
    const UnitGraph& units = question_.units;
    std::vector<double> price(units.size());
    double all = 0;
    for (Unit unit = 0; unit < units.size(); ++unit) {
      price[unit] = least_price(units, unit, question_.price);
      all += price[unit];
    }
    open_.assign(lattice_.size(), -1);
    open_[0] = all;
    for (std::size_t ideal = 0; ideal < lattice_.size(); ++ideal) {
      for (const IdealLattice::Step& step : lattice_.steps(ideal)) {
        if (open_[step.to] < 0) open_[step.to] = std::max(0.0, open_[ideal] - price[step.unit]);
      }
    }
    slack_ = kSamePeriod * all;
    budget_.charge(lattice_.size());
  }

  double left_price(std::uint64_t packed) const {
    double sum = 0;
    for (std::size_t d = 0; d < question_.devices.size(); ++d) {
      sum += question_.price[d] * static_cast<double>(most_[d] - used(packed, d));
    }
    return sum;
  }

  bool no_more_hosts(std::uint64_t a, std::uint64_t b) const {
    for (std::size_t d = 0; d < most_.size(); ++d) {
      if (used(a, d) > used(b, d)) return false;
    }
    return true;
  }

  // The labels of an ideal that no other makes needless.
  void gather(std::uint32_t ideal) {
    own_.clear();
    for (std::uint32_t at = first_label_[ideal]; at != kNoLabel; at = labels_[at].next) {
      const Label& label = labels_[at];
      if (label.period_s >= below_s_) continue;
      const bool needless = std::ranges::any_of(own_, [&](std::uint32_t other) {
        return labels_[other].period_s <= label.period_s &&
               no_more_hosts(labels_[other].used, label.used);
      });
      budget_.charge(1 + own_.size());
      if (needless) continue;
      std::erase_if(own_, [&](std::uint32_t other) {
        return labels_[other].period_s >= label.period_s &&
               no_more_hosts(label.used, labels_[other].used);
      });
      own_.push_back(at);
    }
    may_use_.assign(most_.size(), false);
    for (const std::uint32_t at : own_) {
      for (std::size_t d = 0; d < most_.size(); ++d) {
        if (used(labels_[at].used, d) < most_[d]) may_use_[d] = true;
      }
    }
    left_.clear();
    for (const std::uint32_t at : own_) left_.push_back(left_price(labels_[at].used));
  }

  bool fits(std::size_t device) const {
    return may_use_[device] && load_.compute_s(device) < below_s_ &&
           load_.memory_mb() <= question_.devices[device].memory_mb;
  }
  bool fits_anywhere() const {
    for (std::size_t d = 0; d < most_.size(); ++d) {
      if (fits(d)) return true;
    }
    return false;
  }

  // Depth first over the larger ideals, as far as some device can hold the difference.
  void expand(std::uint32_t from) {
    struct Frame {
      std::uint32_t ideal;
      std::uint32_t next = 0;
    };
    static thread_local std::vector<Frame> frames;
    frames.assign(1, {from});
    ++stamp_;
    while (!frames.empty()) {
      const std::span<const IdealLattice::Step> steps = lattice_.steps(frames.back().ideal);
      if (frames.back().next == steps.size()) {
        frames.pop_back();
        if (!frames.empty()) load_.pop();
        continue;
      }
      const IdealLattice::Step step = steps[frames.back().next++];
      budget_.charge(1);
      if (seen_[step.to] == stamp_) continue;
      seen_[step.to] = stamp_;
      budget_.charge(4 + 2 * question_.units.touching[step.unit].size());
      load_.push(step.unit);
      if (!fits_anywhere()) {
        load_.pop();
        continue;
      }
      reach(step.to);
      frames.push_back({step.to});
      if (budget_.exhausted() || labels_.size() > kMostLabels) stopped_ = true;
      if (stopped_) {
        while (load_.size() > 0) load_.pop();
        return;
      }
    }
  }

  // The stage that ends at this ideal, on each device and after each way to its beginning.
  void reach(std::uint32_t to) {
    for (std::size_t d = 0; d < most_.size(); ++d) {
      if (!fits(d)) continue;
      const double stage_s = load_.stage_s(d, question_.devices[d].s_per_byte, question_.overlap);
      if (stage_s >= below_s_) continue;
      for (std::size_t k = 0; k < own_.size(); ++k) {
        // Even if all hosts that are left worked without a break, they would not be done.
        if (open_[to] > (left_[k] - question_.price[d]) * below_s_ + slack_) continue;
        const Label& label = labels_[own_[k]];
        if (label.period_s >= below_s_ || used(label.used, d) >= most_[d]) continue;
        add(to, {std::max(label.period_s, stage_s), label.used + (std::uint64_t{1} << shift_[d]),
                 to, own_[k], kNoLabel, static_cast<std::uint32_t>(d)});
      }
    }
  }

  void add(std::uint32_t to, const Label& label) {
    if (to + 1 == lattice_.size()) {
      best_ = static_cast<std::uint32_t>(labels_.size());
      labels_.push_back(label);
      below_s_ = label.period_s * (1 - kSamePeriod);
      return;
    }
    std::uint64_t steps = 1;
    for (std::uint32_t at = first_label_[to]; at != kNoLabel; at = labels_[at].next) {
      ++steps;
      if (labels_[at].used != label.used) continue;
      budget_.charge(steps);
      if (labels_[at].period_s <= label.period_s) return;
      const std::uint32_t next = labels_[at].next;
      labels_[at] = label;
      labels_[at].next = next;
      return;
    }
    budget_.charge(steps);
    labels_.push_back(label);
    labels_.back().next = first_label_[to];
    first_label_[to] = static_cast<std::uint32_t>(labels_.size() - 1);
  }

  const IdealLattice& lattice_;
  const LatticeQuestion& question_;
  WorkBudget& budget_;
  double below_s_;
  StageLoad load_;
  std::vector<unsigned> shift_;
  std::vector<std::uint64_t> mask_;
  std::vector<std::uint64_t> most_;
  bool packed_ = true;
  std::vector<double> open_;
  double slack_ = 0;  // sums of prices are rounded
  std::vector<Label> labels_;
  std::vector<std::uint32_t> first_label_;
  std::vector<std::uint32_t> seen_;
  std::uint32_t stamp_ = 0;
  std::uint32_t best_ = kNoLabel;
  std::vector<std::uint32_t> own_;
  std::vector<double> left_;
  std::vector<bool> may_use_;
  bool stopped_ = false;
};

}  // namespace

LatticeAnswer search_lattice(const IdealLattice& lattice, const LatticeQuestion& question,
                             WorkBudget& budget) {
  return LatticeSearch(lattice, question, budget).run();
}

}  // namespace harmonics::inline in_plan
