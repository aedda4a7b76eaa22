#include <harmonics/schedule/report_json.h>

namespace harmonics::inline in_schedule {

Json report_json(const StepReport& report) {
  Json json;
  json.set("step", report.step).set("epoch", report.epoch).set("samples", report.samples);
  if (report.loss) json.set("loss", *report.loss);
  if (report.accuracy) json.set("accuracy", *report.accuracy);
  return json.set("learning_rate", report.learning_rate);
}

Json report_json(const EpochReport& report) {
  Json json;
  json.set("epoch_done", report.epoch).set("steps", report.steps).set("samples", report.samples);
  if (report.train_loss) json.set("train_loss", *report.train_loss);
  if (report.train_accuracy) json.set("train_accuracy", *report.train_accuracy);
  if (report.evaluation) {
    json.set("test_loss", report.evaluation->loss);
    if (report.evaluation->accuracy) json.set("test_accuracy", *report.evaluation->accuracy);
  }
  return json;
}

}  // namespace harmonics::inline in_schedule
