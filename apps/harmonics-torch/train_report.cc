#include "train_report.h"

#include <harmonics/base/format.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>

namespace harmonics::inline in_torch_program {
namespace {

Json number_or_null(std::optional<double> number) { return number ? Json(*number) : Json(); }

std::string line(const std::string& title, const std::string& text) {
  return format("  {:<11} {}\n", title, text);
}

std::string measured(std::optional<double> loss, std::optional<double> accuracy) {
  std::string text;
  if (loss) text = format("loss {}", as_loss(*loss));
  if (accuracy) text += format("{}accuracy {}", text.empty() ? "" : "  ", as_percent(*accuracy));
  return text;
}

std::string copies_and_parts(const TrainReport& report) {
  std::string text;
  if (report.replicas > 1) text += format(", {} replicas", report.replicas);
  if (report.parts > 1) text += format(", {} parts", report.parts);
  return text;
}

std::string length_of(const TrainReport& report) {
  return format("{} epoch{}, {} step{}", report.epochs, report.epochs == 1 ? "" : "s",
                with_thousands(report.steps), report.steps == 1 ? "" : "s");
}

std::string headline(const TrainReport& report) {
  if (report.was_complete) {
    return format("{} was trained already: {}", report.graph, length_of(report));
  }
  return format("{} {}: {} in {:.1f} s ({} samples/s){}",
                report.interrupted ? "interrupted" : "trained", report.graph, length_of(report),
                report.seconds, as_rate(report.samples_per_second), copies_and_parts(report));
}

}  // namespace

Json report_json(const TrainReport& report) {
  Json json;
  json.set("graph", report.graph).set("epochs", report.epochs).set("steps", report.steps);
  json.set("train_loss", number_or_null(report.train_loss));
  json.set("train_accuracy", number_or_null(report.train_accuracy));
  if (report.test) {
    json.set("test_loss", report.test->loss);
    json.set("test_accuracy", number_or_null(report.test->accuracy));
  }
  json.set("weights_digest", report.weights_digest);
  if (report.digest_part) json.set("weights_digest_part", *report.digest_part);
  json.set("seconds", report.seconds);
  json.set("samples_per_second", report.samples_per_second);
  json.set("parts", report.parts).set("replicas", report.replicas);
  json.set("micro_batches", report.micro_batches).set("seed", report.seed);
  if (report.shares != "equal") json.set("shares", report.shares);
  json.set("checkpoint", report.checkpoint.empty() ? Json() : Json(report.checkpoint));
  json.set("stopped_early", report.stopped_early).set("interrupted", report.interrupted);
  json.set("was_complete", report.was_complete);
  if (!report.proof.empty()) {
    json.set("proof", report.proof);
    json.set("chain", report.chain.empty() ? Json() : Json(report.chain));
  }
  return json;
}

std::string report_text(const TrainReport& report, bool colour) {
  std::string text = bold(headline(report), colour) + "\n";
  if (report.stopped_early) text += "  stopped early: the test loss no longer fell\n";
  if (report.train_loss) {
    text += line("train", measured(report.train_loss, report.train_accuracy));
  }
  if (report.test) text += line("test", measured(report.test->loss, report.test->accuracy));
  text +=
      line("weights",
           format("sha256 {}{}", report.weights_digest,
                  report.digest_part ? format(" (of part {} alone)", *report.digest_part) : ""));
  if (report.shares != "equal") text += line("shares", report.shares);
  if (!report.checkpoint.empty()) text += line("checkpoint", report.checkpoint);
  if (!report.proof.empty()) {
    text += line("custody", report.chain.empty()
                                ? "signed and checked; --proof FILE would have kept the chain"
                                : report.chain + " ('harmonics verify' checks it)");
  }
  return text;
}

}  // namespace harmonics::inline in_torch_program
