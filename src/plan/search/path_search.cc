#include "path_search.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "price_table.h"

namespace harmonics::inline in_plan {
namespace {

constexpr std::uint32_t kNoLabel = 0xffffffff;
// How much one host too many or too few (squared) weighs against a bound. Small: it decides among
// partial plans whose bounds are as good as equal, which most are.
constexpr double kBalanceWeight = 1e-4;
// A step of the budget is about as long as one comparison of prices.
constexpr std::uint64_t kWorkPerLabel = 16;
constexpr std::uint64_t kWorkPerArc = 8;
constexpr std::uint64_t kClassesPerStep = 16;  // when the use of hosts is copied

// One search; see search_path.
class PathSearch {
 public:
  PathSearch(const PathQuestion& question, WorkBudget& budget)
      : graph_(question.graph),
        capacity_(question.capacity),
        weights_(question.weights),
        limited_(question.limited),
        limited_to_go_(question.limited_to_go),
        limit_(question.limit * (1 + kPriceTolerance)),
        classes_(question.capacity.size()),
        width_(question.width),
        max_labels_(question.max_labels),
        budget_(budget),
        prices_(graph_, capacity_, question.prices, false),
        weight_prices_(graph_, capacity_, question.weight_prices, true),
        best_weight_(question.weight_limit) {
    std::uint64_t mix = 0x9e3779b97f4a7c15;
    for (std::size_t u = 0; u < classes_; ++u) {
      mix = (mix ^ (mix >> 29)) * 0xbf58476d1ce4e5b9;
      class_hash_.push_back(mix | 1);
      capacity_capacity_ += static_cast<double>(capacity_[u]) * capacity_[u];
    }
  }

  SearchResult run() {
    rim_ = {{0, kNoLabel, kNoLabel}};
    rim_used_.assign(classes_, 0);
    rim_hash_ = {0};
    rim_weight_ = {0};
    rim_limited_ = {0};
    history_ = rim_;
    bool cut_off = false;
    while (!rim_.empty()) {
      const std::size_t rim_start = history_.size() - rim_.size();
      begin_next();
      for (std::size_t k = 0; k < rim_.size(); ++k) {
        if (budget_.exhausted() || history_.size() + next_.size() > max_labels_) {
          return answer(false);
        }
        expand(k, static_cast<std::uint32_t>(rim_start + k));
        if (found_ && weights_.empty()) return answer(true);
      }
      cut_off |= narrow();
      advance();
    }
    return answer(!cut_off);
  }

 private:
  struct Label {
    std::int32_t node;
    std::uint32_t parent;  // in history_
    std::uint32_t arc;
  };

  struct Sums {
    double weight;
    double limited;
  };

  void begin_next() {
    next_.clear();
    next_used_.clear();
    next_hash_.clear();
    next_weight_.clear();
    next_limited_.clear();
    next_score_.clear();
    next_same_.clear();
    std::ranges::fill(table_, kNoLabel);
  }

  // Adds what can follow one label of the rim.
  void expand(std::size_t k, std::uint32_t parent) {
    const std::span<const std::uint16_t> used(rim_used_.data() + k * classes_, classes_);
    prices_.spend(used, 0);
    weight_prices_.spend(used, rim_weight_[k]);
    used_used_ = used_capacity_ = 0;
    for (std::size_t u = 0; u < classes_; ++u) {
      used_used_ += static_cast<double>(used[u]) * used[u];
      used_capacity_ += static_cast<double>(used[u]) * capacity_[u];
    }
    const auto node = static_cast<std::size_t>(rim_[k].node);
    const std::uint32_t last = graph_.first_arc[node + 1];
    budget_.charge(classes_ + kWorkPerLabel + kWorkPerArc * (last - graph_.first_arc[node]));
    for (std::uint32_t a = graph_.first_arc[node]; a < last; ++a) {
      const StageArc& arc = graph_.arcs[a];
      const bool takes = arc.host_class != kNoHostClass;
      if (takes && used[arc.host_class] + arc.hosts > capacity_[arc.host_class]) continue;
      const double weight = weights_.empty() ? 0 : rim_weight_[k] + weights_[a];
      const double limited = limited_.empty() ? 0 : rim_limited_[k] + limited_[a];
      if (!limited_.empty() &&
          limited + limited_to_go_[static_cast<std::size_t>(arc.to)] > limit_) {
        continue;
      }
      if (arc.to == graph_.end()) {
        finish(parent, a, weight);
        if (weights_.empty()) return;
        continue;
      }
      const double score = score_of(arc, weight - rim_weight_[k], used);
      if (score >= 0) add({arc.to, parent, a}, k, {weight, limited}, score);
    }
  }

  void finish(std::uint32_t parent, std::uint32_t arc, double weight) {
    if (!weights_.empty() && weight >= best_weight_ * (1 - kPriceTolerance)) return;
    found_ = true;
    best_weight_ = weight;
    best_path_ = {arc};
    for (std::uint32_t k = parent; history_[k].parent != kNoLabel; k = history_[k].parent) {
      best_path_.push_back(history_[k].arc);
    }
    std::ranges::reverse(best_path_);
  }

  // Lower is better; negative when some prices refute the label.
  double score_of(const StageArc& arc, double weight, std::span<const std::uint16_t> used) const {
    double bound = prices_.bound(arc, 0);
    if (bound > 1 + kPriceTolerance) return -1;
    if (!weights_.empty()) {
      bound = weight_prices_.bound(arc, weight);
      if (bound >= best_weight_ * (1 - kPriceTolerance)) return -1;
      bound = std::max(0.0, bound) / best_weight_;
    }
    return bound + kBalanceWeight * imbalance(arc, used, prices_.done_at(arc.to));
  }

  // How far the use of each class is from its share of the way: the sum over classes of
  // (used - done * capacity) squared, in terms of the sums over the parent.
  double imbalance(const StageArc& arc, std::span<const std::uint16_t> used, double done) const {
    double used_used = used_used_;
    double used_capacity = used_capacity_;
    if (arc.host_class != kNoHostClass) {
      const double before = used[arc.host_class];
      used_used += arc.hosts * (2 * before + arc.hosts);
      used_capacity += static_cast<double>(arc.hosts) * capacity_[arc.host_class];
    }
    return used_used - 2 * done * used_capacity + done * done * capacity_capacity_;
  }

  // Adds a label unless one with the same hosts makes it needless; takes the place of one that it
  // makes needless.
  void add(const Label& label, std::size_t parent, Sums sums, double score) {
    const StageArc& arc = graph_.arcs[label.arc];
    const std::span<const std::uint16_t> used(rim_used_.data() + parent * classes_, classes_);
    const bool takes = arc.host_class != kNoHostClass;
    const std::uint64_t hash =
        rim_hash_[parent] + (takes ? class_hash_[arc.host_class] * arc.hosts : 0);
    if (next_.size() * 2 >= table_.size()) grow_table();
    std::uint32_t& head = table_[slot_of(hash)];
    for (std::uint32_t k = head; k != kNoLabel; k = next_same_[k]) {
      if (next_hash_[k] != hash || !same_use(k, used, arc)) continue;
      const Sums other{next_weight_[k], next_limited_[k]};
      if (covers(next_[k].node, other, label.node, sums)) return;
      if (covers(label.node, sums, next_[k].node, other)) {
        next_[k] = label;
        next_weight_[k] = sums.weight;
        next_limited_[k] = sums.limited;
        next_score_[k] = score;
        return;
      }
    }
    next_same_.push_back(head);
    head = static_cast<std::uint32_t>(next_.size());
    next_.push_back(label);
    next_hash_.push_back(hash);
    next_weight_.push_back(sums.weight);
    next_limited_.push_back(sums.limited);
    next_score_.push_back(score);
    next_used_.insert(next_used_.end(), used.begin(), used.end());
    budget_.charge(classes_ / kClassesPerStep);
    if (takes) {
      std::uint16_t& count = next_used_[next_used_.size() - classes_ + arc.host_class];
      count = static_cast<std::uint16_t>(count + arc.hosts);
    }
  }

  bool covers(std::int32_t better, Sums of_better, std::int32_t worse, Sums of_worse) const {
    if (of_better.weight > of_worse.weight || of_better.limited > of_worse.limited) return false;
    if (better == worse) return true;
    if (graph_.covers.empty()) return false;
    return worse < better && graph_.covers[static_cast<std::size_t>(better)] < worse;
  }

  bool same_use(std::uint32_t k, std::span<const std::uint16_t> used, const StageArc& arc) const {
    const std::uint16_t* other = next_used_.data() + k * classes_;
    for (std::size_t u = 0; u < classes_; ++u) {
      if (other[u] != used[u] + (u == arc.host_class ? arc.hosts : 0)) return false;
    }
    return true;
  }

  std::size_t slot_of(std::uint64_t hash) const {
    return static_cast<std::size_t>((hash * 0x9e3779b97f4a7c15) >> 20) & (table_.size() - 1);
  }

  void grow_table() {
    table_.assign(std::max<std::size_t>(1024, table_.size() * 4), kNoLabel);
    for (std::size_t k = 0; k < next_.size(); ++k) {
      std::uint32_t& head = table_[slot_of(next_hash_[k])];
      next_same_[k] = head;
      head = static_cast<std::uint32_t>(k);
    }
  }

  // Chooses the labels that go on; true when some had to be left behind.
  bool narrow() {
    chosen_.resize(next_.size());
    std::iota(chosen_.begin(), chosen_.end(), 0);
    if (chosen_.size() <= width_) return false;
    const auto cheaper = [&](std::uint32_t a, std::uint32_t b) {
      return next_score_[a] != next_score_[b] ? next_score_[a] < next_score_[b] : a < b;
    };
    const auto middle = chosen_.begin() + static_cast<std::ptrdiff_t>(width_);
    std::ranges::nth_element(chosen_, middle, cheaper);
    chosen_.resize(width_);
    std::ranges::sort(chosen_);
    return true;
  }

  // Makes the chosen labels the rim.
  void advance() {
    rim_.clear();
    rim_used_.clear();
    rim_hash_.clear();
    rim_weight_.clear();
    rim_limited_.clear();
    for (const std::uint32_t k : chosen_) {
      rim_.push_back(next_[k]);
      rim_hash_.push_back(next_hash_[k]);
      rim_weight_.push_back(next_weight_[k]);
      rim_limited_.push_back(next_limited_[k]);
      const auto used = next_used_.begin() + static_cast<std::ptrdiff_t>(k * classes_);
      rim_used_.insert(rim_used_.end(), used, used + static_cast<std::ptrdiff_t>(classes_));
    }
    history_.insert(history_.end(), rim_.begin(), rim_.end());
  }

  SearchResult answer(bool complete) {
    if (found_) return {SearchVerdict::kFound, std::move(best_path_), best_weight_, complete};
    return {complete ? SearchVerdict::kNone : SearchVerdict::kUnknown, {}, 0, complete};
  }

  const StageGraph& graph_;
  std::span<const std::uint16_t> capacity_;
  std::span<const double> weights_;
  std::span<const double> limited_;
  std::span<const double> limited_to_go_;
  const double limit_;
  std::size_t classes_;
  std::size_t width_;
  std::size_t max_labels_;
  WorkBudget& budget_;

  PriceTable prices_;         // refute a path
  PriceTable weight_prices_;  // bound its weight
  std::vector<std::uint64_t> class_hash_;
  double capacity_capacity_ = 0;  // sum of squares
  double used_used_ = 0;          // the same of the label that is expanded
  double used_capacity_ = 0;

  bool found_ = false;
  double best_weight_;
  ArcPath best_path_;

  std::vector<Label> history_;
  std::vector<Label> rim_;
  std::vector<std::uint16_t> rim_used_;
  std::vector<std::uint64_t> rim_hash_;
  std::vector<double> rim_weight_;
  std::vector<double> rim_limited_;
  std::vector<Label> next_;
  std::vector<std::uint16_t> next_used_;
  std::vector<std::uint64_t> next_hash_;
  std::vector<double> next_weight_;
  std::vector<double> next_limited_;
  std::vector<double> next_score_;
  std::vector<std::uint32_t> next_same_;  // the next label in the same slot of table_
  std::vector<std::uint32_t> table_;
  std::vector<std::uint32_t> chosen_;
};

}  // namespace

SearchResult search_path(const PathQuestion& question, WorkBudget& budget) {
  return PathSearch(question, budget).run();
}

}  // namespace harmonics::inline in_plan
