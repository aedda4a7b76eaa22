#include "resumed_settings.h"

#include <algorithm>
#include <map>

#include <harmonics/base/listed.h>
#include <harmonics/runtime/train_options.h>
#include <harmonics/schedule/checkpoint.h>

namespace harmonics::inline in_torch_program {
namespace {

bool has(const std::vector<Setting>& settings, std::string_view key) {
  return std::ranges::any_of(settings, [&](const Setting& one) { return one.key == key; });
}

}  // namespace

LearningSettings learning_settings(const TrainSettings& settings) {
  RuntimeOptions options = runtime_options(settings);
  options.data = {settings.batch_size, settings.test_split, settings.shuffle};
  return learning_settings(options);
}

std::optional<LearningSettings> take_resumed_settings(const TrainCommand& command,
                                                      const HarpDocument& document,
                                                      TrainSettings& settings,
                                                      std::vector<std::string>& said) {
  if (!command.resume) return std::nullopt;
  const std::optional<LearningSettings> saved = checkpoint_settings(command.checkpoint);
  if (!saved) return saved;
  const std::map<std::string, std::string> ours = setting_texts(learning_settings(settings));
  std::vector<std::string> taken;
  for (const auto& [key, there] : setting_texts(*saved)) {
    const TrainSettingRule* rule = find_train_setting_rule(key);
    const auto here = ours.find(key);
    if (rule == nullptr || here == ours.end() || here->second == there) continue;
    // What was measured when the run began stays: bits depend on it.
    const bool measured = key == "micro_batches" && settings.micro_batches == kAutoMicroBatches;
    if (has(command.settings, key) && !measured) {
      said.push_back(format("{} is {} as given; '{}' was trained with {}", key, here->second,
                            command.checkpoint.string(), there));
      continue;
    }
    rule->apply(settings, there);
    if (!measured && (has(document.train.entries, key) || has(document.data.entries, key))) {
      said.push_back(format("{} is {} as in '{}', and not {} as in '{}': {} changes it", key, there,
                            command.checkpoint.string(), here->second, command.file.string(),
                            flag_of(*rule)));
    } else {
      taken.push_back(format("{} {}", key, there));
    }
  }
  if (!taken.empty()) {
    said.push_back(
        format("goes on as '{}' was trained: {}", command.checkpoint.string(), listed(taken)));
  }
  return saved;
}

}  // namespace harmonics::inline in_torch_program
