#include <algorithm>
#include <set>
#include <string>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/log.h>
#include <harmonics/plan/inputs.h>
#include <harmonics/plan/problem.h>

#include "planner_file.h"

namespace harmonics::inline in_plan {
namespace {

// A value for each layer, or none.
std::vector<std::int64_t> optional_integers(const YamlValue& value, std::string_view key,
                                            std::size_t layers) {
  if (!value.has(key)) return {};
  const YamlValue list = value.at(key);
  std::vector<std::int64_t> numbers = list.integers(0, kMaxParameters);
  if (numbers.size() != layers) {
    list.broken(format("{} values for {} layers", numbers.size(), layers));
  }
  return numbers;
}

std::vector<double> optional_numbers(const YamlValue& value, std::string_view key,
                                     std::size_t layers) {
  if (!value.has(key)) return {};
  const YamlValue list = value.at(key);
  std::vector<double> numbers = list.numbers();
  if (numbers.size() != layers) {
    list.broken(format("{} values for {} layers", numbers.size(), layers));
  }
  return numbers;
}

TrainingMegabytes read_training(const YamlValue& value, std::size_t layers) {
  value.check_keys({"fixed_MB", "kept_MB", "scratch_MB"});
  for (const char* key : {"fixed_MB", "kept_MB", "scratch_MB"}) static_cast<void>(value.at(key));
  return {optional_numbers(value, "fixed_MB", layers), optional_numbers(value, "kept_MB", layers),
          optional_numbers(value, "scratch_MB", layers)};
}

ModelProfile read_model(const YamlValue& value) {
  value.check_keys({"layers", "mem_MB", "parameters_in", "parameters_out", "tied_out",
                    "cache_bytes", "training"});
  const auto layers = static_cast<std::size_t>(
      value.at("layers").integer(0, static_cast<std::int64_t>(kMaxPlanLayers)));
  ModelProfile model;
  const YamlValue memory = value.at("mem_MB");
  model.memory_mb = memory.numbers();
  if (model.memory_mb.size() != layers) {
    memory.broken(format("{} values for {} layers", model.memory_mb.size(), layers));
  }
  model.parameters_in = value.at("parameters_in").integer(0, kMaxParameters);
  const YamlValue out = value.at("parameters_out");
  model.parameters_out = out.integers(0, kMaxParameters);
  const std::size_t given = model.parameters_out.size();
  if (given > layers || (given == 0 && layers > 0)) {
    out.broken(format("{} values for {} layers", given, layers));
  }
  if (given < layers) {
    log_warn("plan", "{}: {} values for {} layers: they are repeated as a block", out.path(), given,
             layers);
    for (std::size_t k = given; k < layers; ++k) {
      model.parameters_out.push_back(model.parameters_out[k - given]);
    }
  }
  model.tied_out = optional_integers(value, "tied_out", layers);
  model.cache_bytes = optional_integers(value, "cache_bytes", layers);
  if (value.has("training")) model.training = read_training(value.at("training"), layers);
  return model;
}

std::vector<double> layer_seconds(const YamlValue& value, const ModelProfile* model) {
  const YamlValue list = value.at("time_s");
  std::vector<double> seconds = list.numbers();
  if (model != nullptr && seconds.size() != model->layers()) {
    list.broken(format("{} values, but the model has {} layers", seconds.size(), model->layers()));
  }
  return seconds;
}

LayerTimes read_times(const YamlValue& value, const ModelProfile* model) {
  value.check_keys({"batch_size", "dtype", "time_s", "forward_s", "spread"});
  LayerTimes times;
  times.batch_size = value.at("batch_size").integer(1, kMaxPlannedBatch);
  times.dtype = value.at("dtype").text();
  times.time_s = layer_seconds(value, model);
  times.forward_s = optional_numbers(value, "forward_s", times.time_s.size());
  times.spread = optional_numbers(value, "spread", times.time_s.size());
  for (std::size_t k = 0; k < times.forward_s.size(); ++k) {
    if (times.forward_s[k] <= times.time_s[k]) continue;
    value.at("forward_s")
        .broken(format("layer {}: {} s forward are more than the {} s of both passes", k + 1,
                       times.forward_s[k], times.time_s[k]));
  }
  return times;
}

TokenTimes read_token_times(const YamlValue& value, const ModelProfile* model) {
  value.check_keys({"sequences", "tokens", "context", "time_s"});
  TokenTimes times;
  times.sequences = value.at("sequences").integer(1, kMaxPlannedBatch);
  times.tokens = value.at("tokens").integer(1, kMaxPlannedBatch);
  times.context = value.at("context").integer(0, kMaxPlannedBatch);
  if (times.sequences > 1 && times.tokens > 1) {
    value.at("tokens").broken("must be 1 where there are several sequences: those decode");
  }
  times.time_s = layer_seconds(value, model);
  return times;
}

void read_generation(const YamlValue& profiles, const ModelTable& models, DeviceTypeProfile& type) {
  profiles.expect_map();
  std::size_t k = 0;
  for (const YamlValue& list : profiles.entries()) {
    const std::string& name = profiles.keys()[k++];
    const auto model = models.find(name);
    TokenTimesList& all = type.generation[name];
    list.expect_sequence();
    for (const YamlValue& one : list.entries()) {
      TokenTimes times = read_token_times(one, model == models.end() ? nullptr : &model->second);
      const bool twice = std::ranges::any_of(all, [&](const TokenTimes& other) {
        return other.sequences == times.sequences && other.tokens == times.tokens &&
               other.context == times.context;
      });
      if (twice) {
        one.broken(format("{} sequences, {} tokens and context {} are there twice", times.sequences,
                          times.tokens, times.context));
      }
      all.push_back(std::move(times));
    }
  }
}

DeviceTypeProfile read_type(const YamlValue& value, const ModelTable& models) {
  value.check_keys({"bw_Mbps", "mem_MB", "model_profiles", "generation_profiles", "cores",
                    "pack_Mbps", "price_per_hour", "watts"});
  DeviceTypeProfile type;
  type.bandwidth_mbps = value.at("bw_Mbps").number();
  type.memory_mb = value.at("mem_MB").number();
  if (value.has("price_per_hour")) type.price_per_hour = value.at("price_per_hour").number();
  if (value.has("watts")) type.watts = value.at("watts").number();
  if (value.has("cores")) type.cores = value.at("cores").number();
  if (value.has("pack_Mbps")) type.packing_mbps = value.at("pack_Mbps").number();
  if (value.has("generation_profiles")) {
    read_generation(value.at("generation_profiles"), models, type);
  }
  const YamlValue profiles = value.at("model_profiles");
  profiles.expect_map();
  std::size_t k = 0;
  for (const YamlValue& list : profiles.entries()) {
    const std::string& name = profiles.keys()[k++];
    const auto model = models.find(name);
    std::vector<LayerTimes>& times = type.models[name];
    list.expect_sequence();
    for (const YamlValue& one : list.entries()) {
      times.push_back(read_times(one, model == models.end() ? nullptr : &model->second));
      const LayerTimes& last = times.back();
      const auto twin = std::find_if(times.begin(), times.end() - 1, [&](const LayerTimes& other) {
        return other.batch_size == last.batch_size && other.dtype == last.dtype;
      });
      if (twin != times.end() - 1) {
        one.broken(format("batch size {} and {} are there twice", last.batch_size, last.dtype));
      }
    }
  }
  return type;
}

template <typename Table, typename Parse>
Table read_file(const std::filesystem::path& path, Parse parse) {
  return parse(read_text_file(path, kMaxPlannerFileBytes), path.string());
}

}  // namespace

ModelTable parse_models(std::string_view text, std::string_view name) {
  const YamlNode root = parse_planner_file(text, name);
  const YamlValue top(root, name, "");
  top.expect_map();
  ModelTable models;
  std::size_t k = 0;
  for (const YamlValue& value : top.entries()) models[top.keys()[k++]] = read_model(value);
  return models;
}

DeviceTypeTable parse_device_types(std::string_view text, std::string_view name,
                                   const ModelTable& models) {
  const YamlNode root = parse_planner_file(text, name);
  const YamlValue top(root, name, "");
  top.expect_map();
  DeviceTypeTable types;
  std::size_t k = 0;
  for (const YamlValue& value : top.entries()) types[top.keys()[k++]] = read_type(value, models);
  return types;
}

HostTable parse_hosts(std::string_view text, std::string_view name, const DeviceTypeTable& types) {
  const YamlNode root = parse_planner_file(text, name);
  const YamlValue top(root, name, "");
  top.expect_map();
  HostTable hosts;
  std::set<std::string> seen;
  std::size_t k = 0;
  for (const YamlValue& list : top.entries()) {
    const std::string& type = top.keys()[k++];
    if (!types.contains(type)) list.broken("the file of device types does not know this type");
    hosts[type] = list.texts();
    for (const YamlValue& host : list.entries()) {
      if (!seen.insert(host.text()).second) {
        host.broken(format("the host '{}' is there twice", host.text()));
      }
      if (seen.size() > kMaxPlanHosts) host.broken(format("more than {} hosts", kMaxPlanHosts));
    }
  }
  return hosts;
}

namespace {

/// What a link may lie between, as the files before and the groups name it.
struct LinkEnds {
  std::set<std::string> hosts;
  std::set<std::string> all;  ///< Types and groups as well.
};

LinkEnds ends_of(const HostTable& table) {
  LinkEnds ends;
  for (const auto& [type, list] : table) {
    ends.all.insert(type);
    ends.hosts.insert(list.begin(), list.end());
  }
  ends.all.insert(ends.hosts.begin(), ends.hosts.end());
  return ends;
}

void read_group(const YamlValue& list, const LinkEnds& ends, std::set<std::string>& grouped) {
  for (const YamlValue& host : list.entries()) {
    if (!ends.hosts.contains(host.text())) {
      host.broken(format("there is no host '{}'", host.text()));
    }
    if (!grouped.insert(host.text()).second) {
      host.broken(format("the host '{}' is in two groups", host.text()));
    }
  }
}

void read_groups(const YamlValue& groups, LinkEnds& ends, LinkTable& links) {
  groups.expect_map();
  std::set<std::string> grouped;
  std::size_t k = 0;
  for (const YamlValue& list : groups.entries()) {
    const std::string& group = groups.keys()[k++];
    if (!ends.all.insert(group).second) {
      list.broken("a host or a device type has this name already");
    }
    links.groups[group] = list.texts();
    read_group(list, ends, grouped);
  }
}

LinkRule read_rule(const YamlValue& rule, const LinkEnds& ends) {
  rule.check_keys({"between", "bw_Mbps", "latency_ms"});
  const YamlValue between = rule.at("between");
  const std::vector<std::string> names = between.texts();
  if (names.size() != 2) between.broken("must be a list of two names");
  for (const std::string& end : names) {
    if (!ends.all.contains(end)) between.broken(format("'{}' is no host, group or type", end));
  }
  LinkRule link{names[0], names[1], rule.at("bw_Mbps").number()};
  if (rule.has("latency_ms")) link.latency_ms = rule.at("latency_ms").number();
  return link;
}

void read_machines(const YamlValue& machines, const LinkEnds& ends, LinkTable& links) {
  machines.expect_map();
  std::set<std::string> placed;
  std::size_t k = 0;
  for (const YamlValue& value : machines.entries()) {
    value.check_keys({"cores", "hosts"});
    MachineRule& machine = links.machines[machines.keys()[k++]];
    machine.cores = value.at("cores").number();
    if (!(machine.cores > 0)) value.at("cores").broken("must be above 0");
    const YamlValue list = value.at("hosts");
    machine.hosts = list.texts();
    for (const YamlValue& host : list.entries()) {
      if (!ends.hosts.contains(host.text())) {
        host.broken(format("there is no host '{}'", host.text()));
      }
      if (!placed.insert(host.text()).second) {
        host.broken(format("the host '{}' is on two machines", host.text()));
      }
    }
  }
}

}  // namespace

LinkTable parse_links(std::string_view text, std::string_view name, const HostTable& hosts) {
  const YamlNode root = parse_planner_file(text, name);
  const YamlValue top(root, name, "");
  top.check_keys({"groups", "links", "machines"});
  LinkEnds ends = ends_of(hosts);
  LinkTable links;
  if (top.has("groups")) read_groups(top.at("groups"), ends, links);
  if (top.has("machines")) read_machines(top.at("machines"), ends, links);
  if (!top.has("links")) return links;
  const YamlValue rules = top.at("links");
  rules.expect_sequence();
  for (const YamlValue& rule : rules.entries()) links.rules.push_back(read_rule(rule, ends));
  return links;
}

PlanInputs read_plan_inputs(const PlanInputFiles& files) {
  PlanInputs inputs;
  inputs.models = read_file<ModelTable>(files.models, parse_models);
  inputs.types = read_file<DeviceTypeTable>(files.types, [&](const auto& text, const auto& name) {
    return parse_device_types(text, name, inputs.models);
  });
  inputs.hosts = read_file<HostTable>(files.hosts, [&](const auto& text, const auto& name) {
    return parse_hosts(text, name, inputs.types);
  });
  if (!files.links.empty()) {
    inputs.links = read_file<LinkTable>(files.links, [&](const auto& text, const auto& name) {
      return parse_links(text, name, inputs.hosts);
    });
  }
  return inputs;
}

}  // namespace harmonics::inline in_plan
