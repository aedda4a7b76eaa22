#include "policy_talk.h"

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>

namespace harmonics::inline in_server {
namespace {

template <typename Number>
Number number_at(const Json& json, std::string_view key) {
  return static_cast<Number>(json.at(key).as_integer());
}

Json spec_json(const WorkerSpec& spec) {
  Json devices = Json::array();
  for (const DeviceSpec& device : spec.devices) {
    devices.push(Json()
                     .set("name", device.name)
                     .set("model", device.model)
                     .set("memory_mb", device.memory_mb));
  }
  Json json;
  json.set("name", spec.name).set("cpus", std::int64_t{spec.cpus});
  Json resources = Json::object();
  for (const auto& [name, count] : spec.resources) resources.set(name, count);
  Json labels = Json::object();
  for (const auto& [key, value] : spec.labels) labels.set(key, value);
  json.set("resources", std::move(resources)).set("labels", std::move(labels));
  return json.set("memory_mb", spec.memory_mb).set("devices", std::move(devices));
}

WorkerSpec read_spec(const Json& json) {
  WorkerSpec spec;
  spec.name = json.at("name").as_string();
  spec.cpus = number_at<std::uint32_t>(json, "cpus");
  spec.memory_mb = number_at<std::uint64_t>(json, "memory_mb");
  for (const Json& device : json.at("devices").as_array()) {
    spec.devices.push_back({device.at("name").as_string(), device.at("model").as_string(),
                            number_at<std::uint64_t>(device, "memory_mb")});
  }
  for (const auto& [name, count] : json.at("resources").as_object()) {
    spec.resources.emplace_back(name, static_cast<std::uint64_t>(count.as_integer()));
  }
  for (const auto& [key, value] : json.at("labels").as_object()) {
    spec.labels.emplace_back(key, value.as_string());
  }
  return spec;
}

}  // namespace

Json PolicyTeller::worker_json(const Worker& worker) {
  Json json;
  json.set("id", std::int64_t{worker.id.value});
  const auto [known, fresh] = specs_.try_emplace(worker.id, worker.spec);
  if (fresh || known->second != worker.spec) {
    known->second = worker.spec;
    json.set("spec", spec_json(worker.spec));
  }
  json.set("free", worker.free.bits).set("free_cpus", std::int64_t{worker.free_cpus});
  json.set("free_memory_mb", worker.free_memory_mb);
  if (!worker.rooms.empty()) {
    Json rooms = Json::array();
    for (const std::uint32_t room : worker.rooms) rooms.push(std::int64_t{room});
    json.set("rooms", std::move(rooms)).set("sharing", std::int64_t{worker.sharing});
  }
  if (!worker.free_resources.empty()) {
    Json counts = Json::array();
    for (const std::uint64_t count : worker.free_resources) counts.push(count);
    json.set("free_resources", std::move(counts));
  }
  if (!worker.groups.empty()) {
    Json groups = Json::array();
    for (const std::string& group : worker.groups) groups.push(group);
    json.set("groups", std::move(groups));
  }
  json.set("active_tasks", std::int64_t{worker.active_tasks});
  return json.set("open", worker.open && worker.starting < kMaxStartingTasks);
}

std::string PolicyTeller::question(const WorkerPool& pool, const TaskSpec& task) {
  const WorkerPool::Changes changes = pool.changes_since(told_);
  told_ = pool.version();
  if (changes.whole) specs_.clear();
  Json json;
  if (!task_ || *task_ != task) {
    task_ = task;
    json.set("task", write_task(task));
  }
  Json removed = Json::array();
  for (const WorkerId id : changes.removed) {
    specs_.erase(id);
    removed.push(std::int64_t{id.value});
  }
  Json workers = Json::array();
  for (const Worker* worker : changes.workers) workers.push(worker_json(*worker));
  json.set("whole", changes.whole).set("workers", std::move(workers));
  return json.set("removed", std::move(removed)).dump();
}

std::string PolicyTeller::question(const Standing& standing) {
  Json json;
  if (!task_ || *task_ != standing.spec) {
    task_ = standing.spec;
    json.set("task", write_task(standing.spec));
  }
  return json.set("waited_ns", std::int64_t{standing.waited.count()})
      .set("ran_ns", std::int64_t{standing.ran.count()})
      .dump();
}

void PolicyTeller::begin_anew() { *this = {}; }

PolicyDesk::PolicyDesk(WorkloadPolicy& policy)
    : policy_(policy), pool_(std::make_unique<WorkerPool>()) {}

Worker PolicyDesk::read_worker(const Json& json) const {
  Worker worker;
  worker.id = WorkerId{number_at<std::uint32_t>(json, "id")};
  const Json* spec = json.find("spec");
  worker.spec = spec != nullptr ? read_spec(*spec) : pool_->at(worker.id).spec;
  worker.free = DeviceSet{number_at<std::uint64_t>(json, "free")};
  worker.free_cpus = number_at<std::uint32_t>(json, "free_cpus");
  worker.free_memory_mb = number_at<std::uint64_t>(json, "free_memory_mb");
  worker.active_tasks = number_at<std::uint32_t>(json, "active_tasks");
  if (const Json* rooms = json.find("rooms")) {
    for (const Json& room : rooms->as_array()) {
      worker.rooms.push_back(static_cast<std::uint32_t>(room.as_integer()));
    }
    worker.sharing = number_at<std::uint32_t>(json, "sharing");
  }
  if (const Json* counts = json.find("free_resources")) {
    for (const Json& count : counts->as_array()) {
      worker.free_resources.push_back(static_cast<std::uint64_t>(count.as_integer()));
    }
  }
  if (const Json* groups = json.find("groups")) {
    for (const Json& group : groups->as_array()) worker.groups.push_back(group.as_string());
  }
  worker.open = json.at("open").as_bool();
  return worker;
}

Json PolicyDesk::answer_to(const Json& json) {
  if (const Json* task = json.find("task")) task_ = parse_task(task->as_string(), "task");
  if (const Json* ran = json.find("ran_ns")) {
    const Nanoseconds waited{json.at("waited_ns").as_integer()};
    const std::uint32_t level = policy_.level({task_, waited, Nanoseconds{ran->as_integer()}});
    return Json().set("level", std::int64_t{level});
  }
  if (json.at("whole").as_bool()) pool_ = std::make_unique<WorkerPool>();
  for (const Json& id : json.at("removed").as_array()) {
    const WorkerId worker{static_cast<std::uint32_t>(id.as_integer())};
    if (pool_->find(worker) != nullptr) pool_->remove(worker);
  }
  for (const Json& worker : json.at("workers").as_array()) pool_->mirror(read_worker(worker));
  const std::optional<Assignment> choice = policy_.try_assign(*pool_, task_);
  if (!choice) return Json().set("none", true);
  return Json()
      .set("worker", std::int64_t{choice->worker.value})
      .set("devices", choice->devices.bits);
}

std::string PolicyDesk::answer(std::string_view question) {
  try {
    return answer_to(Json::parse(question, "question to a policy")).dump();
  } catch (const std::exception& error) {
    return policy_error(error.what());
  } catch (...) {
    return policy_error("something that is no exception");
  }
}

std::string policy_greeting(const WorkloadPolicy& policy) {
  return Json().set("rule", static_cast<int>(policy.rule())).dump();
}

OrderRule read_rule(const Json& greeting) {
  const std::int64_t rule = greeting.at("rule").as_integer();
  if (rule < 0 || rule > static_cast<int>(OrderRule::kDisplaces)) {
    fail(ErrorCode::kInvalidArgument, "the policy library orders by an unknown rule");
  }
  return static_cast<OrderRule>(rule);
}

std::string policy_error(std::string_view why) { return Json().set("error", why).dump(); }

}  // namespace harmonics::inline in_server
