#include "policy_talk.h"

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>

namespace harmonics {
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
  json.set("active_tasks", std::int64_t{worker.active_tasks}).set("open", worker.open);
  return json.set("devices", std::move(devices));
}

void add_worker(WorkerPool& pool, const Json& json) {
  WorkerSpec spec;
  spec.name = json.at("name").as_string();
  spec.cpus = number_at<std::uint32_t>(json, "cpus");
  spec.memory_mb = number_at<std::uint64_t>(json, "memory_mb");
  for (const Json& device : json.at("devices").as_array()) {
    spec.devices.push_back({device.at("name").as_string(), device.at("model").as_string(),
                            number_at<std::uint64_t>(device, "memory_mb")});
  }
  const WorkerId id{number_at<std::uint32_t>(json, "id")};
  const DeviceSet free{number_at<std::uint64_t>(json, "free")};
  pool.put(id, spec);
  // The first of its tasks stands for all that is taken; the others only count.
  const auto active = number_at<std::uint32_t>(json, "active_tasks");
  for (std::uint32_t i = 0; i < active; ++i) {
    const DeviceSet used = i == 0 ? first_devices(spec.devices.size()).without(free) : DeviceSet{};
    Needs needs{static_cast<std::uint32_t>(used.size()), 0, 0, 0};
    if (i == 0) {
      needs.cpus = spec.cpus - number_at<std::uint32_t>(json, "free_cpus");
      needs.memory_mb = spec.memory_mb - number_at<std::uint64_t>(json, "free_memory_mb");
    }
    pool.take(id, used, needs);
  }
  pool.set_open(id, json.at("open").as_bool());
}

}  // namespace

std::string policy_question(const WorkerPool& workers, const TaskSpec& task) {
  Json list = Json::array();
  for (const Worker* worker : workers.all()) list.push(worker_json(*worker));
  return Json().set("task", write_task(task)).set("workers", std::move(list)).dump();
}

std::string policy_answer(WorkloadPolicy& policy, std::string_view question) {
  try {
    const Json json = Json::parse(question, "question to a policy");
    WorkerPool pool;
    for (const Json& worker : json.at("workers").as_array()) add_worker(pool, worker);
    const TaskSpec task = parse_task(json.at("task").as_string(), "task");
    const Assignment choice = policy.assign_task(pool, task);
    return Json()
        .set("worker", std::int64_t{choice.worker.value})
        .set("devices", choice.devices.bits)
        .dump();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kResourceExhausted) return Json().set("none", true).dump();
    return policy_error(error.what());
  } catch (const std::exception& error) {
    return policy_error(error.what());
  } catch (...) {
    return policy_error("something that is no exception");
  }
}

std::string policy_error(std::string_view why) { return Json().set("error", why).dump(); }

}  // namespace harmonics
