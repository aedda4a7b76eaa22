// What a verification found, in words.
#include <harmonics/base/format.h>
#include <harmonics/base/listed.h>
#include <harmonics/custody/verify.h>

namespace harmonics::inline in_custody {
namespace {

std::string signer_text(const StageReport& stage) {
  return format("'{}'{}", stage.signer, stage.known ? "" : " (unknown)");
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  const auto extent_text = [](std::int64_t extent) { return std::to_string(extent); };
  return shape.empty() ? "scalar" : joined(shape, "x", extent_text);
}

}  // namespace

std::string summary_text(const VerifyReport& report) {
  std::string who;
  std::uint64_t heads = 0;
  for (const StageReport& stage : report.stages) {
    add_item(who, format("{} by {}", stage.stage, signer_text(stage)));
    heads += stage.heads;
  }
  std::string text = format(
      "{}: {} hand-over(s) over {} boundar{} in {} signed step(s) are as they were sent and "
      "received; signed for {}",
      report.signers_known ? "verified" : "consistent, signers unknown", report.links,
      report.boundaries.size(), report.boundaries.size() == 1 ? "y" : "ies", heads, who);
  if (report.tensors_checked > 0) text += format("; {} tensor(s) match", report.tensors_checked);
  if (report.data_checked > 0) {
    text += format("; {} tensor(s) of data match", report.data_checked);
  }
  if (report.proofs_checked > 0) {
    text += format("; {} zero-knowledge proof(s) hold", report.proofs_checked);
  }
  return text;
}

std::string explain_text(const VerifyReport& report) {
  std::string text = format("run {}\n", digest_text(report.run));
  for (const StageReport& stage : report.stages) {
    text += format("\n{}  signed by {}, key {}\n", stage.stage, signer_text(stage),
                   key_text(stage.key).substr(0, 16));
    text += format("  {} head(s), {} weight root(s), {} sent, {} received\n", stage.heads,
                   stage.weight_marks, stage.sent, stage.received);
    text += format("  graph {}\n", digest_text(stage.graph));
    if (!stage.weights.empty()) {
      text += format("  weights {} at step {}\n", digest_text(stage.weights.front().root),
                     stage.weights.front().step);
    }
    if (stage.weights.size() > 1) {
      text += format("  weights {} at step {}\n", digest_text(stage.weights.back().root),
                     stage.weights.back().step);
    }
    for (const DataReport& data : stage.data) {
      text += format("  data of '{}': {} tensor(s), root {}\n", data.producer, data.tensors,
                     digest_text(data.root));
    }
    for (const BoundaryReport& row : report.boundaries) {
      if (row.boundary.from != stage.stage) continue;
      text += format("  --[{}]--> {}: {} activation(s), first {}\n", row.boundary.name,
                     row.boundary.to, row.forward, shape_text(row.shape));
      if (row.backward == 0) continue;
      text += format("  <--[{}]-- {}: {} gradient(s)\n", row.boundary.name, row.boundary.to,
                     row.backward);
    }
  }
  return text;
}

}  // namespace harmonics::inline in_custody
