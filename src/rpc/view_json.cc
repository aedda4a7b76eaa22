#include <harmonics/rpc/view_json.h>

#include <algorithm>

#include <harmonics/base/error.h>

namespace harmonics::inline in_rpc {
namespace {

Json texts(const std::vector<std::string>& items) {
  Json list = Json::array();
  for (const std::string& item : items) list.push(item);
  return list;
}

/// The line as JSON; null when it is none.
Json parsed_line(const std::string& line) {
  if (line.empty()) return {};
  try {
    return Json::parse(line, "progress");
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

Json status_json(const ClusterStatus& status) {
  Json tasks;
  tasks.set("waiting", status.waiting).set("pending", status.pending);
  tasks.set("delayed", status.delayed).set("active", status.active).set("ended", status.ended);
  Json json;
  json.set("version", status.version).set("policy", status.policy);
  json.set("term", std::int64_t{status.term}).set("tasks", std::move(tasks));
  json.set("workers", std::int64_t{status.workers});
  json.set("workers_connected", std::int64_t{status.workers_connected});
  json.set("devices", std::int64_t{status.devices});
  json.set("devices_leased", std::int64_t{status.devices_leased});
  return json;
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
                     .set("progress", parsed_line(member.progress)));
  }
  json.set("members", std::move(members));
  if (task.last) {
    Json end;
    end.set("kind", to_string(task.last->kind));
    end.set("exit_code", std::int64_t{task.last->exit_code});
    end.set("signal", std::int64_t{task.last->signal}).set("message", task.last->message);
    if (task.last->peak_memory_kb != 0) {
      end.set("cpu_s", static_cast<double>(task.last->cpu_ms) / 1000);
      end.set("peak_memory_mb", static_cast<double>(task.last->peak_memory_kb) / 1024);
    }
    json.set("end", std::move(end));
  }
  json.set("progress", parsed_line(task.progress));
  if (!task.plan.empty()) json.set("plan", parsed_line(task.plan));
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
  for (std::size_t i = 0; i < worker.spec.devices.size(); ++i) {
    const DeviceSpec& device = worker.spec.devices[i];
    const bool free =
        std::ranges::find(worker.free_devices, device.name) != worker.free_devices.end();
    Json one;
    one.set("name", device.name).set("model", device.model).set("memory_mb", device.memory_mb);
    one.set("free", free);
    // Of a device that is given out in shares.
    const std::uint32_t room = i < worker.rooms.size() ? worker.rooms[i] : 0;
    if (!free && room > 0) one.set("share_free", static_cast<double>(room) / kWholeDevice);
    devices.push(std::move(one));
  }
  json.set("devices", std::move(devices));
  Json resources = Json::object();
  for (const auto& [name, count] : worker.spec.resources) {
    resources.set(name,
                  Json().set("count", count).set("free", count_of(worker.free_resources, name)));
  }
  Json labels = Json::object();
  for (const auto& [key, value] : worker.spec.labels) labels.set(key, value);
  json.set("resources", std::move(resources)).set("labels", std::move(labels));
  Json tasks = Json::array();
  for (const TaskId task : worker.tasks) tasks.push(task.value);
  json.set("tasks", std::move(tasks)).set("task_count", worker.task_count);
  return json;
}

Json quota_json(const UserView& user) {
  return Json()
      .set("user", user.user)
      .set("max_gpus", std::int64_t{user.quota.max_gpus})
      .set("max_active", std::int64_t{user.quota.max_active})
      .set("max_waiting", std::int64_t{user.quota.max_waiting})
      .set("weight", std::int64_t{user.quota.weight})
      .set("gpus", std::int64_t{user.gpus})
      .set("active", std::int64_t{user.active})
      .set("waiting", user.waiting);
}

Json why_json(const WhyPending& why) {
  return Json()
      .set("reason", to_string(why.reason))
      .set("text", why.text)
      .set("before", why.before);
}

Json artifact_json(const ArtifactView& artifact) {
  return Json().set("path", artifact.path).set("bytes", artifact.bytes);
}

}  // namespace harmonics::inline in_rpc
