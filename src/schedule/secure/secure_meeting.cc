#include "secure_meeting.h"

#include <algorithm>
#include <set>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/custody/breach.h>

namespace harmonics::inline in_schedule {
namespace {

[[noreturn]] void refuse_mixture(const std::string& plain, const std::string& secure) {
  fail(ErrorCode::kInvalidArgument,
       "part '{}' is not secure and part '{}' is: set secure in all parts of a run or in none",
       plain, secure);
}

bool enters(const PartRecord& part, const std::string& boundary) {
  return std::ranges::find(part.entering, boundary, &BoundaryEnd::name) != part.entering.end();
}

std::vector<BoundaryEntry> boundaries_of(const std::vector<PartRecord>& parts) {
  std::vector<BoundaryEntry> boundaries;
  for (const PartRecord& from : parts) {
    for (const BoundaryEnd& end : from.leaving) {
      for (const PartRecord& to : parts) {
        if (enters(to, end.name)) boundaries.push_back({end.name, from.name, to.name});
      }
    }
  }
  return boundaries;
}

}  // namespace

void check_signer(const SecurePart& part, const Roster& roster,
                  const std::filesystem::path& folder) {
  const PublicKey* known = roster.find(part.signer);
  if (known == nullptr) {
    fail_custody(Breach::kUnknownSigner,
                 "part '{}' signs as '{}', of whom there is no public key here: put '{}.pub' into "
                 "'{}'",
                 part.stage, part.signer, part.signer, folder.string());
  }
  if (*known == part.key) return;
  fail_custody(Breach::kSubstitutedKey,
               "part '{}' signs as '{}' with the key {}, and '{}' here says {}: whoever is right, "
               "both sides need the same '{}.pub'",
               part.stage, part.signer, key_text(part.key),
               (folder / (part.signer + ".pub")).string(), key_text(*known), part.signer);
}

RunNonce mixed_nonce(const std::set<RunNonce>& nonces) {
  Sha256 all;
  for (const RunNonce& nonce : nonces) all.update(nonce);
  const Digest mixed = all.finish();
  RunNonce nonce;
  std::copy_n(mixed.begin(), nonce.size(), nonce.begin());
  return nonce;
}

Opening opening_of(const std::vector<PartRecord>& parts, const SecureOptions& options) {
  const std::filesystem::path folder = key_folder(options);
  const Roster roster = Roster::load(folder);
  std::vector<SecurePart> secure;
  std::set<RunNonce> nonces;
  for (const PartRecord& part : parts) {
    if (part.custody.empty()) {
      const auto other = std::ranges::find_if(
          parts, [](const PartRecord& record) { return !record.custody.empty(); });
      refuse_mixture(part.name, other->name);
    }
    const CustodyClaim claim = decode_custody_claim(part.custody);
    if (claim.part.stage != part.name) {
      fail(ErrorCode::kDataLoss, "part '{}' claims custody as '{}'", part.name, claim.part.stage);
    }
    check_signer(claim.part, roster, folder);
    secure.push_back(claim.part);
    nonces.insert(claim.nonce);
  }
  Opening opening = make_opening(secure, boundaries_of(parts), mixed_nonce(nonces));
  opening.reproducible = parts.front().precision.ends_with(kReproducibly);
  return opening;
}

void refuse_secure_parts(const std::vector<PartRecord>& parts) {
  for (const PartRecord& part : parts) {
    if (part.custody.empty()) continue;
    const auto plain =
        std::ranges::find_if(parts, [](const PartRecord& one) { return one.custody.empty(); });
    refuse_mixture(plain->name, part.name);
  }
}

Passage passage_of(const std::string& boundary, const Message& message) {
  return {boundary,
          message.kind == MessageKind::kGradient ? Direction::kBackward : Direction::kForward,
          message.step, message.micro_batch};
}

}  // namespace harmonics::inline in_schedule
