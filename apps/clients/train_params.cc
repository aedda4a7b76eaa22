#include <harmonics/clients/train_params.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/nearest_word.h>
#include <harmonics/base/number_text.h>

namespace harmonics::inline in_clients {
namespace {

std::vector<std::string> known_keys() {
  std::vector<std::string> keys = {"model", "dataset", "synthetic_size", "strict_data"};
  for (const auto& [key, flag] : kTrainerFlags) keys.emplace_back(key);
  return keys;
}

/// Cuts a number down; text that is none is left to whoever reads it.
std::string cut_down(TaskParams& params, const std::string& key, int limit) {
  const auto given = params.find(key);
  if (given == params.end()) {
    params[key] = std::to_string(limit);
    return {};
  }
  const std::string before = given->second;
  const auto value = number_from<long>(before);
  if (!value || *value <= limit) return {};
  given->second = std::to_string(limit);
  return format(", {} {} in place of {}", key, limit, before);
}

}  // namespace

std::string trainer_key(std::string_view key) {
  std::string name;
  for (const char letter : key) {
    const auto byte = static_cast<unsigned char>(letter);
    name += std::isalnum(byte) != 0 ? static_cast<char>(std::tolower(byte)) : '_';
  }
  return name;
}

void check_trainer_params(const TaskParams& params) {
  const std::vector<std::string> keys = known_keys();
  for (const auto& [key, value] : params) {
    if (std::ranges::find(keys, key) != keys.end()) continue;
    fail(ErrorCode::kInvalidArgument,
         "params: the built-in trainer has no '{}'{}; it has {} (parameters of your own are for a "
         "task with a command)",
         key, suggestion(key, keys), listed(keys));
  }
}

std::string stand_in_for_data(TaskParams& params, bool zoo_model) {
  const auto dataset = params.find("dataset");
  const auto strict = params.find("strict_data");
  if (dataset == params.end() || !zoo_model) return {};
  if (strict != params.end() && strict->second == "true") return {};
  const std::string name = dataset->second;
  if (std::ranges::find(kSyntheticSets, std::string_view(name),
                        &std::pair<std::string_view, int>::first) == kSyntheticSets.end()) {
    return {};
  }
  params["dataset"] = std::string(kSyntheticPrefix) + name;
  params.emplace("synthetic_size", std::to_string(kStandInRows));
  std::string changes = cut_down(params, "batch_size", kStandInBatch);
  changes += cut_down(params, "epochs", kStandInEpochs);
  return format(
      "the data set '{}' is not on this worker: training on {} made-up samples of its shape "
      "instead{} (put it below HARMONICS_DATA_DIR, or submit with --strict-data to make this an "
      "error)\n",
      name, params["synthetic_size"], changes);
}

}  // namespace harmonics::inline in_clients
