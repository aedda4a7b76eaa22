#include "task_needs.h"

#include <sstream>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/json.h>
#include <harmonics/base/number_text.h>
#include <harmonics/clients/counts.h>

namespace harmonics::inline in_clients {
namespace {

constexpr std::size_t kMaxEnvFileBytes = kMaxTaskBytes;

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

std::pair<std::string, std::string> halves(const std::string& text, std::string_view flag) {
  const std::size_t equals = text.find('=');
  if (equals == text.npos || equals == 0) {
    fail(ErrorCode::kInvalidArgument, "{}: '{}' is not of the form KEY=N", flag, text);
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::uint64_t count_from(const std::string& name, const std::string& text, std::string_view flag) {
  const auto count = number_from<std::uint64_t>(text);
  if (count && *count <= kMaxResourceCount) return *count;
  fail(ErrorCode::kInvalidArgument, "{}: {}: '{}' is not a whole number from 0 to {}", flag, name,
       text, kMaxResourceCount);
}

/// "gpus=0.5,cpus=4,resource.fpga=1,weight=0.5" as task JSON has it.
Json variant_json(const std::string& text) {
  static const std::vector<std::pair<std::string, std::string>> kKeys = {
      {"gpus", "required_gpus"},
      {"memory", "min_gpu_memory"},
      {"cpus", "cpus"},
      {"host-memory", "memory_mb"},
      {"weight", "weight"}};
  constexpr std::string_view kResource = "resource.";
  Json json = Json::object();
  Json resources = Json::object();
  for (const std::string& part : parts_of(text)) {
    const auto [key, value] = halves(part, "--variant");
    if (key.starts_with(kResource)) {
      resources.set(key.substr(kResource.size()), count_from(key, value, "--variant"));
      continue;
    }
    const auto known = std::ranges::find(kKeys, key, &std::pair<std::string, std::string>::first);
    const auto number = number_from<double>(value);
    if (known == kKeys.end() || !number) {
      fail(ErrorCode::kInvalidArgument,
           "--variant: '{}' is not KEY=N with gpus, memory, cpus, host-memory, weight or "
           "resource.NAME",
           part);
    }
    const auto whole = number_from<std::int64_t>(value);
    json.set(known->second, whole ? Json(*whole) : Json(*number));
  }
  if (!resources.as_object().empty()) json.set("resources", std::move(resources));
  return json;
}

}  // namespace

ResourceCounts counts_from(const TextPairs& pairs, std::string_view flag) {
  ResourceCounts counts;
  for (const auto& [key, value] : pairs) {
    for (const std::string& part : parts_of(key + "=" + value)) {
      const auto [name, count] = halves(part, flag);
      counts.emplace_back(name, count_from(name, count, flag));
    }
  }
  return counts;
}

TextPairs read_env_file(const std::filesystem::path& file) {
  TextPairs pairs;
  std::istringstream in(read_text_file(file, kMaxEnvFileBytes));
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    const std::size_t start = line.find_first_not_of(" \t");
    if (start == line.npos || line[start] == '#') continue;
    const std::size_t equals = line.find('=', start);
    if (equals == line.npos || equals == start) {
      fail(ErrorCode::kInvalidArgument, "{}:{}: '{}' is not of the form KEY=VALUE", file.string(),
           number, line);
    }
    pairs.emplace_back(line.substr(start, equals - start), line.substr(equals + 1));
  }
  return pairs;
}

void add_needs(const SubmitCommand& command, TaskSpec& spec) {
  TaskTerms terms = spec.terms ? *spec.terms : TaskTerms{};
  if (!command.resources.empty()) terms.resources = counts_from(command.resources, "--resource");
  if (!command.gpu_models.empty()) terms.gpu_models = command.gpu_models;
  if (!command.labels.empty()) terms.labels = command.labels;
  if (!command.apart.empty()) terms.apart = command.apart;
  spec.terms = std::move(terms);
  if (command.wait_for_machines) spec.wait_for_machines = true;
  if (command.variants.empty()) return;
  Json list = Json::array();
  for (const std::string& variant : command.variants) {
    Json json = variant_json(variant);
    if (json.find("min_gpu_memory") == nullptr) {
      json.set("min_gpu_memory", spec.min_gpu_memory_mb);
    }
    list.push(std::move(json));
  }
  set_task_field(spec, "variants", list, "--variant");
}

}  // namespace harmonics::inline in_clients
