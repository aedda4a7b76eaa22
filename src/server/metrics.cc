#include "metrics.h"

#include <algorithm>

#include <harmonics/base/escaped.h>
#include <harmonics/base/format.h>

#include "process_figures.h"

#ifndef HARMONICS_BUILD_TYPE
#define HARMONICS_BUILD_TYPE "unknown"
#endif

namespace harmonics::inline in_server {
namespace {

constexpr const char* kOthers = "(others)";

class Page {
 public:
  void family(const char* name, const char* kind, const char* help) {
    name_ = name;
    text_ += format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, kind);
  }
  /// A line of the last family; `labels` without braces.
  template <typename Number>
  void value(Number number, const std::string& labels = {}, const char* suffix = "") {
    text_ += name_ + suffix;
    if (!labels.empty()) text_ += "{" + labels + "}";
    text_ += format(" {}\n", number);
  }
  template <typename Number>
  void single(const char* name, const char* kind, const char* help, Number number) {
    family(name, kind, help);
    value(number);
  }
  void histogram(const char* name, const char* help, const Histogram& times) {
    family(name, "histogram", help);
    for (std::size_t i = 0; i < Histogram::kBounds.size(); ++i) {
      value(times.count_up_to(i), format("le=\"{}\"", Histogram::kBounds[i]), "_bucket");
    }
    const std::uint64_t all = times.count_up_to(Histogram::kBounds.size());
    value(all, "le=\"+Inf\"", "_bucket");
    value(times.sum_s(), {}, "_sum");
    value(all, {}, "_count");
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  std::string name_;
};

/// The busiest first, then by name; all after kMaxMetricLabels are added up in the last,
/// "(others)".
template <typename View, typename Busy, typename Add>
std::vector<View> with_few_labels(std::vector<View> all, Busy busy, Add add) {
  if (all.size() <= kMaxMetricLabels) return all;
  std::ranges::stable_sort(all, [&](const View& a, const View& b) { return busy(a) > busy(b); });
  View others{};
  for (std::size_t i = kMaxMetricLabels; i < all.size(); ++i) add(others, all[i]);
  all.resize(kMaxMetricLabels);
  all.push_back(std::move(others));
  return all;
}

void add_tasks(Page& out, const ClusterStatus& status, const LoopCounters& counters) {
  out.family("harmonics_tasks", "gauge", "Tasks by state.");
  out.value(status.waiting, "state=\"waiting\"");
  out.value(status.pending, "state=\"pending\"");
  out.value(status.delayed, "state=\"delayed\"");
  out.value(status.active, "state=\"active\"");
  out.value(status.ended, "state=\"ended\"");
  out.single("harmonics_workers", "gauge", "Workers that the server knows.", status.workers);
  out.single("harmonics_workers_connected", "gauge", "Workers with a session.",
             status.workers_connected);
  out.single("harmonics_devices", "gauge", "Devices of all workers.", status.devices);
  out.single("harmonics_devices_leased", "gauge", "Devices that tasks hold.",
             status.devices_leased);
  out.single("harmonics_tasks_submitted_total", "counter", "Tasks accepted since the start.",
             counters.submitted.load());
  out.single("harmonics_attempts_started_total", "counter", "Attempts started since the start.",
             counters.started.load());
  out.family("harmonics_tasks_ended_total", "counter", "Tasks ended since the start, by outcome.");
  for (const TaskOutcome outcome : {TaskOutcome::kSucceeded, TaskOutcome::kFailed,
                                    TaskOutcome::kCancelled, TaskOutcome::kDependencyFailed}) {
    out.value(counters.ended[static_cast<std::size_t>(outcome)].load(),
              format("outcome=\"{}\"", to_string(outcome)));
  }
  out.single("harmonics_commits_total", "counter", "Group commits of the store.",
             counters.commits.load());
  out.single("harmonics_facts_total", "counter", "Facts stored.", counters.facts.load());
  out.single("harmonics_commit_seconds_total", "counter", "Time spent in group commits.",
             static_cast<double>(counters.commit_ns.load()) * 1e-9);
}

void add_users(Page& out, std::vector<UserView> all) {
  const auto busy = [](const UserView& user) { return user.active + user.waiting; };
  const auto add = [](UserView& sum, const UserView& one) {
    sum.user = kOthers;
    sum.gpus += one.gpus;
    sum.active += one.active;
    sum.waiting += one.waiting;
  };
  const std::vector<UserView> users = with_few_labels(std::move(all), busy, add);
  out.family("harmonics_user_tasks", "gauge", "Tasks of a user that run, and that do not yet.");
  for (const UserView& user : users) {
    out.value(user.active, format("user=\"{}\",state=\"active\"", label_text(user.user)));
    out.value(user.waiting, format("user=\"{}\",state=\"waiting\"", label_text(user.user)));
  }
  out.family("harmonics_user_devices_leased", "gauge", "Devices that a user's tasks hold.");
  for (const UserView& user : users) {
    out.value(user.gpus, format("user=\"{}\"", label_text(user.user)));
  }
}

struct WorkerCounts {
  std::string name;
  std::uint64_t connected = 0;
  std::uint64_t tasks = 0;
  std::uint64_t devices = 0;
  std::uint64_t leased = 0;
};

WorkerCounts counts_of(const WorkerView& worker) {
  const bool connected = worker.state != "away" && worker.state != "expired";
  const std::uint64_t devices = worker.spec.devices.size();
  return {worker.spec.name, connected ? 1U : 0U, worker.task_count, devices,
          devices - worker.free_devices.size()};
}

void add_workers(Page& out, const std::vector<WorkerView>& all) {
  std::vector<WorkerCounts> counts;
  for (const WorkerView& worker : all) counts.push_back(counts_of(worker));
  const auto busy = [](const WorkerCounts& worker) { return worker.tasks; };
  const auto add = [](WorkerCounts& sum, const WorkerCounts& one) {
    sum.name = kOthers;
    sum.connected += one.connected;
    sum.tasks += one.tasks;
    sum.devices += one.devices;
    sum.leased += one.leased;
  };
  const std::vector<WorkerCounts> workers = with_few_labels(std::move(counts), busy, add);
  const auto family = [&](const char* name, const char* help, auto member) {
    out.family(name, "gauge", help);
    for (const WorkerCounts& worker : workers) {
      out.value(worker.*member, format("worker=\"{}\"", label_text(worker.name)));
    }
  };
  family("harmonics_worker_connected", "1 while it has a session.", &WorkerCounts::connected);
  family("harmonics_worker_tasks", "Tasks that a worker has.", &WorkerCounts::tasks);
  family("harmonics_worker_devices", "Devices of a worker.", &WorkerCounts::devices);
  family("harmonics_worker_devices_leased", "Those that tasks hold.", &WorkerCounts::leased);
}

void add_process(Page& out, const ProcessFigures& process) {
  out.single("process_cpu_seconds_total", "counter", "Processor time of the server.",
             process.cpu_s);
  out.single("process_resident_memory_bytes", "gauge", "Main memory that the server has.",
             process.resident_bytes);
  out.single("process_virtual_memory_bytes", "gauge", "Addresses that it has.",
             process.virtual_bytes);
  out.single("process_open_fds", "gauge", "Descriptors that it has open.", process.descriptors);
  out.single("process_max_fds", "gauge", "Descriptors that it may have.", process.max_descriptors);
  out.single("process_start_time_seconds", "gauge", "When it started, since 1970.",
             process.started_s);
}

}  // namespace

std::string label_text(std::string_view text) {
  std::string out;
  for (const char byte : escaped(text)) {
    if (byte == '\\' || byte == '"') out += '\\';
    out += byte;
  }
  return out;
}

std::string metrics_text(const MetricsView& view, const LoopCounters& counters,
                         const TaskTimes& times) {
  Page out;
  out.family("harmonics_build_info", "gauge", "What this server is; always 1.");
  out.value(1, format("version=\"{}\",policy=\"{}\",build=\"{}\"", label_text(view.status.version),
                      label_text(view.status.policy), HARMONICS_BUILD_TYPE));
  add_tasks(out, view.status, counters);
  out.histogram("harmonics_task_wait_seconds", "From submission to the first attempt's start.",
                times.waiting());
  out.histogram("harmonics_attempt_run_seconds", "From an attempt's start to its end.",
                times.running());
  add_users(out, view.users);
  add_workers(out, view.workers);
  add_process(out, process_figures());
  return out.take();
}

}  // namespace harmonics::inline in_server
