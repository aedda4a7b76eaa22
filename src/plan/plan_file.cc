#include <harmonics/plan/plan_file.h>

#include <algorithm>
#include <array>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/yaml/yaml_text.h>

#include "planner_file.h"

namespace harmonics::inline in_plan {
namespace {

constexpr std::array kPlannedTimes = {"compute_s", "receive_s", "send_s", "transfer_s"};

// What a report says of each stage beyond its period, where it says all of it.
void read_costs(const Json& stages, PlanFile& file) {
  for (const Json& stage : stages.as_array()) {
    const bool whole = std::ranges::all_of(
        kPlannedTimes, [&](const char* key) { return stage.find(key) != nullptr; });
    if (!whole) {
      file.costs.clear();
      return;
    }
    StageCosts costs;
    costs.compute_s = stage.at("compute_s").as_number();
    costs.receive_s = stage.at("receive_s").as_number();
    costs.send_s = stage.at("send_s").as_number();
    costs.transfer_s = stage.at("transfer_s").as_number();
    costs.period_s = stage.at("period_s").as_number();
    if (const Json* latency = stage.find("latency_s")) costs.latency_s = latency->as_number();
    file.costs.push_back(costs);
  }
}

// The stages of a report as the lines of a list, so that both are held to the same rules.
std::string listed_stages(const Json& report) {
  std::string text;
  for (const Json& stage : report.at("stages").as_array()) {
    const Json::Array& layers = stage.at("layers").as_array();
    if (layers.size() != 2) {
      fail(ErrorCode::kInvalidArgument, "'layers' of a stage must be [first, last]");
    }
    const Json::Array& hosts = stage.at("hosts").as_array();
    const Json* const turns = stage.find("turns");
    if (turns != nullptr && turns->as_array().size() != hosts.size()) {
      fail(ErrorCode::kInvalidArgument, "'turns' of a stage must have a number for each host");
    }
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      text += format("- {}: [{}, {}{}]\n", yaml_name(hosts[i].as_string()), layers[0].as_integer(),
                     layers[1].as_integer(),
                     turns == nullptr ? "" : format(", {}", turns->as_array()[i].as_integer()));
    }
  }
  return text.empty() ? "[]\n" : text;
}

std::vector<int> boundary_bits_of(const Json& report) {
  std::vector<int> bits;
  const Json::Array& stages = report.at("stages").as_array();
  for (std::size_t k = 0; k + 1 < stages.size(); ++k) {
    const Json* said = stages[k].find("boundary_bits");
    if (said == nullptr) return {};
    const std::int64_t number = said->as_integer();
    if (number != 32 && number != 16 && number != 8 && number != 4) {
      fail(ErrorCode::kInvalidArgument, "'boundary_bits' of stage {} is {}, not 32, 16, 8 or 4",
           k + 1, number);
    }
    bits.push_back(static_cast<int>(number));
  }
  return bits;
}

// Several pipelines or routes have no one row of stages.
void refuse_several(const Json& report) {
  const Json* const shape = report.find("shape");
  if (shape == nullptr || shape->as_string() == "row") return;
  fail(ErrorCode::kInvalidArgument, "{}",
       shape->as_string() == "pipelines"
           ? "it has several pipelines. Run each by itself: 'harmonics plan --pipelines runnable "
             "--out-dir DIR' writes them one by one"
           : "work flows over several routes, which no program runs yet. Plan again with "
             "'--pipelines runnable'");
}

}  // namespace

bool is_plan_report(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

PlanFile parse_plan_file(std::string_view text, std::string_view name) {
  PlanFile file;
  if (!is_plan_report(text)) {
    file.plan = parse_plan(text, name);
    return file;
  }
  std::string list;
  try {
    const Json report = Json::parse(text, name);
    refuse_several(report);
    file.model = report.at("model").as_string();
    file.batch_size = report.at("batch_size").as_integer();
    for (const Json& stage : report.at("stages").as_array()) {
      file.periods_s.push_back(stage.at("period_s").as_number());
    }
    read_costs(report.at("stages"), file);
    if (const Json* dtype = report.find("dtype")) file.dtype = dtype->as_string();
    if (const Json* count = report.find("in_flight")) {
      file.in_flight = static_cast<std::size_t>(std::max<std::int64_t>(0, count->as_integer()));
    }
    file.boundary_bits = boundary_bits_of(report);
    list = listed_stages(report);
  } catch (const Error& error) {
    fail(ErrorCode::kInvalidArgument, "{} is no report of a plan: {}", name,
         std::string_view(error.what()));
  }
  file.plan = parse_plan(list, name);
  return file;
}

HostAddresses parse_host_addresses(std::string_view text, std::string_view name) {
  const YamlNode root = parse_planner_file(text, name);
  const YamlValue top(root, name, "");
  top.expect_map();
  HostAddresses addresses;
  const std::vector<YamlValue> values = top.entries();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string& address = values[i].text();
    if (address.find(':') == std::string::npos) values[i].broken("must be 'ADDRESS:PORT'");
    addresses.emplace(top.keys()[i], address);
  }
  return addresses;
}

}  // namespace harmonics::inline in_plan
