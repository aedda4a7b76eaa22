#include <array>
#include <string>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/plan/inputs.h>
#include <harmonics/yaml/yaml_text.h>

namespace harmonics::inline in_plan {
namespace {

template <typename Values>
std::string number_list(std::string head, int indent, const Values& values) {
  YamlFlowList list(std::move(head), indent);
  for (const auto value : values) list.add(format("{}", value));
  return list.finish();
}

std::string name_list(std::string head, int indent, const std::vector<std::string>& names) {
  YamlFlowList list(std::move(head), indent);
  for (const std::string& name : names) list.add(yaml_name(name));
  return list.finish();
}

struct DtypeSize {
  std::string_view name;
  std::int64_t bytes;
};
constexpr std::array kDtypes = {DtypeSize{"torch.float32", 4}, DtypeSize{"torch.float16", 2},
                                DtypeSize{"torch.bfloat16", 2}, DtypeSize{"torch.float64", 8},
                                DtypeSize{"torch.int8", 1}};

}  // namespace

std::int64_t plan_dtype_bytes(std::string_view dtype) {
  for (const DtypeSize& one : kDtypes) {
    if (one.name == dtype) return one.bytes;
  }
  fail(ErrorCode::kInvalidArgument, "unknown dtype '{}'; there are: {}", dtype,
       listed(kDtypes, &DtypeSize::name));
}

std::string models_to_yaml(const ModelTable& models) {
  std::string text = models.empty() ? "{}\n" : "";
  for (const auto& [name, model] : models) {
    text += format("{}:\n  layers: {}\n", yaml_name(name), model.layers());
    text += number_list("  mem_MB: ", 4, model.memory_mb);
    text += format("  parameters_in: {}\n", model.parameters_in);
    text += number_list("  parameters_out: ", 4, model.parameters_out);
    if (!model.tied_out.empty()) text += number_list("  tied_out: ", 4, model.tied_out);
    if (!model.cache_bytes.empty()) text += number_list("  cache_bytes: ", 4, model.cache_bytes);
    if (!model.training.known()) continue;
    text += "  training:\n";
    text += number_list("    fixed_MB: ", 6, model.training.fixed_mb);
    text += number_list("    kept_MB: ", 6, model.training.kept_mb);
    text += number_list("    scratch_MB: ", 6, model.training.scratch_mb);
  }
  return text;
}

namespace {

std::string times_yaml(const LayerTimes& times) {
  std::string text =
      format("    - batch_size: {}\n      dtype: {}\n", times.batch_size, yaml_name(times.dtype));
  text += number_list("      time_s: ", 8, times.time_s);
  if (!times.forward_s.empty()) text += number_list("      forward_s: ", 8, times.forward_s);
  if (!times.spread.empty()) text += number_list("      spread: ", 8, times.spread);
  return text;
}

std::string generation_yaml(const DeviceTypeProfile& type) {
  std::string text = "  generation_profiles:\n";
  for (const auto& [model, profiles] : type.generation) {
    text += format("    {}:{}\n", yaml_name(model), profiles.empty() ? " []" : "");
    for (const TokenTimes& times : profiles) {
      text += format("    - sequences: {}\n      tokens: {}\n      context: {}\n", times.sequences,
                     times.tokens, times.context);
      text += number_list("      time_s: ", 8, times.time_s);
    }
  }
  return text;
}

}  // namespace

std::string device_types_to_yaml(const DeviceTypeTable& types) {
  std::string text = types.empty() ? "{}\n" : "";
  for (const auto& [name, type] : types) {
    text += format("{}:\n  bw_Mbps: {}\n  mem_MB: {}\n", yaml_name(name), type.bandwidth_mbps,
                   type.memory_mb);
    if (type.cores != 1) text += format("  cores: {}\n", type.cores);
    if (type.packing_mbps > 0) text += format("  pack_Mbps: {}\n", type.packing_mbps);
    if (type.price_per_hour > 0) text += format("  price_per_hour: {}\n", type.price_per_hour);
    if (type.watts > 0) text += format("  watts: {}\n", type.watts);
    text += "  model_profiles:\n";
    for (const auto& [model, profiles] : type.models) {
      text += format("    {}:{}\n", yaml_name(model), profiles.empty() ? " []" : "");
      for (const LayerTimes& times : profiles) text += times_yaml(times);
    }
    if (!type.generation.empty()) text += generation_yaml(type);
  }
  return text;
}

std::string hosts_to_yaml(const HostTable& hosts) {
  std::string text = hosts.empty() ? "{}\n" : "";
  for (const auto& [type, list] : hosts) {
    text += format("{}:{}\n", yaml_name(type), list.empty() ? " []" : "");
    for (const std::string& host : list) text += format("- {}\n", yaml_name(host));
  }
  return text;
}

std::string links_to_yaml(const LinkTable& links) {
  std::string text = links.groups.empty() ? "groups: {}\n" : "groups:\n";
  for (const auto& [group, hosts] : links.groups) {
    text += name_list(format("  {}: ", yaml_name(group)), 4, hosts);
  }
  text += links.rules.empty() ? "links: []\n" : "links:\n";
  for (const LinkRule& rule : links.rules) {
    text += format("- between: [{}, {}]\n  bw_Mbps: {}\n", yaml_name(rule.first),
                   yaml_name(rule.second), rule.bandwidth_mbps);
    if (rule.latency_ms > 0) text += format("  latency_ms: {}\n", rule.latency_ms);
  }
  if (!links.machines.empty()) text += "machines:\n";
  for (const auto& [name, machine] : links.machines) {
    text += format("  {}:\n    cores: {}\n", yaml_name(name), machine.cores);
    text += name_list("    hosts: ", 6, machine.hosts);
  }
  return text;
}

}  // namespace harmonics::inline in_plan
