#include "replay_books.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <harmonics/base/error.h>

namespace harmonics::inline in_replay {
namespace {

/// Size classes by GPUs asked for: up to so many thousandths.
struct SizeClass {
  const char* name;
  std::uint64_t most_milli;
};
constexpr std::array kClasses{
    SizeClass{"no gpu", 0},
    SizeClass{"share", 999},
    SizeClass{"1 gpu", 1000},
    SizeClass{"2-4 gpus", 4000},
    SizeClass{"5-8 gpus", 8000},
    SizeClass{"9-64 gpus", 64'000},
    SizeClass{"more", std::uint64_t(-1)},
};

ReplayClass::Spread spread_of(std::vector<double>& hours) {
  ReplayClass::Spread spread;
  if (hours.empty()) return spread;
  std::ranges::sort(hours);
  // The smallest value that so many percent do not exceed.
  const auto percentile = [&](double percent) {
    const double rank = std::ceil(percent / 100 * static_cast<double>(hours.size()));
    return hours[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
  };
  double sum = 0;
  for (const double value : hours) sum += value;
  return {sum / static_cast<double>(hours.size()), percentile(50), percentile(90), percentile(99),
          hours.back()};
}

double in_hours(Nanoseconds time) { return in_seconds(time) / 3600; }

}  // namespace

ReplayBooks::ReplayBooks(const std::vector<WorkerSpec>& nodes, const ReplayJobs& jobs)
    : jobs_(jobs), records_(jobs.size()), free_(nodes.size() + 1), places_(nodes.size() + 1) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    free_[i + 1].assign(nodes[i].devices.size(), kWholeMilli);
    gpus_ += nodes[i].devices.size();
  }
}

void ReplayBooks::pass(Time now) {
  if (counts_ && now_ != Time{}) {
    const double passed = in_seconds(now - now_);
    counted_s_ += passed;
    held_s_ += passed * static_cast<double>(held_milli_) / kWholeMilli;
    if (waiting_ > 0) {
      idle_s_ += passed * static_cast<double>(gpus_ * kWholeMilli - held_milli_) / kWholeMilli;
    }
  }
  now_ = now;
}

void ReplayBooks::arrived(std::size_t job, Time now) {
  records_[job].arrival = now;
  if (jobs_.gpu_milli(job) > 0) ++waiting_;
}

void ReplayBooks::hold(WorkerId node, DeviceSet devices, std::uint32_t milli) {
  devices.each([&](DeviceId id) {
    std::uint32_t& free = free_[node.value].at(id.value);
    if (free < milli) {
      fail(ErrorCode::kInternal, "promise broken: device {} of machine {} is given out twice",
           id.value, node.value);
    }
    free -= milli;
  });
  held_milli_ += devices.size() * milli;
}

Nanoseconds ReplayBooks::started(std::size_t job, const StartMessage& start, WorkerId node,
                                 Time now) {
  Record& record = records_[job];
  const std::uint32_t number = start.id.attempt.value;
  if (record.ended != kNever || (record.members > 0 && record.attempt != number)) {
    fail(ErrorCode::kInternal, "promise broken: attempt {} starts beside another or after the end",
         to_string(start.id));
  }
  if (record.attempt != number) {
    record.attempt = number;
    record.since = now;
    record.stopping = false;
    ++starts_;
    if (jobs_.gpu_milli(job) > 0) --waiting_;
  }
  ++record.members;
  hold(node, start.devices, jobs_.at(job).gpu_milli);
  places_[node.value].push_back({start.id, start.devices});
  const Nanoseconds duration = jobs_.duration(job);
  if (duration == kNever) return kNever;
  return (number > 1 ? jobs_.options().restart_cost : Nanoseconds{}) + duration - record.done;
}

void ReplayBooks::stopped(std::size_t job, AttemptId id, Time now) {
  Record& record = records_[job];
  if (record.attempt != id.attempt.value || record.stopping || record.members == 0) return;
  record.stopping = true;
  ++preemptions_;
  if (jobs_.options().from_start) return;
  const Nanoseconds restart = id.attempt.value > 1 ? jobs_.options().restart_cost : Nanoseconds{};
  record.done += std::max(now - record.since - restart, Nanoseconds{});
}

bool ReplayBooks::ended(std::size_t job, AttemptId id, WorkerId node, bool success, Time now) {
  auto& places = places_[node.value];
  const auto place = std::ranges::find(places, id, &Place::id);
  if (place == places.end()) return false;
  const std::uint32_t milli = jobs_.at(job).gpu_milli;
  place->devices.each([&](DeviceId device) { free_[node.value][device.value] += milli; });
  held_milli_ -= place->devices.size() * milli;
  *place = places.back();
  places.pop_back();
  Record& record = records_[job];
  if (--record.members > 0) return true;
  record.ran += now - record.since;
  if (success) {
    record.ended = now;
  } else if (jobs_.gpu_milli(job) > 0) {
    ++waiting_;
  }
  return true;
}

ReplayReport ReplayBooks::report(Nanoseconds took) const {
  ReplayReport report;
  const bool bag = jobs_.options().load > 0;
  std::array<std::vector<double>, kClasses.size() + 1> completion;
  std::array<std::vector<double>, kClasses.size() + 1> waiting;
  for (std::size_t job = 0; job < records_.size(); ++job) {
    const Record& record = records_[job];
    if (bag && record.members == 0) ++report.refused;
    if (record.ended == kNever) continue;
    ++report.finished;
    const auto size =
        std::ranges::lower_bound(kClasses, jobs_.gpu_milli(job), {}, &SizeClass::most_milli);
    for (const std::size_t i : {std::size_t{0}, 1 + std::size_t(size - kClasses.begin())}) {
      completion[i].push_back(in_hours(record.ended - record.arrival));
      waiting[i].push_back(in_hours(record.ended - record.arrival - record.ran));
    }
  }
  for (std::size_t i = 0; i < completion.size(); ++i) {
    if (completion[i].empty()) continue;
    const std::uint64_t count = completion[i].size();
    report.classes.push_back({i == 0 ? "all" : kClasses[i - 1].name, count,
                              spread_of(completion[i]), spread_of(waiting[i])});
  }
  report.jobs = jobs_.size() + jobs_.impossible();
  report.refused += jobs_.impossible();
  if (!bag && report.finished + report.refused != report.jobs) {
    fail(ErrorCode::kInternal, "promise broken: {} of {} jobs never ended",
         report.jobs - report.finished - report.refused, report.jobs);
  }
  report.starts = starts_;
  report.preemptions = preemptions_;
  report.gpus = gpus_;
  report.hours = in_hours(took);
  const double all = static_cast<double>(gpus_);
  if (counted_s_ > 0 && gpus_ > 0) {
    report.utilisation = held_s_ / counted_s_ / all;
    report.fragmentation = idle_s_ / counted_s_ / all;
  }
  if (gpus_ > 0) report.allocated = static_cast<double>(held_milli_) / kWholeMilli / all;
  return report;
}

Json to_json(const ReplayReport& report) {
  const auto spread = [](const ReplayClass::Spread& s) {
    return Json()
        .set("mean", s.mean)
        .set("p50", s.p50)
        .set("p90", s.p90)
        .set("p99", s.p99)
        .set("max", s.max);
  };
  Json classes = Json::array();
  for (const ReplayClass& one : report.classes) {
    classes.push(Json()
                     .set("class", one.name)
                     .set("jobs", one.jobs)
                     .set("completion_h", spread(one.completion_h))
                     .set("waiting_h", spread(one.waiting_h)));
  }
  return Json()
      .set("jobs", report.jobs)
      .set("finished", report.finished)
      .set("refused", report.refused)
      .set("starts", report.starts)
      .set("preemptions", report.preemptions)
      .set("gpus", report.gpus)
      .set("hours", report.hours)
      .set("utilisation", report.utilisation)
      .set("allocated", report.allocated)
      .set("fragmentation", report.fragmentation)
      .set("classes", std::move(classes));
}

}  // namespace harmonics::inline in_replay
