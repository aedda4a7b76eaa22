#include "stage_flow.h"

#include <algorithm>
#include <cmath>

#include <harmonics/base/format.h>
#include <harmonics/console/table.h>

namespace harmonics::inline in_torch_program {
namespace {

Nanoseconds from_seconds(double seconds) {
  return Nanoseconds(static_cast<std::int64_t>(std::llround(seconds * 1e9)));
}

std::string as_milliseconds(double seconds) { return format("{:.2f}", 1e3 * seconds); }

}  // namespace

Json flow_json(const StageFlow& stage) {
  const PartFlow& flow = stage.flow;
  Json json;
  json.set("part", flow.part).set("batches", flow.batches);
  json.set("planned_period_s", stage.planned_s ? Json(*stage.planned_s) : Json());
  json.set("period_s", in_seconds(flow.period)).set("busy_s", in_seconds(flow.busy));
  json.set("for_input_s", in_seconds(flow.for_input)).set("for_room_s", in_seconds(flow.for_room));
  return json.set("bytes_sent", flow.bytes_sent);
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
  for (const auto& [flow, planned_s] : stages) {
    const double all = std::max(1e-9, in_seconds(flow.busy + flow.for_input + flow.for_room));
    const auto share = [&](Nanoseconds time) {
      return format("{:.1f} %", 100 * in_seconds(time) / all);
    };
    const auto batches = static_cast<double>(std::max<std::int64_t>(1, flow.batches));
    table.rows.push_back({flow.part, planned_s ? as_milliseconds(*planned_s) : "-",
                          as_milliseconds(in_seconds(flow.period)),
                          as_milliseconds(in_seconds(flow.busy) / batches), share(flow.busy),
                          share(flow.for_input), share(flow.for_room),
                          format("{:.1f}", static_cast<double>(flow.bytes_sent) / 1e6)});
  }
  return table.text(colour);
}

void add_flow(StageFlow& all, const StageFlow& more) {
  if (more.flow.batches >= all.flow.batches) all.flow.period = more.flow.period;
  all.flow.part = more.flow.part;
  all.flow.batches += more.flow.batches;
  all.flow.busy += more.flow.busy;
  all.flow.for_input += more.flow.for_input;
  all.flow.for_room += more.flow.for_room;
  all.flow.bytes_sent += more.flow.bytes_sent;
}

}  // namespace harmonics::inline in_torch_program
