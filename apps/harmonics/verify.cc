// harmonics verify: checks chains of custody, with nothing but the files.
#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/format.h>
#include <harmonics/base/json.h>
#include <harmonics/console/terminal.h>
#include <harmonics/custody/verify.h>
#include <harmonics/custody/zk.h>

#include "subcommands.h"

namespace harmonics {
namespace {

VerifyReport check(const VerifyCommand& command) {
  std::vector<Chain> chains;
  for (const std::filesystem::path& file : command.files) chains.push_back(read_chain(file));
  const Roster roster = Roster::load(command.keys.empty() ? default_key_folder() : command.keys);
  VerifyOptions options;
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

Json report_json(const VerifyReport& report) {
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
                    .set("weight_roots", stage.weight_marks));
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
      .set("stages", std::move(stages))
      .set("boundaries", std::move(boundaries));
}

}  // namespace

int verify(const VerifyCommand& command) {
  const VerifyReport report = check(command);
  switch (command.output) {
    case OutputStyle::kTable:
      write_text(Stream::kOutput, summary_text(report) + "\n" +
                                      (command.explain ? explain_text(report) : std::string()));
      break;
    case OutputStyle::kJson: write_text(Stream::kOutput, report_json(report).dump(2) + "\n"); break;
    case OutputStyle::kQuiet: break;
  }
  if (report.signers_known || command.allow_unknown) return kExitDone;
  write_text(Stream::kError,
             "harmonics: the signers are not in the roster: put their .pub files into a folder and "
             "pass it with --keys, or pass --allow-unknown\n");
  return kExitFailed;
}

}  // namespace harmonics
