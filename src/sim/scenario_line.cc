#include "scenario_line.h"

#include <sstream>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/base/number_text.h>

namespace harmonics::inline in_sim {
namespace {

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  std::istringstream in{std::string(text)};
  for (std::string part; std::getline(in, part, at);) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

/// Rows that go through a model in so many stages, on cores.
void make_inference(TaskSpec& spec, std::uint32_t stages) {
  PipelineSpec pipeline{.model = "m", .graph = "g", .stages = stages, .infer = true};
  pipeline.weights = "w";
  pipeline.outputs = {{"rows", "csv:rows.csv"}};
  spec.command.clear();
  spec.required_gpus = 0;
  spec.on_disconnect = kPipelineOnDisconnect;
  set_pipeline(spec, std::move(pipeline));
}

}  // namespace

ScenarioLine::ScenarioLine(std::string_view text, std::size_t number)
    : words_(split(text, ' ')), line_(number) {}

void ScenarioLine::broken(std::string_view what) const {
  fail(ErrorCode::kInvalidArgument, "scenario, line {}: {}", line_, what);
}

std::string ScenarioLine::word() {
  if (done()) broken("a word is missing at the end");
  return words_[next_++];
}

std::uint64_t ScenarioLine::to_number(std::string_view text) const {
  if (const auto value = number_from<std::uint64_t>(text)) return *value;
  broken(format("'{}' is not a number", text));
}

std::uint64_t ScenarioLine::number() { return to_number(word()); }

AttemptId ScenarioLine::attempt() {
  const std::vector<std::string> parts = split(word(), '.');
  if (parts.size() != 2) broken("an attempt is TASK.ATTEMPT");
  return {TaskId{to_number(parts[0])}, {static_cast<std::uint32_t>(to_number(parts[1]))}};
}

Nanoseconds ScenarioLine::duration() {
  std::string text = word();
  if (text.ends_with("ms")) {
    return std::chrono::milliseconds(to_number(text.substr(0, text.size() - 2)));
  }
  if (!text.ends_with('s')) broken("a duration ends with s or ms");
  return std::chrono::seconds(to_number(text.substr(0, text.size() - 1)));
}

bool ScenarioLine::option(std::string& key, std::string& value) {
  if (done()) return false;
  const std::string text = word();
  const std::size_t at = text.find('=');
  if (at == text.npos) broken(format("'{}' is not key=value", text));
  key = text.substr(0, at);
  value = text.substr(at + 1);
  return true;
}

namespace {

/// "gpus:1+cpus:4" as the JSON of a variant.
std::string variant_json(const std::string& text) {
  std::string json;
  for (const std::string& part : split(text, '+')) {
    const std::size_t colon = part.find(':');
    const std::string key = part.substr(0, colon);
    json += format("{}\"{}\": {}", json.empty() ? "{" : ", ", key == "gpus" ? "required_gpus" : key,
                   part.substr(colon + 1));
  }
  return json + "}";
}

std::pair<std::string, std::string> pair_of(const std::string& text) {
  const std::size_t colon = text.find(':');
  return {text.substr(0, colon), colon == text.npos ? "" : text.substr(colon + 1)};
}

}  // namespace

bool ScenarioLine::wish(TaskSpec& spec, const std::string& key, const std::string& value) const {
  TaskTerms terms = spec.terms ? *spec.terms : TaskTerms{};
  if (key == "gpus") {
    const std::string place = format("scenario, line {}", line_);
    set_task_field(spec, "required_gpus", Json::parse(value, place), place);
  } else if (key == "or") {
    const Json variants = Json::parse("[" + variant_json(value) + "]", "or");
    TaskSpec one;
    set_task_field(one, "variants", variants, "scenario");
    std::vector<TaskVariant> all(spec.variants.all().begin(), spec.variants.all().end());
    all.push_back(one.variants.all().front());
    spec.variants = std::move(all);
  } else if (key == "anyway") {
    spec.wait_for_machines = to_number(value) == 1;
  } else if (key == "resource") {
    const auto [name, count] = pair_of(value);
    terms.resources.emplace_back(name, to_number(count));
  } else if (key == "label") {
    terms.labels.push_back(pair_of(value));
  } else if (key == "model") {
    terms.gpu_models.push_back(value);
  } else if (key == "apart") {
    terms.apart = value;
  } else {
    return false;
  }
  spec.terms = std::move(terms);
  return true;
}

TaskSpec ScenarioLine::task() {
  TaskSpec spec;
  spec.name = word();
  spec.command = {"true"};
  std::string key;
  std::string value;
  while (option(key, value)) {
    if (key == "after") {
      for (const std::string& id : split(value, ',')) spec.depends_on.push_back({to_number(id)});
      continue;
    }
    if (key == "key") {
      spec.idempotency_key = value;
      continue;
    }
    if (key == "on_disconnect") {
      for (const auto wish :
           {OnDisconnect::kStop, OnDisconnect::kForever, OnDisconnect::kContinue}) {
        if (to_string(wish) == value) spec.on_disconnect = wish;
      }
      continue;
    }
    if (wish(spec, key, value)) continue;
    const auto number = static_cast<std::uint32_t>(to_number(value));
    if (key == "infer")
      make_inference(spec, number);
    else if (key == "memory")
      spec.min_gpu_memory_mb = number;
    else if (key == "cpus")
      spec.cpus = number;
    else if (key == "host")
      spec.memory_mb = number;
    else if (key == "timeout")
      spec.timeout_s = number;
    else if (key == "retries")
      spec.max_retries = number;
    else if (key == "losses")
      spec.max_losses = number == 0 ? kUnlimitedLosses : number;
    else if (key == "priority")
      spec.priority = static_cast<std::int32_t>(number);
    else if (key == "gang")
      spec.gang = number;
    else if (key == "array")
      spec.array = number;
    else
      broken(format("unknown '{}'", key));
  }
  return spec;
}

Quota ScenarioLine::quota() {
  Quota quota;
  std::string key;
  std::string value;
  while (option(key, value)) {
    const auto number = static_cast<std::uint32_t>(to_number(value));
    if (key == "gpus")
      quota.max_gpus = number;
    else if (key == "active")
      quota.max_active = number;
    else if (key == "waiting")
      quota.max_waiting = number;
    else if (key == "weight")
      quota.weight = number;
    else
      broken(format("unknown '{}'", key));
  }
  return quota;
}

HelloMessage ScenarioLine::hello() {
  HelloMessage hello;
  std::uint64_t gpus = 1;
  std::uint64_t memory_mb = 24576;
  std::string model = "RTX3090";
  hello.spec.identity = hello.spec.name;
  std::string key;
  std::string value;
  while (option(key, value)) {
    if (key == "gpus")
      gpus = to_number(value);
    else if (key == "memory")
      memory_mb = to_number(value);
    else if (key == "cpus")
      hello.spec.cpus = static_cast<std::uint32_t>(to_number(value));
    else if (key == "host")
      hello.spec.memory_mb = to_number(value);
    else if (key == "identity")
      hello.spec.identity = value;
    else if (key == "model")
      model = value;
    else if (key == "resource")
      hello.spec.resources.emplace_back(pair_of(value).first, to_number(pair_of(value).second));
    else if (key == "label")
      hello.spec.labels.push_back(pair_of(value));
    else if (key == "stages")
      hello.spec.no_stages = to_number(value) == 0;
    else if (key == "has") {
      for (const std::string& one : split(value, ',')) hello.attempts.push_back(report(one));
    } else
      broken(format("unknown '{}'", key));
  }
  for (std::uint64_t i = 0; i < gpus; ++i) {
    hello.spec.devices.push_back({std::to_string(i), model, memory_mb});
  }
  return hello;
}

AttemptReport ScenarioLine::report(std::string_view text) {
  const std::vector<std::string> parts = split(text, ':');
  ScenarioLine id(parts.at(0), line_);
  AttemptReport report{id.attempt(), parts.size() > 1, std::nullopt};
  if (parts.size() > 1 && parts[1] != "launched")
    report.ended = ScenarioLine(parts[1], line_).result();
  return report;
}

EndResult ScenarioLine::result() {
  const std::string name = word();
  for (int kind = 0; kind <= static_cast<int>(EndKind::kUnable); ++kind) {
    const auto candidate = static_cast<EndKind>(kind);
    if (to_string(candidate) != name) continue;
    EndResult result;
    result.kind = candidate;
    result.exit_code = candidate == EndKind::kFailed ? 1 : 0;
    if (candidate == EndKind::kUnable) result.message = "the disk is full";
    return result;
  }
  broken(format("'{}' is not a way to end", name));
}

}  // namespace harmonics::inline in_sim
