#include <harmonics/replay/job_trace.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/cluster/task_fields.h>

#include "csv_rows.h"

namespace harmonics::inline in_replay {
namespace {

using std::chrono::seconds;

constexpr double kMaxSeconds = 1e9;
constexpr std::uint64_t kMaxJobGpus = std::uint64_t{kMaxDevicesPerWorker} * kMaxGangWorkers;
constexpr std::uint64_t kMaxCpuMilli = 100'000'000;
/// Cores are counted in hundredths, so that shares of them are not rounded up.
constexpr std::uint32_t kCoreParts = 100;

Nanoseconds from_seconds(double value) {
  return Nanoseconds(static_cast<std::int64_t>(std::llround(value * 1e9)));
}

/// "2017-10-09 07:01:55" as seconds since 1970.
std::optional<std::int64_t> moment(std::string_view text) {
  constexpr std::string_view kShape = "dddd-dd-dd dd:dd:dd";
  if (text.size() != kShape.size()) return std::nullopt;
  for (std::size_t i = 0; i < kShape.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kShape[i] == 'd' ? !digit : text[i] != kShape[i]) return std::nullopt;
  }
  const auto part = [&](std::size_t at, std::size_t size) {
    return *number_from<unsigned>(text.substr(at, size));
  };
  const std::chrono::year_month_day day(std::chrono::year(static_cast<int>(part(0, 4))),
                                        std::chrono::month(part(5, 2)),
                                        std::chrono::day(part(8, 2)));
  if (!day.ok() || part(11, 2) > 23 || part(14, 2) > 59 || part(17, 2) > 59) return std::nullopt;
  return seconds(std::chrono::sys_days(day).time_since_epoch()).count() + 3600 * part(11, 2) +
         60 * part(14, 2) + part(17, 2);
}

/// "2" is two GPUs, "0.25" a quarter of one.
void read_gpus(const CsvRows& rows, std::size_t column, TraceJob& job) {
  const double gpus = rows.number(column, 0, static_cast<double>(kMaxJobGpus));
  if (gpus == std::floor(gpus)) {
    job.gpus = static_cast<std::uint32_t>(gpus);
    return;
  }
  const double milli = std::round(gpus * kWholeMilli);
  if (gpus > 1 || milli < 1) rows.wrong(column, "a whole number, or a share from 0.001 to 0.999");
  job.gpus = 1;
  job.gpu_milli = static_cast<std::uint32_t>(milli);
}

/// Reads rows into jobs.
template <typename Read>
std::vector<TraceJob> read_jobs(CsvRows& rows, Read read) {
  std::vector<TraceJob> jobs;
  while (rows.next()) {
    if (jobs.size() == kMaxTraceJobs) {
      fail(ErrorCode::kInvalidArgument, "{}: more than {} jobs", rows.here(), kMaxTraceJobs);
    }
    read(jobs.emplace_back());
  }
  if (jobs.empty()) fail(ErrorCode::kInvalidArgument, "{}: there are no jobs", rows.here());
  return jobs;
}

std::vector<TraceJob> read_plain(CsvRows& rows) {
  const std::size_t arrival = rows.column("arrival_s");
  const std::size_t duration = rows.column("duration_s");
  const std::size_t gpus = rows.column("gpus");
  const auto maybe = [&](std::string_view name) {
    return rows.has(name) ? std::optional(rows.column(name)) : std::nullopt;
  };
  const auto cpus = maybe("cpus");
  const auto memory = maybe("memory_mb");
  const auto models = maybe("gpu_models");
  const auto user = maybe("user");
  const auto priority = maybe("priority");
  return read_jobs(rows, [&](TraceJob& job) {
    job.arrival = from_seconds(rows.number(arrival, 0, kMaxSeconds));
    if (!rows.field(duration).empty()) {
      job.duration = from_seconds(rows.number(duration, 0, kMaxSeconds));
    }
    read_gpus(rows, gpus, job);
    if (cpus)
      job.cpu_milli = static_cast<std::uint32_t>(std::ceil(1000 * rows.number(*cpus, 0, 65536)));
    if (memory) job.memory_mb = rows.whole(*memory, kMaxTaskMemoryMb);
    if (models) job.gpu_models = rows.field(*models);
    if (user) job.user = rows.field(*user);
    if (priority) {
      job.priority =
          static_cast<std::int32_t>(rows.number(*priority, -kMaxTaskPriority, kMaxTaskPriority));
    }
  });
}

std::vector<TraceJob> read_philly(CsvRows& rows) {
  const std::size_t timestamp = rows.column("timestamp");
  const std::size_t duration = rows.column("duration");
  const std::size_t gpus = rows.column("num_gpus");
  const std::size_t cluster = rows.column("cluster");
  return read_jobs(rows, [&](TraceJob& job) {
    const std::optional<std::int64_t> at = moment(rows.field(timestamp));
    if (!at) rows.wrong(timestamp, "a moment such as 2017-10-09 07:01:55");
    job.arrival = seconds(*at);
    job.duration = from_seconds(rows.number(duration, 0, kMaxSeconds));
    job.gpus = static_cast<std::uint32_t>(rows.whole(gpus, kMaxJobGpus));
    job.user = rows.field(cluster);
  });
}

std::vector<TraceJob> read_pods(CsvRows& rows) {
  const std::size_t cpu = rows.column("cpu_milli");
  const std::size_t memory = rows.column("memory_mib");
  const std::size_t gpus = rows.column("num_gpu");
  const std::size_t share = rows.column("gpu_milli");
  const bool told = rows.has("gpu_spec");
  const std::size_t models = told ? rows.column("gpu_spec") : 0;
  const bool timed = rows.has("creation_time") && rows.has("deletion_time");
  const std::size_t created = timed ? rows.column("creation_time") : 0;
  const std::size_t deleted = timed ? rows.column("deletion_time") : 0;
  return read_jobs(rows, [&](TraceJob& job) {
    job.cpu_milli = static_cast<std::uint32_t>(rows.whole(cpu, kMaxCpuMilli));
    job.memory_mb = rows.whole(memory, kMaxTaskMemoryMb);
    job.gpus = static_cast<std::uint32_t>(rows.whole(gpus, kMaxDevicesPerWorker));
    if (job.gpus > 0) job.gpu_milli = static_cast<std::uint32_t>(rows.whole(share, kWholeMilli));
    if (job.gpu_milli == 0 || (job.gpus > 1 && job.gpu_milli != kWholeMilli)) {
      rows.wrong(share, "1 to 1000, and 1000 with several GPUs");
    }
    if (told) job.gpu_models = rows.field(models);
    if (!timed) return;
    job.arrival = from_seconds(rows.number(created, 0, kMaxSeconds));
    if (rows.field(deleted).empty()) return;
    job.duration = from_seconds(rows.number(deleted, 0, kMaxSeconds)) - job.arrival;
    if (job.duration < Nanoseconds{}) rows.wrong(deleted, "no earlier than creation_time");
  });
}

}  // namespace

std::string_view to_string(TraceFormat format) {
  switch (format) {
    case TraceFormat::kPlain: return "plain";
    case TraceFormat::kPhilly: return "philly";
    case TraceFormat::kPods: return "pods";
  }
  return "unknown";
}

Trace parse_trace(std::string_view text, std::string_view where) {
  CsvRows rows(text, where);
  Trace trace;
  if (rows.has("timestamp")) {
    trace.format = TraceFormat::kPhilly;
    trace.jobs = read_philly(rows);
  } else if (rows.has("cpu_milli")) {
    trace.format = TraceFormat::kPods;
    trace.jobs = read_pods(rows);
  } else {
    trace.jobs = read_plain(rows);
  }
  std::ranges::stable_sort(trace.jobs, {}, &TraceJob::arrival);
  const Nanoseconds first = trace.jobs.front().arrival;
  for (TraceJob& job : trace.jobs) job.arrival -= first;
  return trace;
}

Trace read_trace(const std::filesystem::path& path) {
  return parse_trace(read_text_file(path, kMaxTraceBytes), path.string());
}

std::vector<WorkerSpec> parse_nodes(std::string_view text, std::string_view where) {
  CsvRows rows(text, where);
  const std::size_t name = rows.column(rows.has("sn") ? "sn" : "name");
  const std::size_t cpu = rows.column("cpu_milli");
  const std::size_t memory = rows.column("memory_mib");
  const std::size_t gpus = rows.column("gpu");
  const std::size_t model = rows.column("model");
  std::vector<WorkerSpec> nodes;
  while (rows.next()) {
    if (nodes.size() == kMaxWorkers) {
      fail(ErrorCode::kInvalidArgument, "{}: more than {} machines", rows.here(), kMaxWorkers);
    }
    WorkerSpec& node = nodes.emplace_back();
    node.name = rows.field(name);
    node.cpus =
        static_cast<std::uint32_t>(rows.whole(cpu, kMaxCpuMilli) * kCoreParts / kWholeMilli);
    node.memory_mb = rows.whole(memory, kMaxTaskMemoryMb);
    const std::uint64_t count = rows.whole(gpus, kMaxDevicesPerWorker);
    for (std::uint64_t i = 0; i < count; ++i) {
      node.devices.push_back({std::to_string(i), std::string(rows.field(model)), 0});
    }
  }
  if (nodes.empty()) fail(ErrorCode::kInvalidArgument, "{}: there are no machines", rows.here());
  return nodes;
}

std::vector<WorkerSpec> read_nodes(const std::filesystem::path& path) {
  return parse_nodes(read_text_file(path, kMaxTraceBytes), path.string());
}

std::vector<WorkerSpec> equal_nodes(std::string_view text) {
  const std::size_t times = text.find('x');
  const auto count = number_from<std::uint32_t>(text.substr(0, times));
  const auto gpus =
      times == text.npos ? std::nullopt : number_from<std::uint32_t>(text.substr(times + 1));
  if (!count || *count == 0 || *count > kMaxWorkers || !gpus || *gpus > kMaxDevicesPerWorker) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' must be MACHINESxGPUS, such as 64x8, with at most {} machines of at most {} GPUs",
         text, kMaxWorkers, kMaxDevicesPerWorker);
  }
  WorkerSpec node;
  node.cpus = std::numeric_limits<std::uint32_t>::max();
  node.memory_mb = std::uint64_t{1} << 62;
  for (std::uint32_t i = 0; i < *gpus; ++i) node.devices.push_back({std::to_string(i), {}, 0});
  std::vector<WorkerSpec> nodes(*count, node);
  for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i].name = format("node-{}", i + 1);
  return nodes;
}

}  // namespace harmonics::inline in_replay
