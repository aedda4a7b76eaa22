#include "secure_meeting.h"

#include <algorithm>
#include <set>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/custody/breach.h>

namespace harmonics::inline in_schedule {
namespace {

constexpr std::size_t kMaxOutputs = std::size_t{1} << 16;

[[noreturn]] void refuse_mixture(const std::string& plain, const std::string& secure) {
  fail(ErrorCode::kInvalidArgument,
       "part '{}' is not secure and part '{}' is: set secure in all parts of a run or in none",
       plain, secure);
}

template <std::size_t N>
void read_into(ByteReader& in, std::array<std::byte, N>& out) {
  std::ranges::copy(in.take(N), out.begin());
}

// Keys come from the roster here, never from what the other parts say.
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

std::vector<BoundaryEntry> boundaries_of(const std::vector<PartRecord>& parts) {
  std::vector<BoundaryEntry> boundaries;
  for (const PartRecord& from : parts) {
    for (const BoundaryEnd& end : from.leaving) {
      for (const PartRecord& to : parts) {
        if (std::ranges::find(to.entering, end.name, &BoundaryEnd::name) == to.entering.end()) {
          continue;
        }
        boundaries.push_back({end.name, from.name, to.name});
      }
    }
  }
  return boundaries;
}

}  // namespace

std::string encode(const CustodyClaim& claim) {
  ByteWriter out;
  out.text(claim.part.stage);
  out.text(claim.part.signer);
  out.raw(claim.part.key);
  out.raw(claim.part.graph);
  out.number(static_cast<std::uint32_t>(claim.part.outputs.size()));
  for (const std::string& name : claim.part.outputs) out.text(name);
  out.raw(claim.nonce);
  return text_of(out.bytes());
}

CustodyClaim decode_custody_claim(std::string_view text) {
  ByteReader in(bytes_of(text), "custody claim");
  CustodyClaim claim;
  claim.part.stage = in.text(kMaxCustodyName);
  claim.part.signer = in.text(kMaxCustodyName);
  read_into(in, claim.part.key);
  read_into(in, claim.part.graph);
  claim.part.outputs.resize(in.count(kMaxOutputs, sizeof(std::uint32_t)));
  for (std::string& name : claim.part.outputs) name = in.text(kMaxCustodyName);
  read_into(in, claim.nonce);
  if (in.left() != 0) in.broken("bytes after the end");
  return claim;
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
  Sha256 all;
  for (const RunNonce& nonce : nonces) all.update(nonce);
  const Digest mixed = all.finish();
  RunNonce nonce;
  std::copy_n(mixed.begin(), nonce.size(), nonce.begin());
  return make_opening(secure, boundaries_of(parts), nonce);
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
