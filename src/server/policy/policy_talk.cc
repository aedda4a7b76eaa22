#include "policy_talk.h"

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>

namespace harmonics::inline in_server {
namespace {

template <typename Number>
Number number_at(const Json& json, std::string_view key) {
  return static_cast<Number>(json.at(key).as_integer());
}

Json worker_json(const Worker& worker) {
  Json devices = Json::array();
  for (const DeviceSpec& device : worker.spec.devices) {
    devices.push(Json()
                     .set("name", device.name)
                     .set("model", device.model)
                     .set("memory_mb", device.memory_mb));
  }
  Json json;
  json.set("id", std::int64_t{worker.id.value}).set("name", worker.spec.name);
  json.set("cpus", std::int64_t{worker.spec.cpus}).set("memory_mb", worker.spec.memory_mb);
  json.set("free", worker.free.bits).set("free_cpus", std::int64_t{worker.free_cpus});
  json.set("free_memory_mb", worker.free_memory_mb);
  json.set("active_tasks", std::int64_t{worker.active_tasks})
      .set("open", worker.open && worker.starting < kMaxStartingTasks);
  return json.set("devices", std::move(devices));
}

Worker read_worker(const Json& json) {
  Worker worker;
  worker.id = WorkerId{number_at<std::uint32_t>(json, "id")};
  worker.spec.name = json.at("name").as_string();
  worker.spec.cpus = number_at<std::uint32_t>(json, "cpus");
  worker.spec.memory_mb = number_at<std::uint64_t>(json, "memory_mb");
  for (const Json& device : json.at("devices").as_array()) {
    worker.spec.devices.push_back({device.at("name").as_string(), device.at("model").as_string(),
                                   number_at<std::uint64_t>(device, "memory_mb")});
  }
  worker.free = DeviceSet{number_at<std::uint64_t>(json, "free")};
  worker.free_cpus = number_at<std::uint32_t>(json, "free_cpus");
  worker.free_memory_mb = number_at<std::uint64_t>(json, "free_memory_mb");
  worker.active_tasks = number_at<std::uint32_t>(json, "active_tasks");
  worker.open = json.at("open").as_bool();
  return worker;
}

}  // namespace

std::string policy_question(const WorkerPool::Changes& changes, const TaskSpec& task) {
  Json workers = Json::array();
  for (const Worker* worker : changes.workers) workers.push(worker_json(*worker));
  Json removed = Json::array();
  for (const WorkerId id : changes.removed) removed.push(std::int64_t{id.value});
  return Json()
      .set("task", write_task(task))
      .set("whole", changes.whole)
      .set("workers", std::move(workers))
      .set("removed", std::move(removed))
      .dump();
}

PolicyDesk::PolicyDesk(WorkloadPolicy& policy)
    : policy_(policy), pool_(std::make_unique<WorkerPool>()) {}

std::string PolicyDesk::answer(std::string_view question) {
  try {
    const Json json = Json::parse(question, "question to a policy");
    if (json.at("whole").as_bool()) pool_ = std::make_unique<WorkerPool>();
    for (const Json& id : json.at("removed").as_array()) {
      const WorkerId worker{static_cast<std::uint32_t>(id.as_integer())};
      if (pool_->find(worker) != nullptr) pool_->remove(worker);
    }
    for (const Json& worker : json.at("workers").as_array()) pool_->mirror(read_worker(worker));
    const TaskSpec task = parse_task(json.at("task").as_string(), "task");
    const std::optional<Assignment> choice = policy_.try_assign(*pool_, task);
    if (!choice) return Json().set("none", true).dump();
    return Json()
        .set("worker", std::int64_t{choice->worker.value})
        .set("devices", choice->devices.bits)
        .dump();
  } catch (const std::exception& error) {
    return policy_error(error.what());
  } catch (...) {
    return policy_error("something that is no exception");
  }
}

std::string policy_error(std::string_view why) { return Json().set("error", why).dump(); }

}  // namespace harmonics::inline in_server
