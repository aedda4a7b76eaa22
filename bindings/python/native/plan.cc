// Plans: which host runs which layers, with the proof and the picture.
#include <ctime>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <harmonics/base/error.h>
#include <harmonics/place/plan_partition.h>
#include <harmonics/plan/choice.h>
#include <harmonics/plan/report.h>

#include "core.h"
#include "model.h"
#include "options.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace harmonics::python {
namespace {

/// A plan with everything that is known about it.
struct MadePlan {
  Plan plan;
  PlanReport report;
};

/// One of the planner's files: its text, and its name in errors.
struct PlannerText {
  std::string text;
  std::string name;
};

PlannerText text_named(const nb::dict& files, const char* key) {
  if (!files.contains(key)) return {};
  const nb::object pair = files[key];
  return {nb::cast<std::string>(pair[0]), nb::cast<std::string>(pair[1])};
}

PlanInputs read_inputs(const nb::dict& files) {
  PlanInputs inputs;
  const PlannerText models = text_named(files, "models"), types = text_named(files, "types"),
                    hosts = text_named(files, "devices"), links = text_named(files, "links");
  inputs.models = parse_models(models.text, models.name);
  inputs.types = parse_device_types(types.text, types.name, inputs.models);
  inputs.hosts = parse_hosts(hosts.text, hosts.name, inputs.types);
  if (!links.name.empty()) inputs.links = parse_links(links.text, links.name, inputs.hosts);
  return inputs;
}

/// What a plan is to be like.
struct PlanWishes {
  PlanRequest request;
  PlannerOptions planner;
  ProfileFreedom freedom;
};

PlanGoal goal_named(const std::string& name) {
  if (name == "throughput") return PlanGoal::kThroughput;
  if (name == "latency") return PlanGoal::kLatency;
  fail(ErrorCode::kInvalidArgument, "there is no goal '{}'; there are throughput and latency",
       name);
}

PlanPreference preference_named(const std::string& name) {
  if (name == "none") return PlanPreference::kNone;
  if (name == "latency") return PlanPreference::kLatency;
  if (name == "hosts") return PlanPreference::kFewestHosts;
  fail(ErrorCode::kInvalidArgument,
       "there is no preference '{}'; there are none, latency and hosts", name);
}

void read_request(PlanWishes& wishes, const std::string& key, nb::handle value) {
  PlanRequest& request = wishes.request;
  if (key == "model") {
    request.model = option<std::string>(key, value);
  } else if (key == "dtype") {
    request.dtype = option<std::string>(key, value);
  } else if (key == "batch_size" && nb::isinstance<nb::str>(value) &&
             nb::cast<std::string>(value) == "auto") {
    wishes.freedom.batch_size = true;
  } else if (key == "batch_size") {
    request.batch_size = option<std::int64_t>(key, value);
  } else if (key == "exclude") {
    request.excluded_hosts = option<std::vector<std::string>>(key, value);
  } else if (key == "host_order") {
    request.host_order = option<std::vector<std::string>>(key, value);
  } else if (key == "pin") {
    for (const std::string& pin : option<std::vector<std::string>>(key, value)) {
      request.pins.push_back(parse_layer_pin(pin));
    }
  } else {
    fail(ErrorCode::kInvalidArgument,
         "plan has no option '{}'; there are model, dtype, batch_size, exclude, host_order, pin, "
         "goal, then, tolerance, "
         "replicate, buffers_in, buffers_out and links",
         key);
  }
}

PlanWishes read_wishes(const nb::dict& given) {
  PlanWishes wishes;
  for (const auto& [name, value] : given) {
    const std::string key = nb::cast<std::string>(name);
    if (key == "goal") {
      wishes.planner.goal = goal_named(option<std::string>(key, value));
    } else if (key == "then") {
      wishes.planner.preference = preference_named(option<std::string>(key, value));
    } else if (key == "tolerance") {
      wishes.planner.tolerance = option<double>(key, value);
    } else if (key == "replicate") {
      wishes.planner.replicate = option<bool>(key, value);
    } else if (key == "buffers_in") {
      wishes.planner.costs.buffers_in = option<int>(key, value);
    } else if (key == "buffers_out") {
      wishes.planner.costs.buffers_out = option<int>(key, value);
    } else {
      read_request(wishes, key, value);
    }
  }
  return wishes;
}

MadePlan planned(const nb::dict& files, const nb::dict& options) {
  const PlanInputs inputs = read_inputs(files);
  PlanWishes wishes = read_wishes(options);
  if (!options.contains("model") && inputs.models.size() == 1)
    wishes.request.model = inputs.models.begin()->first;
  const nb::gil_scoped_release released;
  ProfilePlan best = plan_best_profile(inputs, wishes.request, wishes.planner, wishes.freedom);
  MadePlan made;
  made.plan = name_hosts(best.problem, best.outcome.placement);
  made.report = make_report(best.problem, wishes.planner, std::move(best.outcome), made.plan);
  made.report.tried = std::move(best.tried);
  return made;
}

std::vector<Model> cut_by_plan(const Model& model, const MadePlan& made) {
  std::vector<Model> parts;
  for (HarmonicGraph& part : partition_graph(model.graph(), made.plan)) {
    parts.emplace_back();
    parts.back().document.graph = std::move(part);
  }
  return parts;
}

}  // namespace

void bind_plan(nb::module_& module) {
  nb::class_<PlanStage>(module, "PlanStage",
                        "Layers of a model on one host, or on several that take turns.")
      .def_ro("hosts", &PlanStage::hosts, "The hosts.")
      .def_ro("first_layer", &PlanStage::first_layer, "Counted from 1.")
      .def_ro("last_layer", &PlanStage::last_layer, "Included.")
      .def_ro("turns", &PlanStage::turns,
              "Micro-batches of a round that each host takes; empty: one each.")
      .def("__repr__", [](const PlanStage& stage) {
        return format("<PlanStage {}-{} on {}>", stage.first_layer, stage.last_layer,
                      stage.hosts.front());
      });
  nb::class_<MadePlan>(module, "Plan", "Which host runs which layers, and how good that is.")
      .def_prop_ro(
          "stages", [](const MadePlan& made) { return made.plan.stages; },
          "In the order of the layers.")
      .def_prop_ro(
          "period_s", [](const MadePlan& made) { return made.report.outcome.period_s; },
          "Seconds from one micro-batch to the next.")
      .def_prop_ro(
          "latency_s", [](const MadePlan& made) { return made.report.outcome.latency_s; },
          "Seconds of one micro-batch through all stages.")
      .def_prop_ro(
          "samples_per_s", [](const MadePlan& made) { return made.report.samples_per_s(); },
          "What the pipeline makes.")
      .def_prop_ro(
          "batch_size", [](const MadePlan& made) { return made.report.batch_size; },
          "Samples of a micro-batch.")
      .def_prop_ro(
          "proven", [](const MadePlan& made) { return made.report.outcome.proven; },
          "Whether no plan is better.")
      .def_prop_ro(
          "lower_bound_s", [](const MadePlan& made) { return made.report.outcome.lower_bound_s; },
          "No plan goes below it.")
      .def(
          "yaml", [](const MadePlan& made) { return plan_to_yaml(made.plan); },
          "The plan as `sched-pipeline` prints it.")
      .def(
          "json", [](const MadePlan& made) { return report_to_json(made.report).dump(2); },
          "The report as JSON.")
      .def(
          "svg", [](const MadePlan& made) { return report_to_svg(made.report); },
          "A time line: a row for each stage, the first micro-batches as bars.")
      .def(
          "partition",
          [](const MadePlan& made, const Model& model) { return cut_by_plan(model, made); },
          "graph"_a, "The parts of a graph, one for each stage.")
      .def(
          "_repr_html_", [](const MadePlan& made) { return report_to_svg(made.report); },
          "For notebooks.")
      .def("__str__", [](const MadePlan& made) { return report_to_text(made.report); })
      .def("__repr__", [](const MadePlan& made) {
        return format("<Plan of '{}': {} stages, {:.6g} s a micro-batch>", made.report.model,
                      made.plan.stages.size(), made.report.outcome.period_s);
      });
  module.def("_plan", &planned, "files"_a, "options"_a);
}

}  // namespace harmonics::python
