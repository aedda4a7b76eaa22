#include <harmonics/cluster/task_params.h>

#include <cctype>
#include <map>

#include <harmonics/base/error.h>
#include <harmonics/cluster/task_environment.h>

namespace harmonics::inline in_cluster {

namespace {

std::string in_capitals(std::string_view prefix, std::string_view key) {
  std::string name(prefix);
  for (const char letter : key) {
    const auto byte = static_cast<unsigned char>(letter);
    name += std::isalnum(byte) != 0 ? static_cast<char>(std::toupper(byte)) : '_';
  }
  return name;
}

}  // namespace

std::string param_variable(std::string_view key) { return in_capitals(kParamPrefix, key); }

std::string resource_variable(std::string_view name) { return in_capitals(kResourcePrefix, name); }

void check_params(const TaskSpec& spec) {
  std::map<std::string, std::string_view> keys;
  for (const auto& [key, value] : spec.params) {
    const auto [earlier, fresh] = keys.emplace(param_variable(key), key);
    if (fresh) continue;
    fail(ErrorCode::kInvalidArgument,
         "task: params: '{}' and '{}' are both {} to the task: rename one of them", earlier->second,
         key, earlier->first);
  }
}

}  // namespace harmonics::inline in_cluster
