#include "stage_flow.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/format.h>
#include <harmonics/console/table.h>

namespace harmonics::inline in_torch_program {
namespace {

// New with every start of the machine's system.
constexpr const char* kBootId = "/proc/sys/kernel/random/boot_id";
constexpr std::size_t kBootIdBytes = 64;
constexpr std::size_t kBootDigits = 8;

Nanoseconds from_seconds(double seconds) {
  return Nanoseconds(static_cast<std::int64_t>(std::llround(seconds * 1e9)));
}

Json plan_json(const StagePlan& plan) {
  Json hosts = Json::array();
  for (const std::string& host : plan.stage.hosts) hosts.push(host);
  Json layers = Json::array();
  layers.push(static_cast<std::int64_t>(plan.stage.first_layer));
  layers.push(static_cast<std::int64_t>(plan.stage.last_layer));
  const StageCosts& costs = plan.costs;
  Json json;
  json.set("hosts", std::move(hosts)).set("layers", std::move(layers));
  json.set("compute_s", costs.compute_s).set("receive_s", costs.receive_s);
  json.set("send_s", costs.send_s).set("transfer_s", costs.transfer_s);
  return json.set("latency_s", costs.latency_s).set("period_s", costs.period_s);
}

std::string as_milliseconds(double seconds) { return format("{:.2f}", 1e3 * seconds); }

}  // namespace

Json flow_json(const StageFlow& stage) {
  const PartFlow& flow = stage.flow;
  Json json;
  json.set("part", flow.part);
  if (stage.copy) json.set("copy", static_cast<std::uint64_t>(*stage.copy)).set("host", stage.host);
  json.set("batches", flow.batches);
  json.set("planned_period_s", stage.planned_s ? Json(*stage.planned_s) : Json());
  json.set("period_s", in_seconds(flow.period)).set("busy_s", in_seconds(flow.busy));
  json.set("for_input_s", in_seconds(flow.for_input)).set("for_room_s", in_seconds(flow.for_room));
  json.set("bytes_sent", flow.bytes_sent);
  json.set("cpu_s", in_seconds(flow.cpu)).set("for_core_s", in_seconds(flow.for_core));
  json.set("number", stage.number).set("threads", stage.threads);
  json.set("machine", stage.machine).set("cores", stage.cores);
  Json links = Json::array();
  for (const CarrierMeasure& link : flow.carriers) {
    links.push(Json()
                   .set("boundary", link.boundary)
                   .set("latency_s", in_seconds(link.latency))
                   .set("bytes_per_s", link.bytes_per_s));
  }
  json.set("links", std::move(links));
  return json.set("plan", stage.plan ? plan_json(*stage.plan) : Json());
}

StageFlow flow_of(const Json& json) {
  StageFlow stage;
  PartFlow& flow = stage.flow;
  flow.part = json.at("part").as_string();
  flow.batches = json.at("batches").as_integer();
  const Json& planned = json.at("planned_period_s");
  if (!planned.is_null()) stage.planned_s = planned.as_number();
  flow.period = from_seconds(json.at("period_s").as_number());
  flow.busy = from_seconds(json.at("busy_s").as_number());
  flow.for_input = from_seconds(json.at("for_input_s").as_number());
  flow.for_room = from_seconds(json.at("for_room_s").as_number());
  flow.bytes_sent = static_cast<std::uint64_t>(json.at("bytes_sent").as_integer());
  flow.cpu = from_seconds(json.at("cpu_s").as_number());
  flow.for_core = from_seconds(json.at("for_core_s").as_number());
  stage.number = json.at("number").as_integer();
  stage.threads = json.at("threads").as_integer();
  stage.machine = json.at("machine").as_string();
  stage.cores = json.at("cores").as_integer();
  for (const Json& link : json.at("links").as_array()) {
    flow.carriers.push_back({link.at("boundary").as_string(),
                             from_seconds(link.at("latency_s").as_number()),
                             link.at("bytes_per_s").as_number()});
  }
  return stage;
}

Json flows_json(const std::vector<StageFlow>& stages) {
  Json all = Json::array();
  for (const StageFlow& stage : stages) all.push(flow_json(stage));
  return all;
}

std::string flows_text(const std::vector<StageFlow>& stages, bool colour) {
  Table table{{{"part"},
               {"planned ms", Align::kRight},
               {"period ms", Align::kRight},
               {"busy ms", Align::kRight},
               {"busy", Align::kRight},
               {"for input", Align::kRight},
               {"for room", Align::kRight},
               {"sent MB", Align::kRight}},
              {}};
  for (const StageFlow& stage : stages) {
    const PartFlow& flow = stage.flow;
    const std::optional<double>& planned_s = stage.planned_s;
    const double all = std::max(1e-9, in_seconds(flow.busy + flow.for_input + flow.for_room));
    const auto share = [&](Nanoseconds time) {
      return format("{:.1f} %", 100 * in_seconds(time) / all);
    };
    const auto batches = static_cast<double>(std::max<std::int64_t>(1, flow.batches));
    table.rows.push_back(
        {stage.copy ? format("{} ({})", flow.part, stage.host) : flow.part,
         planned_s ? as_milliseconds(*planned_s) : "-", as_milliseconds(in_seconds(flow.period)),
         as_milliseconds(in_seconds(flow.busy) / batches), share(flow.busy), share(flow.for_input),
         share(flow.for_room), format("{:.1f}", static_cast<double>(flow.bytes_sent) / 1e6)});
  }
  return table.text(colour);
}

std::string own_machine() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0) name[0] = 0;
  std::string boot;
  try {
    boot = read_text_file(kBootId, kBootIdBytes).substr(0, kBootDigits);
  } catch (const Error&) {
    // Elsewhere than on Linux the name must do.
  }
  return boot.empty() ? name : format("{}-{}", std::string_view(name), boot);
}

std::int64_t own_cores() {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  return std::max(1u, std::thread::hardware_concurrency());
}

void add_flow(StageFlow& all, const StageFlow& more) {
  if (more.flow.batches >= all.flow.batches) all.flow.period = more.flow.period;
  all.flow.part = more.flow.part;
  all.flow.batches += more.flow.batches;
  all.flow.busy += more.flow.busy;
  all.flow.for_input += more.flow.for_input;
  all.flow.for_room += more.flow.for_room;
  all.flow.bytes_sent += more.flow.bytes_sent;
  all.flow.cpu += more.flow.cpu;
  all.flow.for_core += more.flow.for_core;
  all.flow.carriers = more.flow.carriers;
  all.number = more.number;
  all.threads = more.threads;
  all.machine = more.machine;
  all.cores = more.cores;
}

}  // namespace harmonics::inline in_torch_program
