#include <harmonics/plan/cost_model.h>

#include <algorithm>

#include <harmonics/base/error.h>

namespace harmonics::inline in_plan {
namespace {

std::vector<double> prefix_sums(std::span<const double> values, double scale) {
  std::vector<double> sums{0};
  sums.reserve(values.size() + 1);
  for (const double value : values) sums.push_back(sums.back() + value * scale);
  return sums;
}

std::vector<std::size_t> prefix_counts(const std::vector<bool>& flags, std::size_t count) {
  std::vector<std::size_t> sums{0};
  sums.reserve(count + 1);
  for (std::size_t k = 0; k < count; ++k) {
    sums.push_back(sums.back() + (!flags.empty() && flags[k] ? 1 : 0));
  }
  return sums;
}

}  // namespace

CostModel::CostModel(const PlanProblem& problem, const CostOptions& options)
    : options_(options),
      layers_(problem.layers()),
      cut_bytes_(problem.cut_bytes),
      link_latency_s_(problem.link_latency_s) {
  check_problem(problem);
  if (options.buffers_in < 0 || options.buffers_out < 0) {
    fail(ErrorCode::kInvalidArgument, "buffer counts must not be negative: {} in, {} out",
         options.buffers_in, options.buffers_out);
  }
  moved_bytes_ = cut_bytes_;
  for (std::size_t cut = 0; cut < problem.tied_bytes.size(); ++cut) {
    moved_bytes_[cut] += problem.tied_bytes[cut];
  }
  largest_buffers_ =
      *std::ranges::max_element(cut_bytes_) * (2.0 + options.buffers_in + options.buffers_out);
  memory_before_ = prefix_sums(problem.layer_memory_mb, kBytesPerMegabyte);
  for (const HostClass& hosts : problem.classes) {
    classes_.push_back({.hosts = hosts.hosts.size(),
                        .bytes_per_s = hosts.bandwidth_mbps * kBytesPerMegabit,
                        .memory_bytes = hosts.memory_mb * kBytesPerMegabyte,
                        .time_before = prefix_sums(hosts.layer_time_s, 1),
                        .barred_before = prefix_counts(hosts.barred, layers_)});
  }
  for (const double mbps : problem.link_mbps) {
    link_bytes_per_s_.push_back(mbps * kBytesPerMegabit);
  }
  independent_ends_ = options.overlap == Overlap::kFull && link_bytes_per_s_.empty();
}

double CostModel::memory_bytes(std::size_t i, std::size_t j) const {
  const double in = cut_bytes_[i];
  const double out = cut_bytes_[j];
  return memory_before_[j] - memory_before_[i] + (i == 0 ? 0 : in * options_.buffers_in) +
         out * options_.buffers_out + in + out;
}

double CostModel::bandwidth(std::size_t u, std::size_t v) const {
  const double ends = std::min(classes_[u].bytes_per_s, classes_[v].bytes_per_s);
  if (link_bytes_per_s_.empty()) return ends;
  return std::min(ends, link_bytes_per_s_[u * classes_.size() + v]);
}

double CostModel::end_bandwidth(std::size_t u, std::size_t v) const {
  if (options_.overlap == Overlap::kNone) return bandwidth(u, v);
  if (link_bytes_per_s_.empty()) return classes_[u].bytes_per_s;
  return std::min(classes_[u].bytes_per_s, link_bytes_per_s_[u * classes_.size() + v]);
}

}  // namespace harmonics::inline in_plan
