// The settings of a training run, which come from a .harp file and from flags.
//
// One table says for every setting its key in the file, its flag, its limits and its meaning, so
// that file, command line, help and completion cannot disagree. `lr` in the file is `--lr` on the
// command line, `batch_size` is `--batch-size`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/graph/harp.h>
#include <harmonics/settings/bound_setting.h>

namespace harmonics::inline in_settings {

inline constexpr std::int64_t kMaxEpochs = 1'000'000'000;
inline constexpr std::int64_t kMaxBatchRows = std::int64_t{1} << 24;

/// TrainSettings::micro_batches: whoever starts the run measures how many are best.
inline constexpr std::int64_t kAutoMicroBatches = 0;

struct TrainSettings {
  std::int64_t epochs = 10;
  std::int64_t batch_size = 32;
  std::int64_t micro_batches = 1;
  std::int64_t recompute = 1;  // 0: auto
  std::int64_t threads = 0;
  std::int64_t seed = 1;
  std::int64_t parts = 1;
  std::int64_t replicas = 1;
  std::string reduction = "chain";
  std::string shares = "equal";
  std::string pipeline = "1f1b";
  std::string backend = "cpu";
  bool reproducible = false;
  double lr = 0.001;
  std::string optimizer = "adam";
  double momentum = 0;
  double weight_decay = 0;
  std::string decay = "all";
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double clip = 0;
  std::string precision = "full";
  std::string schedule = "constant";
  std::int64_t warmup = 0;
  std::int64_t step_every = 1000;
  double step_factor = 0.1;
  double test_split = 0;
  std::int64_t patience = 0;
  bool shuffle = true;
};

/// One row of the table.
struct TrainSettingRule {
  std::string key;
  /// "train" or "data": the section of a .harp file that it stands in.
  std::string section;
  /// What stands for the value in help; choices are separated by '|'.
  std::string placeholder;
  std::string help;
  /// Sets the value from text; one out of range is an Error that says what is allowed.
  std::function<void(TrainSettings&, std::string_view)> apply;
};

[[nodiscard]] std::span<const TrainSettingRule> train_setting_rules();
/// The rule of that key; null when there is none.
[[nodiscard]] const TrainSettingRule* find_train_setting_rule(std::string_view key);
/// "--batch-size" for batch_size.
[[nodiscard]] std::string flag_of(const TrainSettingRule& rule);
/// Whether it is true or false, so that its flag takes no value.
[[nodiscard]] bool is_switch(const TrainSettingRule& rule);
/// The words of a command line that set it: "--batch-size" "8", and "--shuffle" or "--no-shuffle"
/// for a switch.
[[nodiscard]] std::vector<std::string> setting_words(const TrainSettingRule& rule,
                                                     const std::string& value);

/// A binding with the folder that its path is relative to, and where it was written ("--bind" or
/// "file:line"), for errors.
struct SourceBinding {
  std::string name;
  std::string spec;
  std::filesystem::path folder;
  std::string where;
};

/// The file's settings with the flags applied over them. An unknown key or a wrong value in the
/// file is an Error with file and line.
[[nodiscard]] TrainSettings merge_settings(const HarpDocument& document,
                                           const std::filesystem::path& file,
                                           std::span<const Setting> flags);

/// The bindings of the file's data section, each replaced by the flag of the same name if there is
/// one. Paths in the file are relative to it, those of flags to the current folder. A name that is
/// no producer of the graph is an Error that lists the producers. Texts and pictures that leave
/// their tokenizer or preprocessor open get those that the file's weights section names.
[[nodiscard]] std::vector<SourceBinding> merge_bindings(const HarpDocument& document,
                                                        const std::filesystem::path& file,
                                                        std::span<const Binding> flags);

/// Where the weights lie: `flag` or, where it is empty, what the weights section of the file names,
/// relative to it; empty for neither. Another key of that section is an Error with file and line.
[[nodiscard]] std::filesystem::path merge_weights(const HarpDocument& document,
                                                  const std::filesystem::path& file,
                                                  const std::filesystem::path& flag);

}  // namespace harmonics::inline in_settings
