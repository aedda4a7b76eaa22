#include "stage_events.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>

#include <harmonics/base/environment.h>
#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/base/number_text.h>
#include <harmonics/schedule/report_json.h>

#include "child_process.h"

namespace harmonics::inline in_torch_program {
namespace {

template <typename Number>
void set_if(Json& json, std::string_view key, const std::optional<Number>& number) {
  if (number) json.set(key, *number);
}

std::optional<double> number_of(const Json& json, std::string_view key) {
  const Json* found = json.find(key);
  return found == nullptr || found->is_null() ? std::nullopt : std::optional(found->as_number());
}

std::optional<Evaluation> evaluation_of(const Json& json) {
  if (json.find("test_loss") == nullptr) return std::nullopt;
  // A loss that is not finite is null in JSON.
  const double loss =
      json.at("test_loss").is_null() ? std::nan("") : json.at("test_loss").as_number();
  return Evaluation{json.at("test_samples").as_integer(), loss, number_of(json, "test_accuracy")};
}

Json event_json(const StepReport& step) {
  Json json = report_json(step);
  set_if(json, "batches", step.batches_in_epoch);
  return json.set("event", "step").set("batch", step.batch);
}

Json event_json(const EpochReport& epoch) {
  Json json = report_json(epoch);
  if (epoch.evaluation) json.set("test_samples", epoch.evaluation->samples);
  return json.set("event", "epoch");
}

Json event_json(const TrainReport& report) {
  Json json = event_json(EpochReport{.epoch = report.epochs,
                                     .steps = report.steps,
                                     .train_loss = report.train_loss,
                                     .train_accuracy = report.train_accuracy,
                                     .evaluation = report.test});
  json.set("event", "done").set("graph", report.graph);
  json.set("seconds", report.seconds).set("samples_per_second", report.samples_per_second);
  json.set("parts", report.parts).set("seed", report.seed);
  json.set("stopped_early", report.stopped_early).set("interrupted", report.interrupted);
  json.set("was_complete", report.was_complete).set("proof", report.proof);
  json.set("shares", report.shares);
  return json;
}

StepReport step_of(const Json& json) {
  StepReport step;
  step.step = json.at("step").as_integer();
  step.epoch = json.at("epoch").as_integer();
  step.batch = json.at("batch").as_integer();
  if (const Json* batches = json.find("batches")) step.batches_in_epoch = batches->as_integer();
  step.samples = json.at("samples").as_integer();
  step.loss = number_of(json, "loss");
  step.accuracy = number_of(json, "accuracy");
  return step;
}

EpochReport epoch_of(const Json& json) {
  EpochReport epoch;
  epoch.epoch = json.at("epoch_done").as_integer();
  epoch.steps = json.at("steps").as_integer();
  epoch.samples = json.at("samples").as_integer();
  epoch.train_loss = number_of(json, "train_loss");
  epoch.train_accuracy = number_of(json, "train_accuracy");
  epoch.evaluation = evaluation_of(json);
  return epoch;
}

TrainReport report_of(const Json& json) {
  TrainReport report;
  report.graph = json.at("graph").as_string();
  const EpochReport epoch = epoch_of(json);
  report.epochs = epoch.epoch;
  report.steps = epoch.steps;
  report.train_loss = epoch.train_loss;
  report.train_accuracy = epoch.train_accuracy;
  report.test = epoch.evaluation;
  report.seconds = json.at("seconds").as_number();
  report.samples_per_second = json.at("samples_per_second").as_number();
  report.parts = json.at("parts").as_integer();
  report.seed = json.at("seed").as_integer();
  report.stopped_early = json.at("stopped_early").as_bool();
  report.interrupted = json.at("interrupted").as_bool();
  report.was_complete = json.at("was_complete").as_bool();
  report.proof = json.at("proof").as_string();
  report.shares = json.at("shares").as_string();
  return report;
}

}  // namespace

std::string encode_event(const StageEvent& event) {
  return std::visit([](const auto& one) { return event_json(one).dump(); }, event);
}

StageEvent decode_event(const std::string& line) {
  const Json json = Json::parse(line, "event of a part");
  const std::string& kind = json.at("event").as_string();
  if (kind == "step") return step_of(json);
  if (kind == "epoch") return epoch_of(json);
  if (kind == "done") return report_of(json);
  fail(ErrorCode::kInvalidArgument, "a part told of an unknown event '{}'", kind);
}

StageEvents::StageEvents() {
  const auto text = environment_value(kEventsVariable);
  if (!text) return;
  descriptor_ = number_from<int>(*text).value_or(-1);
  if (descriptor_ < 0) {
    fail(ErrorCode::kInvalidArgument, "{}='{}' is no descriptor: unset it", kEventsVariable, *text);
  }
}

TrainingListener StageEvents::listener() {
  if (!wanted()) return {};
  return {[this](const StepReport& step) { tell(step); },
          [this](const EpochReport& epoch) { tell(epoch); }};
}

void StageEvents::tell(const StageEvent& event) { tell_line(encode_event(event)); }

void StageEvents::tell_line(const std::string& text) {
  if (!wanted()) return;
  const std::string line = text + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_errno(errno, "cannot tell the process that started this part");
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace harmonics::inline in_torch_program
