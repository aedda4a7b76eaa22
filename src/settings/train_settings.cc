#include <harmonics/settings/train_settings.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/number_text.h>
#include <harmonics/settings/batch_shares.h>

#include "model_sources.h"

namespace harmonics::inline in_settings {
namespace {

constexpr std::int64_t kMaxWhole = std::numeric_limits<std::int64_t>::max();
constexpr std::string_view kSwitch = "true|false";
constexpr double kUnbounded = std::numeric_limits<double>::infinity();

using Apply = std::function<void(TrainSettings&, std::string_view)>;

Apply whole(std::int64_t TrainSettings::*member, std::int64_t least, std::int64_t most) {
  return [=](TrainSettings& settings, std::string_view text) {
    const auto value = number_from<std::int64_t>(text);
    if (!value || *value < least || *value > most) {
      fail(ErrorCode::kInvalidArgument, "'{}' is not a whole number {}", text,
           most == kMaxWhole ? format("of at least {}", least)
                             : format("from {} to {}", least, most));
    }
    settings.*member = *value;
  };
}

// A number, or `auto` for zero.
Apply whole_or_auto(std::int64_t TrainSettings::*member, std::int64_t most) {
  return [=, number = whole(member, 1, most)](TrainSettings& settings, std::string_view text) {
    if (text == "auto") {
      settings.*member = 0;
    } else {
      number(settings, text);
    }
  };
}

Apply real(double TrainSettings::*member, double below = kUnbounded, bool with_zero = true) {
  return [=](TrainSettings& settings, std::string_view text) {
    const auto value = number_from<double>(text);
    const bool least = value && (with_zero ? *value >= 0 : *value > 0);
    if (!least || !std::isfinite(*value) || *value >= below) {
      fail(ErrorCode::kInvalidArgument, "'{}' is not a number {} 0{}", text,
           with_zero ? "of at least" : "above",
           below == kUnbounded ? std::string() : format(" and below {}", below));
    }
    settings.*member = *value;
  };
}

Apply truth(bool TrainSettings::*member) {
  return [=](TrainSettings& settings, std::string_view text) {
    if (text != "true" && text != "false") {
      fail(ErrorCode::kInvalidArgument, "'{}' is neither true nor false", text);
    }
    settings.*member = text == "true";
  };
}

// `choices` is "a|b|c".
Apply choice(std::string TrainSettings::*member, std::string_view choices) {
  return [=](TrainSettings& settings, std::string_view text) {
    const std::string framed = format("|{}|", choices);
    if (text.empty() || text.find('|') != std::string_view::npos ||
        framed.find(format("|{}|", text)) == std::string::npos) {
      fail(ErrorCode::kInvalidArgument, "'{}' is none of {}", text, choices);
    }
    settings.*member = text;
  };
}

Apply dealt(std::string TrainSettings::*member) {
  return [=](TrainSettings& settings, std::string_view text) {
    settings.*member = BatchShares::parse(text).text();
  };
}

// What says how a run is computed.
std::vector<TrainSettingRule> computing_rules() {
  using S = TrainSettings;
  constexpr std::string_view backends = "cpu|gpu|fpga|auto";
  constexpr std::string_view reductions = "chain|tree|ring";
  constexpr std::string_view orders = "sequential|1f1b|gpipe";
  const auto text = [](std::string_view words) { return std::string(words); };
  return {
      {"epochs", "train", "N", "passes over the data (10)", whole(&S::epochs, 1, kMaxEpochs)},
      {"batch_size", "train", "N", "samples per step (32)",
       whole(&S::batch_size, 1, kMaxBatchRows)},
      {"micro_batches", "train", "N|auto", "slices of a batch, auto: as many as is fastest (1)",
       whole_or_auto(&S::micro_batches, 65536)},
      {"recompute", "train", "N|auto",
       "compute activations again going back, in so many stretches of layers (1: keep them)",
       whole_or_auto(&S::recompute, 65536)},
      {"threads", "train", "N", "threads inside one operation (0: libtorch's choice)",
       whole(&S::threads, 0, 4096)},
      {"seed", "train", "N", "seed of start weights, dropout and sample order (1)",
       whole(&S::seed, 0, kMaxWhole)},
      {"parts", "train", "N", "cut the graph into so many parts (1)", whole(&S::parts, 1, 100'000)},
      {"replicas", "train", "N", "copies of the graph that share each batch (1)",
       whole(&S::replicas, 1, 1024)},
      {"reduction", "train", text(reductions), "how replicas sum their gradients (chain)",
       choice(&S::reduction, reductions)},
      {"shares", "train", "equal|auto|W,W",
       "rows of a batch for each replica: alike, as measured, or in proportion (equal)",
       dealt(&S::shares)},
      {"pipeline", "train", text(orders), "order of the micro-batches in several parts (1f1b)",
       choice(&S::pipeline, orders)},
      {"backend", "train", text(backends), "what computes (cpu)", choice(&S::backend, backends)},
      {"reproducible", "train", text(kSwitch),
       "the same bits on every CPU and device, whatever its vectors, threads, parts and processes "
       "(no)",
       truth(&S::reproducible)},
  };
}

// And how it learns.
std::vector<TrainSettingRule> learning_rules() {
  using S = TrainSettings;
  constexpr std::string_view optimizers = "sgd|adam|adamw";
  constexpr std::string_view decays = "all|weights";
  constexpr std::string_view precisions = "full|bf16|fp16|auto";
  constexpr std::string_view schedules = "constant|step|cosine";
  const auto text = [](std::string_view words) { return std::string(words); };
  return {
      {"lr", "train", "X", "learning rate (0.001)", real(&S::lr)},
      {"optimizer", "train", text(optimizers), "update rule (adam)",
       choice(&S::optimizer, optimizers)},
      {"momentum", "train", "X", "momentum of sgd (0)", real(&S::momentum, 1.0)},
      {"weight_decay", "train", "X", "weight decay (0)", real(&S::weight_decay)},
      {"decay", "train", text(decays), "what decays: weights leaves out biases and norms (all)",
       choice(&S::decay, decays)},
      {"beta1", "train", "X", "how long adam and adamw remember gradients (0.9)",
       real(&S::beta1, 1.0)},
      {"beta2", "train", "X", "how long they remember squares of gradients (0.999)",
       real(&S::beta2, 1.0)},
      {"epsilon", "train", "X", "what adam and adamw add to the divisor (1e-8)",
       real(&S::epsilon, kUnbounded, false)},
      {"clip", "train", "X", "largest norm of all gradients together (0: off)", real(&S::clip)},
      {"precision", "train", text(precisions), "arithmetic of matrix products (full)",
       choice(&S::precision, precisions)},
      {"schedule", "train", text(schedules), "course of the learning rate (constant)",
       choice(&S::schedule, schedules)},
      {"warmup", "train", "N", "steps in which the learning rate rises to its value (0)",
       whole(&S::warmup, 0, kMaxWhole)},
      {"step_every", "train", "N", "steps between two drops of the schedule 'step' (1000)",
       whole(&S::step_every, 1, kMaxWhole)},
      {"step_factor", "train", "X", "factor of each drop of the schedule 'step' (0.1)",
       real(&S::step_factor)},
      {"test_split", "data", "X", "share of the rows that is tested after every epoch (0)",
       real(&S::test_split, 1.0)},
      {"patience", "train", "N", "stop after so many epochs without a better test loss (0: never)",
       whole(&S::patience, 0, kMaxEpochs)},
      {"shuffle", "train", text(kSwitch),
       "draw the order of the samples anew for every epoch (yes)", truth(&S::shuffle)},
  };
}

std::string keys_of(std::string_view section) {
  std::vector<std::string> keys;
  for (const TrainSettingRule& rule : train_setting_rules()) {
    if (rule.section == section) keys.push_back(rule.key);
  }
  return listed(keys);
}

std::string producers_of(const HarmonicGraph& graph) {
  return listed(graph.producers(), &ProducerNode::name);
}

std::string place_of(const std::filesystem::path& file, const Setting& setting) {
  return format("{}:{}", file.string(), setting.line);
}

void apply_from_file(TrainSettings& settings, const TrainSettingRule& rule, const Setting& setting,
                     const std::filesystem::path& file) {
  try {
    rule.apply(settings, setting.value);
  } catch (const Error& error) {
    fail(error.code(), "{}: {}: {}", place_of(file, setting), setting.key,
         std::string_view(error.what()));
  }
}

bool is_data_setting(std::string_view key) {
  const TrainSettingRule* rule = find_train_setting_rule(key);
  return rule != nullptr && rule->section == "data";
}

}  // namespace

std::span<const TrainSettingRule> train_setting_rules() {
  static const std::vector<TrainSettingRule> rules = [] {
    std::vector<TrainSettingRule> all = computing_rules();
    std::ranges::move(learning_rules(), std::back_inserter(all));
    return all;
  }();
  return rules;
}

const TrainSettingRule* find_train_setting_rule(std::string_view key) {
  const auto rules = train_setting_rules();
  const auto found = std::ranges::find(rules, key, &TrainSettingRule::key);
  return found == rules.end() ? nullptr : &*found;
}

std::string flag_of(const TrainSettingRule& rule) {
  std::string flag = "--" + rule.key;
  std::ranges::replace(flag, '_', '-');
  return flag;
}

bool is_switch(const TrainSettingRule& rule) { return rule.placeholder == kSwitch; }

std::vector<std::string> setting_words(const TrainSettingRule& rule, const std::string& value) {
  const std::string flag = flag_of(rule);
  if (!is_switch(rule)) return {flag, value};
  return {value == "true" ? flag : "--no" + flag.substr(1)};
}

TrainSettings merge_settings(const HarpDocument& document, const std::filesystem::path& file,
                             std::span<const Setting> flags) {
  TrainSettings settings;
  for (const Setting& setting : document.train.entries) {
    const TrainSettingRule* rule = find_train_setting_rule(setting.key);
    if (rule == nullptr || rule->section != "train") {
      fail(ErrorCode::kInvalidArgument, "{}: the train section has no setting '{}'; it has: {}",
           place_of(file, setting), setting.key, keys_of("train"));
    }
    apply_from_file(settings, *rule, setting, file);
  }
  for (const Setting& setting : document.data.entries) {
    if (is_data_setting(setting.key)) {
      apply_from_file(settings, *find_train_setting_rule(setting.key), setting, file);
    }
  }
  for (const Setting& flag : flags) {
    find_train_setting_rule(flag.key)->apply(settings, flag.value);
  }
  return settings;
}

std::vector<SourceBinding> merge_bindings(const HarpDocument& document,
                                          const std::filesystem::path& file,
                                          std::span<const Binding> flags) {
  const HarmonicGraph& graph = document.graph;
  std::vector<SourceBinding> bindings;
  for (const Setting& setting : document.data.entries) {
    if (is_data_setting(setting.key)) continue;
    if (!graph.producer_index(setting.key)) {
      fail(
          ErrorCode::kInvalidArgument,
          "{}: '{}' is neither a producer of the graph ({}) nor a setting of the data section ({})",
          place_of(file, setting), setting.key, producers_of(graph), keys_of("data"));
    }
    bindings.push_back({setting.key, setting.value, document.folder, place_of(file, setting)});
  }
  for (const Binding& flag : flags) {
    if (!graph.producer_index(flag.name)) {
      fail(ErrorCode::kNotFound, "--bind {}: the graph of '{}' has no such producer; it has: {}",
           flag.name, file.string(), producers_of(graph));
    }
    std::erase_if(bindings, [&](const SourceBinding& old) { return old.name == flag.name; });
    bindings.push_back({flag.name, flag.spec, {}, "--bind " + flag.name});
  }
  complete_sources(document, bindings);
  return bindings;
}

std::filesystem::path merge_weights(const HarpDocument& document, const std::filesystem::path& file,
                                    const std::filesystem::path& flag) {
  std::filesystem::path named;
  for (const Setting& setting : document.weights.entries) {
    if (setting.key == "tokenizer" || setting.key == "preprocessor") continue;
    if (setting.key != "file") {
      fail(ErrorCode::kInvalidArgument,
           "{}: the weights section has no setting '{}'; it has: file, tokenizer, preprocessor",
           place_of(file, setting), setting.key);
    }
    named = document.folder / setting.value;
  }
  return flag.empty() ? named : flag;
}

}  // namespace harmonics::inline in_settings
