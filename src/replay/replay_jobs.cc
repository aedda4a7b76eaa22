#include "replay_jobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <harmonics/base/error.h>
#include <harmonics/base/random.h>

namespace harmonics::inline in_replay {
namespace {

/// Shares of cores are counted in hundredths (job_trace.h).
constexpr std::uint32_t kMilliOfCorePart = 10;

std::uint64_t milli_of(const TraceJob& job) { return std::uint64_t{job.gpus} * job.gpu_milli; }

/// "V100|P100" as the models that it may have.
MaybeTerms terms_of(const TraceJob& job) {
  TaskTerms terms;
  for (std::size_t from = 0; from < job.gpu_models.size();) {
    const std::size_t end = std::min(job.gpu_models.find('|', from), job.gpu_models.size());
    if (end > from) terms.gpu_models.push_back(job.gpu_models.substr(from, end - from));
    from = end + 1;
  }
  return terms;
}

}  // namespace

ReplayJobs::ReplayJobs(const Trace& trace, const ReplayOptions& options)
    : trace_(trace), options_(options) {
  for (const WorkerSpec& node : options.nodes) {
    most_gpus_ = std::max(most_gpus_, static_cast<std::uint32_t>(node.devices.size()));
  }
  if (options.load > 0) {
    fill_bag();
  } else {
    order_.resize(trace.jobs.size());
    std::iota(order_.begin(), order_.end(), 0U);
    std::erase_if(order_, [&](std::uint32_t job) { return !possible(trace.jobs[job]); });
    impossible_ = trace.jobs.size() - order_.size();
  }
  if (options.limits.told && options.limits.factor > 1) {
    Random random(options.seed, "limits");
    stretch_.resize(order_.size());
    for (float& stretch : stretch_) {
      stretch = 1 + static_cast<float>(options.limits.factor - 1) * random.uniform();
    }
  }
}

void ReplayJobs::fill_bag() {
  std::uint64_t gpus = 0;
  for (const WorkerSpec& node : options_.nodes) gpus += node.devices.size();
  const double wanted = options_.load * static_cast<double>(gpus) * kWholeMilli;
  std::uint64_t in_bag = 0;
  for (const TraceJob& job : trace_.jobs) in_bag += milli_of(job);
  if (in_bag == 0 || gpus == 0) {
    fail(ErrorCode::kInvalidArgument, "a load needs jobs and machines with GPUs");
  }
  Random random(options_.seed, "arrivals");
  std::vector<std::int64_t> bag(trace_.jobs.size());
  std::iota(bag.begin(), bag.end(), 0);
  double asked = 0;
  // The whole bag as often as it takes, each time in another order.
  while (asked < wanted) {
    shuffle(bag, random);
    for (std::size_t i = 0; i < bag.size() && asked < wanted; ++i) {
      const auto job = static_cast<std::uint32_t>(bag[i]);
      asked += static_cast<double>(milli_of(trace_.jobs[job]));
      order_.push_back(job);
      if (order_.size() > kMaxTraceJobs) {
        fail(ErrorCode::kInvalidArgument, "a load of {} takes more than {} jobs", options_.load,
             kMaxTraceJobs);
      }
    }
  }
}

bool ReplayJobs::possible(const TraceJob& job) const {
  std::uint32_t gang = 1;
  Needs needs;
  if (job.gpus > 0 && most_gpus_ > 0) gang = (job.gpus + most_gpus_ - 1) / most_gpus_;
  needs.gpus = (job.gpus + gang - 1) / gang;
  needs.cpus = job.cpu_milli / kMilliOfCorePart;
  needs.memory_mb = job.memory_mb;
  needs.terms = terms_of(job);
  std::uint32_t found = 0;
  for (const WorkerSpec& node : options_.nodes) {
    if (could_ever_fit(node, needs) && ++found == gang) return true;
  }
  return false;
}

Nanoseconds ReplayJobs::duration(std::size_t job) const {
  return options_.load > 0 ? kNever : at(job).duration;
}

std::string_view ReplayJobs::user(std::size_t job) const {
  const std::string& name = at(job).user;
  return options_.one_user || name.empty() ? std::string_view("user") : std::string_view(name);
}

std::uint64_t ReplayJobs::gpu_milli(std::size_t job) const { return milli_of(at(job)); }

TaskSpec ReplayJobs::spec(std::size_t job) const {
  const TraceJob& from = at(job);
  TaskSpec spec;
  spec.name = "job";
  spec.command = {"job"};
  spec.gang = from.gpus <= most_gpus_ ? 1 : (from.gpus + most_gpus_ - 1) / most_gpus_;
  spec.required_gpus = (from.gpus + spec.gang - 1) / spec.gang;
  spec.gpu_share = spec.required_gpus == 1 && spec.gang == 1
                       ? from.gpu_milli * (kWholeDevice / kWholeMilli)
                       : kWholeDevice;
  spec.terms = terms_of(from);
  spec.min_gpu_memory_mb = 0;
  spec.wait_for_machines = true;
  spec.cpus = (from.cpu_milli + kMilliOfCorePart - 1) / kMilliOfCorePart;
  spec.memory_mb = from.memory_mb;
  spec.priority = from.priority;
  if (options_.limits.told && from.duration != kNever) {
    const double stretch = stretch_.empty() ? 1 : stretch_[job];
    const double limit = std::ceil(in_seconds(from.duration) * stretch);
    spec.timeout_s = static_cast<std::uint32_t>(
        std::clamp(limit, 1.0, static_cast<double>(kMaxTaskTimeoutSeconds)));
  }
  return spec;
}

}  // namespace harmonics::inline in_replay
