#include <harmonics/rpc/views.h>

namespace harmonics::inline in_rpc {

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

}  // namespace harmonics::inline in_rpc
