#include "profile_report.h"

#include <harmonics/base/error.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/place/profile.h>
#include <harmonics/plan/cost_model.h>

namespace harmonics::inline in_torch_program {
namespace {

double megabytes(std::int64_t bytes) { return static_cast<double>(bytes) / kBytesPerMegabyte; }

std::string profile_text(const GraphProfile& profile, bool colour) {
  Table table{{{"layer", Align::kRight},
               {"unit"},
               {"time ms", Align::kRight},
               {"memory MB", Align::kRight},
               {"parameters", Align::kRight},
               {"out", Align::kRight},
               {"+- %", Align::kRight}},
              {}};
  for (std::size_t i = 0; i < profile.units.size(); ++i) {
    const UnitProfile& unit = profile.units[i];
    table.rows.push_back(
        {std::to_string(i + 1), unit.name, format("{:.3f}", unit.time_s * 1e3),
         format("{:.2f}", megabytes(unit.memory.total())), with_thousands(unit.parameters),
         with_thousands(profile.parameters_out[i]), format("{:.1f}", 100 * unit.spread)});
  }
  std::string text = bold(format("{}, batch size {}, {}", profile.dtype, profile.batch_size,
                                 profile_mode_name(profile.mode)),
                          colour) +
                     "\n" + table.text(colour);
  return text + format("{} layers, {:.3f} ms per micro-batch, {} samples/s\n\n",
                       profile.units.size(), profile.total_s() * 1e3,
                       as_rate(static_cast<double>(profile.batch_size) / profile.total_s()));
}

Json shapes_json(const std::vector<Shape>& shapes) {
  Json all = Json::array();
  for (const Shape& shape : shapes) {
    Json json = Json::array();
    for (const std::int64_t axis : shape) json.push(axis);
    all.push(std::move(json));
  }
  return all;
}

Json unit_json(const UnitProfile& unit, std::int64_t out) {
  Json memory;
  memory.set("weights", unit.memory.weights).set("gradients", unit.memory.gradients);
  memory.set("optimizer", unit.memory.optimizer).set("activations", unit.memory.activations);
  Json json;
  json.set("name", unit.name).set("time_s", unit.time_s);
  json.set("spread", unit.spread).set("waited", unit.waited);
  json.set("mem_MB", megabytes(unit.memory.total())).set("memory_bytes", std::move(memory));
  json.set("parameters", unit.parameters).set("parameters_out", out);
  json.set("shape_in", shapes_json(unit.shapes_in)).set("shape_out", shapes_json(unit.shapes_out));
  return json;
}

Json profile_json(const GraphProfile& profile) {
  Json units = Json::array();
  for (std::size_t i = 0; i < profile.units.size(); ++i) {
    units.push(unit_json(profile.units[i], profile.parameters_out[i]));
  }
  Json json;
  json.set("dtype", profile.dtype).set("batch_size", profile.batch_size);
  json.set("mode", profile_mode_name(profile.mode)).set("seconds", profile.total_s());
  json.set("layers", std::move(units));
  return json;
}

}  // namespace

Json report_json(const ProfileReport& report) {
  Json profiles = Json::array();
  for (const GraphProfile& profile : report.profiles) profiles.push(profile_json(profile));
  Json json;
  json.set("graph", report.graph).set("model", report.model);
  json.set("device_type", report.machine.type).set("bw_Mbps", report.machine.bandwidth_mbps);
  json.set("bandwidth_source", report.bandwidth_source).set("mem_MB", report.machine.memory_mb);
  json.set("pack_Mbps", report.machine.packing_mbps);
  Json busy = Json::array();
  for (const BusyProcess& one : report.busy) {
    if (one.cores < kLeastNamedCores) break;
    busy.push(Json::object().set("process", one.id).set("name", one.name).set("cores", one.cores));
  }
  json.set("busy_processes", std::move(busy));
  json.set("parameters_in", report.profiles.front().parameters_in);
  json.set("profiles", std::move(profiles));
  json.set("models_file", report.files.models.string());
  json.set("device_types_file", report.files.types.string());
  json.set("results_file", report.files.results.string());
  return json;
}

std::string busy_text(const ProfileReport& report) {
  double waited = 0;
  for (const GraphProfile& profile : report.profiles) waited = std::max(waited, profile.waited());
  double taken = 0;
  for (const BusyProcess& one : report.busy) taken += one.cores;
  if (waited <= kBusyShare && taken <= kBusyCoresShare * report.cores) return {};
  const std::string names = busy_names(report.busy);
  return format(
      "warning: this machine ({}) is busy: passes waited for a core for {:.0f} % of their time, "
      "and "
      "of its {:g} cores others kept {:.1f} busy{}. What this thread waited is not counted, and "
      "units that waited were measured up to {} times as often; what other threads of an operation "
      "waited is not known. The times are surer on a calm machine\n",
      report.machine.type, 100 * waited, report.cores, taken,
      names.empty() ? " (none that can be seen from here)" : ": " + names, kBusyFactor);
}

std::string report_text(const ProfileReport& report, bool colour) {
  std::string text;
  for (const GraphProfile& profile : report.profiles) text += profile_text(profile, colour);
  text += format("{} on device type {}: {:.0f} MB, {:.0f} Mbps ({})\n", report.model,
                 report.machine.type, report.machine.memory_mb, report.machine.bandwidth_mbps,
                 report.bandwidth_source);
  for (const auto& file : {report.files.models, report.files.types, report.files.results}) {
    text += format("  -> {}\n", file.string());
  }
  return text;
}

}  // namespace harmonics::inline in_torch_program
