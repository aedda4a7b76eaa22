// The flow of a placement as the search sees it: with links that are not there, at a discount, so
// that a placement which lacks a few links is better than one that lacks many.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <harmonics/plan/flow_plan.h>

namespace harmonics::inline in_plan {

class SoftFlow {
 public:
  /// The problem must outlive it.
  explicit SoftFlow(const FlowProblem& problem);

  struct Value {
    /// Over links that there are.
    double rate = 0;
    /// With what goes over missing links: each one on a way counts a share less.
    double soft = 0;
  };
  /// With `only_real`, soft is not looked at.
  [[nodiscard]] Value evaluate(std::span<const FlowRange> ranges, bool only_real = false);

  /// Arcs that were looked at so far.
  [[nodiscard]] std::uint64_t work() const { return work_; }

 private:
  struct Arc {
    std::uint32_t to;
    std::int32_t next;
    std::int32_t cost;
    double left;
  };
  void add(std::size_t from, std::size_t to, double capacity, std::int32_t cost);
  void add_link(std::size_t from_place, std::size_t to_place, double link, double host);
  void build(std::span<const FlowRange> ranges);
  bool search();

  const FlowProblem& problem_;
  bool only_real_ = false;
  double least_ = 0;
  std::vector<Arc> arcs_;
  std::vector<std::int32_t> head_;
  std::vector<std::int32_t> distance_;
  std::vector<std::int32_t> came_;
  std::vector<std::uint32_t> queue_;
  std::vector<bool> waits_;
  std::vector<std::vector<std::uint32_t>> starts_;
  std::vector<double> discount_;
  std::uint64_t work_ = 0;
};

}  // namespace harmonics::inline in_plan
