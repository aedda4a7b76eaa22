#include <harmonics/verification/verification.h>

#include <algorithm>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/format.h>
#include <harmonics/base/json.h>
#include <harmonics/base/listed.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/verification/model_check.h>
#include <harmonics/zk/zk.h>

namespace harmonics::inline in_verification {
namespace {

// Digests are cut to what tells them apart; --explain and JSON have all of them.
std::string short_digest(const Digest& digest) { return digest_text(digest).substr(0, 16); }

std::string roots_text(const VerifyReport& report, bool colour) {
  Table table{{{"stage"}, {"signer"}, {"graph"}, {"weights"}, {"at step", Align::kRight}, {"data"}},
              {}};
  for (const StageReport& stage : report.stages) {
    const std::string data = joined(stage.data, ", ", [](const DataReport& one) {
      return format("{} {}", one.producer, short_digest(one.root));
    });
    const bool marked = !stage.weights.empty();
    table.rows.push_back({stage.stage, stage.signer, short_digest(stage.graph),
                          marked ? short_digest(stage.weights.back().root) : "none",
                          marked ? format("{}", stage.weights.back().step) : "", data});
  }
  return table.text(colour);
}

std::string compared_text(const ComparedModel& compared) {
  std::string text;
  if (!compared.graph.empty()) text += format("the graph is that of '{}'\n", compared.graph);
  if (!compared.weights.empty()) {
    text += format("the weights of '{}' are those announced at step {}", compared.weights,
                   compared.weights_step);
    text += compared.weights_step == compared.last_step
                ? ", the last\n"
                : format("; the last are of step {}\n", compared.last_step);
  }
  if (const auto& again = compared.recomputed) {
    text += format(
        "computed again: {} of {} step(s), {} of {} stretch(es){}: all as they were signed\n",
        again->steps, again->of, again->stretches, again->of_stretches,
        again->seed.empty() ? "" : format(", drawn with '{}'", again->seed));
  }
  return text;
}

Json weights_json(const std::vector<WeightMark>& marks) {
  const auto one = [](const WeightMark& mark) {
    return Json().set("step", mark.step).set("root", digest_text(mark.root));
  };
  if (marks.empty()) return {};
  return Json().set("first", one(marks.front())).set("last", one(marks.back()));
}

Json data_json(const std::vector<DataReport>& data) {
  Json json = Json::array();
  for (const DataReport& one : data) {
    json.push(Json()
                  .set("producer", one.producer)
                  .set("tensors", one.tensors)
                  .set("root", digest_text(one.root)));
  }
  return json;
}

Json compared_json(const ComparedModel& compared) {
  Json json = Json::object();
  if (!compared.graph.empty()) json.set("graph", compared.graph);
  if (!compared.weights.empty()) {
    json.set("weights", compared.weights)
        .set("weights_step", compared.weights_step)
        .set("last_step", compared.last_step);
  }
  if (const auto& again = compared.recomputed) {
    Json steps = Json()
                     .set("steps", again->steps)
                     .set("of", again->of)
                     .set("stretches", again->stretches)
                     .set("of_stretches", again->of_stretches);
    if (!again->seed.empty()) steps.set("seed", again->seed);
    json.set("recomputed", std::move(steps));
  }
  return json;
}

Json report_json(const VerifyReport& report, const ComparedModel& compared) {
  Json stages = Json::array();
  for (const StageReport& stage : report.stages) {
    stages.push(Json()
                    .set("stage", stage.stage)
                    .set("signer", stage.signer)
                    .set("key", key_text(stage.key))
                    .set("known", stage.known)
                    .set("heads", stage.heads)
                    .set("sent", stage.sent)
                    .set("received", stage.received)
                    .set("weight_roots", stage.weight_marks)
                    .set("graph", digest_text(stage.graph))
                    .set("weights", weights_json(stage.weights))
                    .set("data", data_json(stage.data)));
  }
  Json boundaries = Json::array();
  for (const BoundaryReport& row : report.boundaries) {
    boundaries.push(Json()
                        .set("name", row.boundary.name)
                        .set("from", row.boundary.from)
                        .set("to", row.boundary.to)
                        .set("activations", row.forward)
                        .set("gradients", row.backward));
  }
  return Json()
      .set("run", digest_text(report.run))
      .set("signers_known", report.signers_known)
      .set("links", report.links)
      .set("tensors_checked", report.tensors_checked)
      .set("proofs_checked", report.proofs_checked)
      .set("data_checked", report.data_checked)
      .set("compared", compared_json(compared))
      .set("stages", std::move(stages))
      .set("boundaries", std::move(boundaries));
}

}  // namespace

VerifyReport verify_evidence(const VerifyCommand& command, const Evidence& evidence,
                             VerifyOptions options) {
  const std::vector<Chain>& chains = evidence.chains;
  const Roster roster = Roster::load(key_folder_or_default(command.keys));
  options.proof = check_link_proof;
  if (!command.tensors.empty()) {
    if (!std::filesystem::is_directory(command.tensors)) {
      fail(ErrorCode::kNotFound, "'{}' is no folder of tensors", command.tensors.string());
    }
    options.tensor = [&](const Link& link) -> std::optional<Bytes> {
      const std::filesystem::path file = command.tensors / digest_text(link.root);
      if (!std::filesystem::exists(file)) return std::nullopt;
      const std::string text = read_text_file(file);
      return Bytes(bytes_of(text).begin(), bytes_of(text).end());
    };
  }
  VerifyReport report = verify_chain(chains, roster, options);
  if (!evidence.statements.empty()) check_statements(evidence.statements, chains, report);
  compare_stated_file(command, evidence);
  // A scheduler gives a line for each of its parts.
  for (const std::string& text : command.lines) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      if (end > at) check_proof_line(chains, std::string_view(text).substr(at, end - at));
      at = end + 1;
    }
  }
  return report;
}

int print_verification(const VerifyCommand& command, const VerifyReport& report,
                       const ComparedModel& compared) {
  switch (command.output) {
    case OutputStyle::kTable:
      write_text(
          TextStream::kOutput,
          summary_text(report) + "\n" + compared_text(compared) +
              (command.explain ? explain_text(report)
                               : "\n" + roots_text(report, wants_colour(TextStream::kOutput))));
      break;
    case OutputStyle::kJson:
      write_text(TextStream::kOutput, report_json(report, compared).dump(2) + "\n");
      break;
    case OutputStyle::kQuiet: break;
  }
  if (report.signers_known || command.allow_unknown) return kExitDone;
  write_text(TextStream::kError,
             "harmonics: the signers are not in the roster: put their .pub files into a folder and "
             "pass it with --keys, or pass --allow-unknown\n");
  return kExitFailed;
}

}  // namespace harmonics::inline in_verification
