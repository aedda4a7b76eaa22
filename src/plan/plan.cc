#include <harmonics/plan/plan.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <harmonics/base/check.h>
#include <harmonics/base/error.h>
#include <harmonics/yaml/yaml_text.h>

#include "planner_file.h"

namespace harmonics::inline in_plan {
namespace {

using LayerRange = std::pair<std::size_t, std::size_t>;  // from 1; 0, 0: none

std::map<std::string, LayerRange> layers_by_host(const Plan& plan) {
  std::map<std::string, LayerRange> ranges;
  for (const PlanStage& stage : plan.stages) {
    for (const std::string& host : stage.hosts) {
      ranges[host] = {stage.first_layer, stage.last_layer};
    }
  }
  return ranges;
}

LayerRange range_of(const std::map<std::string, LayerRange>& ranges, const std::string& host) {
  const auto found = ranges.find(host);
  return found == ranges.end() ? LayerRange{0, 0} : found->second;
}

bool holds(LayerRange range, std::size_t layer) {
  return layer >= range.first && layer <= range.second && range.first > 0;
}

std::string range_text(std::size_t first, std::size_t last) {
  return first == 0 ? "nothing" : format("[{}, {}]", first, last);
}

void check_follows(const Plan& plan, const PlanStage& next, const YamlValue& value) {
  const std::size_t wanted = plan.stages.empty() ? 1 : plan.stages.back().last_layer + 1;
  if (next.first_layer == 1 && wanted > 1) {
    value.broken(
        "begins at layer 1 again: this is a plan of several pipelines or routes. Run each pipeline "
        "by itself ('harmonics plan --pipelines runnable --out-dir DIR' writes them one by one)");
  }
  if (next.first_layer != wanted || next.last_layer < next.first_layer) {
    value.broken(format("[{}, {}] does not follow on: layer {} comes next", next.first_layer,
                        next.last_layer, wanted));
  }
}

}  // namespace

std::string plan_to_yaml(const Plan& plan) {
  if (plan.stages.empty()) return "[]\n";
  std::string text;
  for (const PlanStage& stage : plan.stages) {
    for (std::size_t i = 0; i < stage.hosts.size(); ++i) {
      const std::string turns = stage.turns.empty() ? "" : format(", {}", stage.turns.at(i));
      text += format("- {}: [{}, {}{}]\n", yaml_name(stage.hosts[i]), stage.first_layer,
                     stage.last_layer, turns);
    }
  }
  return text;
}

Plan parse_plan(std::string_view text, std::string_view name) {
  const YamlNode root = parse_planner_file(text, name);
  const YamlValue top(root, name, "");
  top.expect_sequence();
  Plan plan;
  std::set<std::string> seen;
  for (const YamlValue& entry : top.entries()) {
    entry.expect_map();
    if (entry.keys().size() != 1) entry.broken("must be 'host: [first, last]'");
    const YamlValue range = entry.entries().front();
    const auto most = static_cast<std::int64_t>(kMaxPlanLayers);
    const std::vector<std::int64_t> ends = range.integers(1, most);
    if (ends.size() != 2 && ends.size() != 3) range.broken("must be [first, last]");
    const std::int64_t turns = ends.size() == 3 ? ends[2] : 1;
    if (turns > kMaxPlanTurns) range.broken(format("a host has at most {} turns", kMaxPlanTurns));
    const std::string& host = entry.keys().front();
    if (!seen.insert(host).second) range.broken("this host is there twice");
    PlanStage stage{{host},
                    static_cast<std::size_t>(ends[0]),
                    static_cast<std::size_t>(ends[1]),
                    {static_cast<std::uint32_t>(turns)}};
    if (!plan.stages.empty() && plan.stages.back().first_layer == stage.first_layer &&
        plan.stages.back().last_layer == stage.last_layer) {
      plan.stages.back().hosts.push_back(host);
      plan.stages.back().turns.push_back(stage.turns.front());
      continue;
    }
    check_follows(plan, stage, range);
    plan.stages.push_back(std::move(stage));
  }
  for (const YamlValue& entry : top.entries()) {
    const YamlValue range = entry.entries().front();
    const auto alone = [&](const PlanStage& stage) {
      return stage.hosts.size() == 1 && stage.hosts.front() == entry.keys().front();
    };
    if (range.entries().size() == 3 && std::ranges::any_of(plan.stages, alone)) {
      range.broken("must be [first, last]: this host takes all turns");
    }
  }
  for (PlanStage& stage : plan.stages) {
    if (std::ranges::adjacent_find(stage.turns, std::not_equal_to<>()) == stage.turns.end()) {
      stage.turns.clear();
    }
  }
  return plan;
}

Plan name_hosts(const PlanProblem& problem, std::span<const PlacedStage> placement) {
  std::vector<std::size_t> taken(problem.classes.size(), 0);
  Plan plan;
  for (const PlacedStage& stage : placement) {
    const std::vector<std::string>& hosts = problem.classes[stage.host_class].hosts;
    const auto first = hosts.begin() + static_cast<std::ptrdiff_t>(taken[stage.host_class]);
    taken[stage.host_class] += stage.hosts;
    HARMONICS_CHECK(taken[stage.host_class] <= hosts.size(),
                    "a placement takes {} hosts of '{}', there are {}", taken[stage.host_class],
                    problem.classes[stage.host_class].type, hosts.size());
    plan.stages.push_back({{first, first + static_cast<std::ptrdiff_t>(stage.hosts)},
                           stage.first_cut + 1,
                           stage.last_cut});
  }
  return plan;
}

Placement place_plan(const PlanProblem& problem, const Plan& plan) {
  std::map<std::string, std::size_t> class_of;
  for (std::size_t u = 0; u < problem.classes.size(); ++u) {
    for (const std::string& host : problem.classes[u].hosts) class_of[host] = u;
  }
  Placement placement;
  for (const PlanStage& stage : plan.stages) {
    std::set<std::size_t> classes;
    for (const std::string& host : stage.hosts) {
      const auto found = class_of.find(host);
      if (found == class_of.end()) {
        fail(ErrorCode::kFailedPrecondition, "the plan's host '{}' is not available", host);
      }
      classes.insert(found->second);
    }
    if (classes.size() != 1) {
      fail(ErrorCode::kFailedPrecondition,
           "layers {}-{} run on hosts of several kinds, which is not planned for",
           stage.first_layer, stage.last_layer);
    }
    placement.push_back(
        {stage.first_layer - 1, stage.last_layer, *classes.begin(), stage.hosts.size()});
  }
  const std::size_t end = placement.empty() ? 0 : placement.back().last_cut;
  if (end != problem.layers()) {
    fail(ErrorCode::kFailedPrecondition, "the plan ends with layer {}, the model with layer {}",
         end, problem.layers());
  }
  return placement;
}

std::vector<PlanChange> plan_difference(const Plan& before, const Plan& after) {
  const auto had = layers_by_host(before);
  const auto has = layers_by_host(after);
  std::vector<PlanChange> changes;
  const auto compare = [&](const std::string& host) {
    const LayerRange old_range = range_of(had, host);
    const LayerRange new_range = range_of(has, host);
    if (old_range == new_range) return;
    PlanChange change{host, old_range.first, old_range.second, new_range.first, new_range.second,
                      0};
    for (std::size_t k = std::max<std::size_t>(1, new_range.first); k <= new_range.second; ++k) {
      if (!holds(old_range, k)) ++change.layers_gained;
    }
    changes.push_back(std::move(change));
  };
  for (const PlanStage& stage : after.stages) {
    for (const std::string& host : stage.hosts) compare(host);
  }
  for (const PlanStage& stage : before.stages) {
    for (const std::string& host : stage.hosts) {
      if (!has.contains(host)) compare(host);
    }
  }
  return changes;
}

std::string difference_to_text(std::span<const PlanChange> changes) {
  if (changes.empty()) return "no difference\n";
  std::string text;
  for (const PlanChange& change : changes) {
    text += format("{}: {} -> {}", change.host,
                   range_text(change.first_layer_before, change.last_layer_before),
                   range_text(change.first_layer_after, change.last_layer_after));
    if (change.layers_gained > 0) {
      text += format(", {} layer{} to move", change.layers_gained,
                     change.layers_gained == 1 ? "" : "s");
    }
    text += '\n';
  }
  return text;
}

namespace {

double megabytes_gained(std::span<const double> layer_memory_mb, const PlanStage& stage,
                        const LayerRange& before) {
  double sum = 0;
  for (std::size_t k = stage.first_layer; k <= stage.last_layer; ++k) {
    if (!holds(before, k) && k >= 1 && k <= layer_memory_mb.size()) sum += layer_memory_mb[k - 1];
  }
  return sum;
}

}  // namespace

double moved_megabytes(std::span<const double> layer_memory_mb, const Plan& before,
                       const Plan& after) {
  const auto had = layers_by_host(before);
  double sum = 0;
  for (const PlanStage& stage : after.stages) {
    for (const std::string& host : stage.hosts) {
      sum += megabytes_gained(layer_memory_mb, stage, range_of(had, host));
    }
  }
  return sum;
}

}  // namespace harmonics::inline in_plan
