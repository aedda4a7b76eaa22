// What a stage costs: time, transfer and memory. The one place that knows these formulas.
//
// For a stage of the layers between the cuts i and j on a host of class u, per micro-batch:
//   compute   the sum of its layers' times
//   transfer  bytes of a cut (tied ones included) / bandwidth; the network of both neighbours is
//   busy for as long as the
//             smaller bandwidth of the two ends (and of the link between them) takes. Nothing is
//             received at cut 0 and nothing sent at the last cut. 1 Mbit = 1024 * 1024 bits.
//   latency   of a link: until the first byte has arrived. It keeps no network busy, so that it
//             counts on the way of a micro-batch from end to end and not in a period.
//   memory    the layers' memory + receive buffers for cut i (unless i is 0) + send buffers for cut
//   j
//             + one processing buffer for each of the two. It must be strictly below the device's.
// A stage's time is the largest of compute, receiving and sending when they overlap, or their sum.
// The period of a plan is its slowest stage; a stage on r hosts takes turns and counts 1/r.
//
// When stages overlap, the smaller of two bandwidths need not be known: a period that both ends
// keep at their own bandwidth is kept at the smaller one. That makes a stage's cost independent of
// its neighbours (`independent_ends`), which the planner uses; replicated stages are defined that
// way too, each end counting its own bandwidth over its own hosts.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include <harmonics/plan/problem.h>

namespace harmonics::inline in_plan {

inline constexpr double kBytesPerMegabyte = 1024.0 * 1024.0;
inline constexpr double kBytesPerMegabit = kBytesPerMegabyte / 8.0;

enum class Overlap {
  /// Receiving, computing and sending go on at the same time: the largest counts.
  kFull,
  /// One after the other: the sum counts.
  kNone,
};

struct CostOptions {
  int buffers_in = 2;
  int buffers_out = 2;
  Overlap overlap = Overlap::kFull;
};

/// The formulas above over one problem. Copies what it needs; read-only afterwards, any thread.
class CostModel {
 public:
  /// Checks the problem first (see check_problem); buffer counts must not be negative.
  CostModel(const PlanProblem& problem, const CostOptions& options);

  [[nodiscard]] std::size_t layers() const { return layers_; }
  [[nodiscard]] std::size_t classes() const { return classes_.size(); }
  [[nodiscard]] Overlap overlap() const { return options_.overlap; }
  /// How many hosts a class has.
  [[nodiscard]] std::size_t hosts(std::size_t u) const { return classes_[u].hosts; }

  [[nodiscard]] double compute_s(std::size_t u, std::size_t i, std::size_t j) const {
    return classes_[u].time_before[j] - classes_[u].time_before[i];
  }
  /// Seconds to move what crosses a cut; nothing takes no time even at bandwidth 0.
  [[nodiscard]] double transfer_s(std::size_t cut, double bytes_per_s) const {
    return moved_bytes_[cut] == 0 ? 0 : moved_bytes_[cut] / bytes_per_s;
  }
  [[nodiscard]] double memory_bytes(std::size_t i, std::size_t j) const;
  /// Of its layers alone: what no stage over these layers can go below.
  [[nodiscard]] double layer_memory_bytes(std::size_t i, std::size_t j) const {
    return memory_before_[j] - memory_before_[i];
  }
  /// An upper bound on the memory of every stage within these cuts: with the largest buffers.
  [[nodiscard]] double most_memory_bytes(std::size_t i, std::size_t j) const {
    return memory_before_[j] - memory_before_[i] + largest_buffers_;
  }
  [[nodiscard]] double capacity_bytes(std::size_t u) const { return classes_[u].memory_bytes; }
  /// Whether the class may run these layers: memory fits and none is barred.
  [[nodiscard]] bool allowed(std::size_t u, std::size_t i, std::size_t j) const {
    return memory_bytes(i, j) < classes_[u].memory_bytes &&
           classes_[u].barred_before[j] == classes_[u].barred_before[i];
  }

  /// A class's own bandwidth in bytes per second.
  [[nodiscard]] double bandwidth(std::size_t u) const { return classes_[u].bytes_per_s; }
  /// The bandwidth between two hosts: the smaller of both ends and of the link.
  [[nodiscard]] double bandwidth(std::size_t u, std::size_t v) const;
  /// Whether links limit transfers besides the bandwidths of both ends.
  [[nodiscard]] bool has_links() const { return !link_bytes_per_s_.empty(); }
  /// What the link between two hosts allows, whatever their own bandwidths; infinite without one.
  [[nodiscard]] double link_bandwidth(std::size_t u, std::size_t v) const {
    return link_bytes_per_s_.empty() ? std::numeric_limits<double>::infinity()
                                     : link_bytes_per_s_[u * classes_.size() + v];
  }
  /// The bandwidth that counts for u's own time when it talks to v: `bandwidth(u, v)` without
  /// overlap; with it, v's own bandwidth is left to v.
  [[nodiscard]] double end_bandwidth(std::size_t u, std::size_t v) const;
  /// Seconds until the first byte from u has arrived at v.
  [[nodiscard]] double link_latency_s(std::size_t u, std::size_t v) const {
    return link_latency_s_.empty() ? 0 : link_latency_s_[u * classes_.size() + v];
  }
  /// Whether a stage's time is the same whoever its neighbours are.
  [[nodiscard]] bool independent_ends() const { return independent_ends_; }

  /// The time of a stage whose ends are served at these bandwidths (ignored at the first and the
  /// last cut).
  [[nodiscard]] double stage_s(std::size_t u, std::size_t i, std::size_t j, double bytes_per_s_in,
                               double bytes_per_s_out) const {
    const double compute = compute_s(u, i, j);
    const double receive = i == 0 ? 0 : transfer_s(i, bytes_per_s_in);
    const double send = j == layers_ ? 0 : transfer_s(j, bytes_per_s_out);
    if (options_.overlap == Overlap::kNone) return compute + receive + send;
    return compute > receive ? (compute > send ? compute : send)
                             : (receive > send ? receive : send);
  }
  /// The same with both ends at the class's own bandwidth: exact where `independent_ends`.
  [[nodiscard]] double stage_s(std::size_t u, std::size_t i, std::size_t j) const {
    return stage_s(u, i, j, bandwidth(u), bandwidth(u));
  }

 private:
  struct Class {
    std::size_t hosts = 0;
    double bytes_per_s = 0;
    double memory_bytes = 0;
    std::vector<double> time_before;         // prefix sums, one per cut
    std::vector<std::size_t> barred_before;  // likewise
  };

  CostOptions options_;
  std::size_t layers_ = 0;
  std::vector<double> memory_before_;  // bytes, prefix sums
  std::vector<double> cut_bytes_;
  std::vector<double> moved_bytes_;  // with what is tied, which needs no buffers of activations
  double largest_buffers_ = 0;
  std::vector<Class> classes_;
  std::vector<double> link_bytes_per_s_;
  std::vector<double> link_latency_s_;
  bool independent_ends_ = true;
};

}  // namespace harmonics::inline in_plan
