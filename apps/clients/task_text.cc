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
