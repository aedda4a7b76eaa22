#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/custody/breach.h>
#include <harmonics/custody/custody_log.h>
#include <harmonics/custody/verify.h>

namespace harmonics::inline in_custody {
namespace {

struct SignedHead {
  Head head;
  std::string digest;
  std::string signature;
};

std::vector<SignedHead> heads_of(std::span<const Chain> chains, std::size_t stage) {
  std::vector<SignedHead> heads;
  for (const Chain& chain : chains) {
    for (const ChainRecord& record : chain.records) {
      if (record.kind != RecordKind::kHead || record.stage != stage) continue;
      if (record.body.size() <= sizeof(Signature)) {
        fail_custody(Breach::kMalformed, "a head without its signature");
      }
      const ByteSpan body = ByteSpan(record.body).first(record.body.size() - sizeof(Signature));
      heads.push_back({decode_head(body), digest_text(head_digest(body)),
                       to_hex(ByteSpan(record.body).last(sizeof(Signature)))});
    }
  }
  return heads;
}

}  // namespace

void check_proof_line(std::span<const Chain> chains, std::string_view text) {
  const ProofLine line = parse_proof_line(text);
  if (chains.empty()) fail(ErrorCode::kInvalidArgument, "there is no chain to look in");
  const Opening& opening = chains.front().opening;
  const StageEntry* entry = opening.stage(line.stage);
  if (line.run != digest_text(opening_digest(encode(opening))) || entry == nullptr) {
    fail_custody(Breach::kOtherRun, "the proof of stage '{}' belongs to another run", line.stage);
  }
  const auto heads = heads_of(chains, static_cast<std::size_t>(entry - opening.stages.data()));
  const auto found =
      std::ranges::find(heads, line.number, [](const SignedHead& one) { return one.head.number; });
  if (found == heads.end()) {
    fail_custody(Breach::kRollback, "the proof names head {} of stage '{}', which ends at {}",
                 line.number, line.stage, heads.empty() ? 0 : heads.back().head.number);
  }
  if (found->digest != line.head) {
    fail_custody(Breach::kFork, "the proof names another head {} of stage '{}'", line.number,
                 line.stage);
  }
  if (found->signature != line.signature) {
    fail_custody(Breach::kSubstitutedKey,
                 "the proof of stage '{}' has another signature of head {}", line.stage,
                 line.number);
  }
}

}  // namespace harmonics::inline in_custody
