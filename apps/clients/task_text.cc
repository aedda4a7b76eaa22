#include <harmonics/clients/task_text.h>

#include <algorithm>
#include <cmath>

#include <harmonics/base/error.h>
#include <harmonics/base/escaped.h>
#include <harmonics/base/format.h>
#include <harmonics/base/listed.h>
#include <harmonics/console/table.h>

namespace harmonics::inline in_clients {
namespace {

Json texts(const std::vector<std::string>& items) {
  Json list = Json::array();
  for (const std::string& item : items) list.push(item);
  return list;
}

/// The line as JSON; null when it is none.
Json parsed(const std::string& line) {
  if (line.empty()) return {};
  try {
    return Json::parse(line, "progress");
  } catch (const Error&) {
    return {};
  }
}

std::optional<double> number_of(const Json& value) {
  try {
    return value.as_number();
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// What our own programs tell (docs/formats/progress.md) in the words of people; the rest as it is.
std::string told_text(const std::string& key, const Json& value) {
  const std::optional<double> number = number_of(value);
  if (number && key == "period_s") return format("period {:.3f} ms", 1e3 * *number);
  if (number && key == "samples_per_second") return as_rate(*number) + " samples/s";
  if (number && (key == "busy" || key == "waiting"))
    return format("{} {:.0f} %", key, *number * 100);
  // Counts as they are, measures to four digits.
  if (number && *number != std::floor(*number)) return format("{} {:.4g}", key, *number);
  return key + " " + (value.is_string() ? value.as_string() : value.dump());
}

}  // namespace

Time wall_time() {
  return std::chrono::duration_cast<Time>(std::chrono::system_clock::now().time_since_epoch());
}

std::int64_t failed_attempts(const TaskView& task) {
  // The server counts those that used up a retry; the last one did not.
  const bool last_failed = task.state == "failed" && task.last &&
                           task.last->kind != EndKind::kLost &&
                           task.last->kind != EndKind::kLeaseLost;
  return std::int64_t{task.failures} + (last_failed ? 1 : 0);
}

Json task_json(const TaskView& task) {
  Json json;
  json.set("id", task.id.value).set("name", task.spec.name).set("state", task.state);
  json.set("user", task.user).set("first", task.first.value);
  json.set("attempts", std::int64_t{task.attempts}).set("failures", failed_attempts(task));
  json.set("losses", std::int64_t{task.losses});
  json.set("preemptions", std::int64_t{task.preemptions});
  json.set("refusals", std::int64_t{task.refusals});
  json.set("submitted", in_seconds(task.submitted));
  if (task.changed != Time{}) json.set("changed", in_seconds(task.changed));
  Json members = Json::array();
  for (const MemberView& member : task.members) {
    members.push(Json()
                     .set("worker", member.worker)
                     .set("devices", texts(member.devices))
                     .set("launched", member.launched)
                     .set("progress", parsed(member.progress)));
  }
  json.set("members", std::move(members));
  if (task.last) {
    json.set("end", Json()
                        .set("kind", to_string(task.last->kind))
                        .set("exit_code", std::int64_t{task.last->exit_code})
                        .set("signal", std::int64_t{task.last->signal})
                        .set("message", task.last->message));
  }
  json.set("progress", parsed(task.progress));
  if (!task.plan.empty()) json.set("plan", parsed(task.plan));
  if (!task.files.empty()) {
    Json files = Json::array();
    for (const FileView& file : task.files) {
      files.push(Json()
                     .set("path", file.path)
                     .set("bytes", file.bytes)
                     .set("executable", file.executable));
    }
    json.set("files", std::move(files));
  }
  json.set("spec", Json::parse(write_task(task.spec), "task"));
  return json;
}

Json worker_json(const WorkerView& worker) {
  Json json;
  json.set("name", worker.spec.name).set("state", worker.state);
  json.set("address", worker.spec.address).set("cpus", std::int64_t{worker.spec.cpus});
  json.set("memory_mb", worker.spec.memory_mb).set("draining", worker.draining);
  json.set("heard", in_seconds(worker.heard)).set("stages", !worker.spec.no_stages);
  if (!worker.problem.empty()) {
    json.set("problem", worker.problem);
    if (worker.retry != Time{}) json.set("tried_again", in_seconds(worker.retry));
  }
  Json devices = Json::array();
  for (const DeviceSpec& device : worker.spec.devices) {
    const bool free =
        std::ranges::find(worker.free_devices, device.name) != worker.free_devices.end();
    devices.push(Json()
                     .set("name", device.name)
                     .set("model", device.model)
                     .set("memory_mb", device.memory_mb)
                     .set("free", free));
  }
  json.set("devices", std::move(devices));
  Json tasks = Json::array();
  for (const TaskId task : worker.tasks) tasks.push(task.value);
  json.set("tasks", std::move(tasks)).set("task_count", worker.task_count);
  return json;
}

std::string problem_lines(const std::vector<WorkerView>& workers, Time now) {
  std::string text;
  for (const WorkerView& worker : workers) {
    if (worker.problem.empty()) continue;
    const double left = std::max(0.0, in_seconds(worker.retry - now));
    text += format(
        "{} is unable to start tasks: {}; {}\n", escaped(worker.spec.name), escaped(worker.problem),
        worker.retry == Time{} ? "a task is being tried" : "tried again in " + as_duration(left));
  }
  return text;
}

std::string end_text(const EndResult& end) {
  if (!end.message.empty()) return end.message;
  return std::string(to_string(end.kind));
}

std::string place_text(const TaskView& task) {
  const auto place = [](const MemberView& member) {
    return member.worker + (member.devices.empty() ? "" : ":" + joined(member.devices, ","));
  };
  return task.members.empty() ? "-" : joined(task.members, " ", place);
}

std::string age_text(Time since, Time now) {
  if (since == Time{}) return "-";
  return as_duration(std::max(0.0, in_seconds(now - since)));
}

std::optional<double> progress_share(const std::string& line) {
  const Json json = parsed(line);
  const Json* share = json.is_object() ? json.find("progress") : nullptr;
  const std::optional<double> number = share == nullptr ? std::nullopt : number_of(*share);
  return number ? std::optional(std::clamp(*number, 0.0, 1.0)) : std::nullopt;
}

std::string progress_text(const std::string& line, bool with_share) {
  const Json json = parsed(line);
  if (!json.is_object()) return {};
  std::string text;
  if (const auto share = progress_share(line); share && with_share)
    text = format("{:.0f} %", *share * 100);
  for (const auto& [key, value] : json.as_object()) {
    // How long a micro-batch takes is for the planner; people see how busy the stage is.
    if (key == "progress" || key == "micro_batch_s") continue;
    if (value.is_object() || value.is_array()) continue;
    text += (text.empty() ? "" : "  ") + told_text(key, value);
  }
  return text;
}

std::string plan_folder(const TaskView& task, const char* key) {
  const Json plan = parsed(task.plan);
  const Json* folder = plan.is_object() ? plan.find(key) : nullptr;
  return folder == nullptr ? "" : folder->as_string();
}

std::vector<std::size_t> result_ranks(const TaskView& task) {
  std::vector<std::size_t> ranks;
  const Json plan = parsed(task.plan);
  const Json* stages = plan.is_object() ? plan.find("stages") : nullptr;
  if (stages == nullptr) return ranks;
  for (std::size_t rank = 0; rank < stages->as_array().size(); ++rank) {
    if (stages->as_array()[rank].find("out") != nullptr) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<StageLine> stage_lines(const TaskView& task) {
  std::vector<StageLine> lines;
  const Json plan = parsed(task.plan);
  const Json* stages = plan.is_object() ? plan.find("stages") : nullptr;
  if (stages == nullptr) return lines;
  for (const Json& stage : stages->as_array()) {
    const std::string& from = stage.at("from").as_string();
    const std::string& to = stage.at("to").as_string();
    const std::size_t rank = lines.size();
    const Json* planned = stage.find("period_s");  // Plans of earlier versions lack it.
    std::string told =
        planned == nullptr ? "" : format("planned {:.3f} ms", 1e3 * planned->as_number());
    if (rank < task.members.size()) {
      const std::string progress = progress_text(task.members[rank].progress);
      if (!progress.empty()) add_item(told, progress, "  ");
    }
    lines.push_back({format("stage {}: {}", rank, from == to ? from : from + " to " + to),
                     stage.at("worker").as_string(), std::move(told)});
  }
  return lines;
}

}  // namespace harmonics::inline in_clients
