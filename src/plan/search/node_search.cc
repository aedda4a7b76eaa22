#include "node_search.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "price_table.h"

namespace harmonics::inline in_plan {
namespace {

constexpr std::uint32_t kNoNode = 0xffffffff;
constexpr double kNotLookedAt = std::numeric_limits<double>::infinity();
// A bucket may grow to so many times the width before it is trimmed.
constexpr std::size_t kSlack = 8;
constexpr std::uint64_t kWorkPerNodeLabel = 16;
constexpr std::uint64_t kWorkPerNodeArc = 4;
constexpr std::uint64_t kWorkPerMerge = 20;  // sorting

// One search; see search_by_node.
class NodeSearch {
 public:
  NodeSearch(const PathQuestion& question, WorkBudget& budget)
      : graph_(question.graph),
        capacity_(question.capacity),
        classes_(question.capacity.size()),
        width_(question.width),
        max_labels_(question.max_labels),
        budget_(budget),
        prices_(graph_, capacity_, question.prices, false),
        earnings_(question.earnings),
        buckets_(graph_.nodes()) {}

  SearchResult run() {
    buckets_[0].labels.push_back({kNoNode, 0, 0, 0});
    waiting_ = 1;
    buckets_[0].used.assign(classes_, 0);
    for (std::size_t node = 0; node + 1 < graph_.nodes(); ++node) {
      Bucket bucket = std::move(buckets_[node]);
      waiting_ -= bucket.labels.size();
      merge_equal(bucket);
      trim(bucket);
      for (const Label& label : bucket.labels) {
        if (budget_.exhausted() || history_.size() + waiting_ > max_labels_) return {};
        history_.push_back({label.parent, label.arc});
        const std::uint32_t last = expand(node, {bucket.used.data() + label.used_at, classes_});
        if (last != kNoNode) return {SearchVerdict::kFound, path_to(last), 0, true};
      }
    }
    return {cut_off_ ? SearchVerdict::kUnknown : SearchVerdict::kNone, {}, 0, !cut_off_};
  }

 private:
  struct Label {
    std::uint32_t parent;  // in history_
    std::uint32_t arc;
    double score;
    std::size_t used_at;  // where its use begins in Bucket::used
  };
  struct Bucket {
    std::vector<Label> labels;
    std::vector<std::uint16_t> used;
    // Of those that it was trimmed to; what is worse would be trimmed as well.
    double worst = std::numeric_limits<double>::infinity();
  };
  struct Step {
    std::uint32_t parent;
    std::uint32_t arc;
  };

  // Of labels that used the same hosts, one is enough.
  void merge_equal(Bucket& bucket) {
    budget_.charge(kWorkPerMerge * bucket.labels.size());
    const auto use = [&](const Label& label) {
      return std::span(bucket.used).subspan(label.used_at, classes_);
    };
    std::ranges::sort(bucket.labels, [&](const Label& a, const Label& b) {
      const auto [x, y] = std::ranges::mismatch(use(a), use(b));
      return x == use(a).end() ? a.used_at < b.used_at : *x < *y;
    });
    const auto [first, last] = std::ranges::unique(
        bucket.labels,
        [&](const Label& a, const Label& b) { return std::ranges::equal(use(a), use(b)); });
    bucket.labels.erase(first, last);
  }

  void trim(Bucket& bucket) {
    if (bucket.labels.size() <= width_) return;
    cut_off_ = true;
    const auto middle = bucket.labels.begin() + static_cast<std::ptrdiff_t>(width_);
    std::ranges::nth_element(bucket.labels, middle, [](const Label& a, const Label& b) {
      return a.score != b.score ? a.score < b.score : a.used_at < b.used_at;
    });
    bucket.worst = middle->score;
    bucket.labels.resize(width_);
    std::vector<std::uint16_t> used;
    for (Label& label : bucket.labels) {
      const auto from = bucket.used.begin() + static_cast<std::ptrdiff_t>(label.used_at);
      label.used_at = used.size();
      used.insert(used.end(), from, from + static_cast<std::ptrdiff_t>(classes_));
    }
    bucket.used = std::move(used);
  }

  // Sets the partial plan that `score_of` goes on from.
  void begin_at(std::size_t node, std::span<const std::uint16_t> used) {
    if (earnings_ == nullptr) {
      prices_.spend(used, 0);
      return;
    }
    left_.resize(classes_);
    for (std::size_t u = 0; u < classes_; ++u) {
      left_[u] = static_cast<std::uint16_t>(capacity_[u] - used[u]);
    }
    spare_.assign(graph_.nodes() - node, kNotLookedAt);
    spare_from_ = node;
  }

  // What the hosts left could earn from there on beyond what is to be climbed.
  double spare_at(std::size_t node) {
    double& spare = spare_[node - spare_from_];
    if (spare != kNotLookedAt) return spare;
    budget_.charge(classes_);
    spare = -earnings_->to_climb(node);
    for (std::size_t u = 0; u < classes_; ++u) spare += earnings_->most(u, node, left_[u]);
    return spare;
  }

  // Lower is better; above the limit no plan goes on like this.
  double score_of(const StageArc& arc) {
    if (earnings_ == nullptr) return prices_.bound(arc, 0);
    const auto to = static_cast<std::size_t>(arc.to);
    const std::size_t u = arc.host_class;
    return 1 - spare_at(to) + earnings_->most(u, to, left_[u]) -
           earnings_->most(u, to, left_[u] - std::size_t{arc.hosts});
  }

  // Adds what can follow the last label of the history; the arc when one ends the model.
  std::uint32_t expand(std::size_t node, std::span<const std::uint16_t> used) {
    begin_at(node, used);
    const std::uint32_t last = graph_.first_arc[node + 1];
    budget_.charge(kWorkPerNodeLabel + kWorkPerNodeArc * (last - graph_.first_arc[node]));
    for (std::uint32_t a = graph_.first_arc[node]; a < last; ++a) {
      const StageArc& arc = graph_.arcs[a];
      const bool takes = arc.host_class != kNoHostClass;
      if (takes && used[arc.host_class] + arc.hosts > capacity_[arc.host_class]) continue;
      if (arc.to == graph_.end()) return a;
      const double score = score_of(arc);
      if (score > 1 + kPriceTolerance) continue;
      add(a, score, used);
    }
    return kNoNode;
  }

  void add(std::uint32_t index, double score, std::span<const std::uint16_t> used) {
    const StageArc& arc = graph_.arcs[index];
    Bucket& bucket = buckets_[static_cast<std::size_t>(arc.to)];
    if (score > bucket.worst) return;
    const std::size_t at = bucket.used.size();
    bucket.labels.push_back({static_cast<std::uint32_t>(history_.size() - 1), index, score, at});
    bucket.used.insert(bucket.used.end(), used.begin(), used.end());
    if (arc.host_class != kNoHostClass) {
      std::uint16_t& count = bucket.used[at + arc.host_class];
      count = static_cast<std::uint16_t>(count + arc.hosts);
    }
    ++waiting_;
    if (bucket.labels.size() > kSlack * width_ + classes_) {
      waiting_ -= bucket.labels.size();
      merge_equal(bucket);
      trim(bucket);
      waiting_ += bucket.labels.size();
    }
  }

  ArcPath path_to(std::uint32_t last) const {
    ArcPath path{last};
    for (std::size_t k = history_.size() - 1; history_[k].parent != kNoNode;
         k = history_[k].parent) {
      path.push_back(history_[k].arc);
    }
    std::ranges::reverse(path);
    return path;
  }

  const StageGraph& graph_;
  std::span<const std::uint16_t> capacity_;
  std::size_t classes_;
  std::size_t width_;
  std::size_t max_labels_;
  std::size_t waiting_ = 0;  // labels in buckets
  WorkBudget& budget_;
  PriceTable prices_;
  const EarningTable* earnings_;     // in place of prices, where there are any
  std::vector<std::uint16_t> left_;  // hosts, of the label that is expanded
  std::vector<double> spare_;        // per node from spare_from_ on
  std::size_t spare_from_ = 0;
  std::vector<Bucket> buckets_;
  std::vector<Step> history_;
  bool cut_off_ = false;
};

}  // namespace

SearchResult search_by_node(const PathQuestion& question, WorkBudget& budget) {
  return NodeSearch(question, budget).run();
}

}  // namespace harmonics::inline in_plan
