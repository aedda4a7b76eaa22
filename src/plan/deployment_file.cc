#include <harmonics/plan/deployment_file.h>

#include <algorithm>
#include <array>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/plan/inputs.h>

#include "planner_file.h"

namespace harmonics::inline in_plan {
namespace {

constexpr std::array<std::string_view, 4> kBackends = {"cpu", "gpu", "fpga", "auto"};

std::string read_backend(const YamlValue& value) {
  const std::string& name = value.text();
  if (std::ranges::find(kBackends, name) == kBackends.end()) {
    value.broken(format("'{}' is no backend: use cpu, gpu, fpga or auto", name));
  }
  return name;
}

bool read_truth(const YamlValue& value) {
  const std::string& text = value.text();
  if (text != "true" && text != "false") {
    value.broken(format("'{}' is neither true nor false", text));
  }
  return text == "true";
}

double read_positive(const YamlValue& value) {
  const double number = value.number();
  if (number <= 0) value.broken("must be above 0");
  return number;
}

DeploymentEntry read_entry(const YamlValue& value) {
  value.check_keys({"backend", "device", "weight", "mem_MB"});
  DeploymentEntry entry;
  if (value.has("backend")) entry.backend = read_backend(value.at("backend"));
  if (value.has("device")) {
    entry.device = static_cast<std::uint32_t>(value.at("device").integer(0, kMaxDeploymentDevice));
  }
  if (value.has("weight")) entry.weight = read_positive(value.at("weight"));
  if (value.has("mem_MB")) entry.memory_mb = read_positive(value.at("mem_MB"));
  return entry;
}

}  // namespace

DeploymentFile parse_deployment(std::string_view text, std::string_view name) {
  const YamlNode root = parse_planner_file(text, name);
  const YamlValue top(root, name, "");
  top.check_keys({"backend", "secure", "proofs", "strict", "partitions"});
  DeploymentFile file;
  if (top.has("backend")) file.backend = read_backend(top.at("backend"));
  if (top.has("secure")) file.secure = read_truth(top.at("secure"));
  if (top.has("proofs")) file.proofs = read_truth(top.at("proofs"));
  if (top.has("strict")) file.strict = read_truth(top.at("strict"));
  const YamlValue partitions = top.at("partitions");
  partitions.expect_sequence();
  for (const YamlValue& value : partitions.entries()) file.partitions.push_back(read_entry(value));
  if (file.partitions.empty()) partitions.broken("needs at least one partition");
  if (file.partitions.size() > kMaxDeploymentEntries) {
    partitions.broken(
        format("{} partitions, at most {}", file.partitions.size(), kMaxDeploymentEntries));
  }
  return file;
}

DeploymentFile read_deployment(const std::filesystem::path& path) {
  return parse_deployment(read_text_file(path, kMaxPlannerFileBytes), path.string());
}

std::string deployment_to_yaml(const DeploymentFile& deployment) {
  std::string text = format("backend: {}\n", deployment.backend);
  if (deployment.secure) text += "secure: true\n";
  if (deployment.proofs) text += "proofs: true\n";
  if (deployment.strict) text += "strict: true\n";
  text += "partitions:\n";
  for (const DeploymentEntry& entry : deployment.partitions) {
    text += format("  - backend: {}\n", entry.backend);
    if (entry.device) text += format("    device: {}\n", *entry.device);
    if (entry.weight) text += format("    weight: {}\n", *entry.weight);
    if (entry.memory_mb) text += format("    mem_MB: {}\n", *entry.memory_mb);
  }
  return text;
}

}  // namespace harmonics::inline in_plan
