#include "secure_replicas.h"

#include <algorithm>
#include <set>
#include <utility>

#include <harmonics/base/error.h>

#include "remote/wire.h"
#include "secure_meeting.h"

namespace harmonics::inline in_schedule {
namespace {

constexpr const char* kTexts = "@texts";

}  // namespace

std::string replica_stage(const std::string& graph, std::size_t replica) {
  return format("{}#{}", graph, replica);
}

SecurePart sums_of(const SecurePart& replica) {
  SecurePart sums = replica;
  sums.stage += "/sums";
  sums.outputs.clear();
  return sums;
}

std::string sums_boundary(std::size_t a, std::size_t b) {
  return format("sums/{}-{}", std::min(a, b), std::max(a, b));
}

std::string replica_claim(const SecureRun& own) {
  return encode(CustodyClaim{own.parts().front(), new_run_nonce()});
}

Opening opening_of_replicas(const std::vector<std::string>& claims, Reduction order,
                            const SecureOptions& options) {
  const std::filesystem::path folder = key_folder(options);
  const Roster roster = Roster::load(folder);
  std::vector<SecurePart> parts;
  std::vector<SecurePart> sums;
  std::set<RunNonce> nonces;
  for (std::size_t rank = 0; rank < claims.size(); ++rank) {
    const CustodyClaim claim = decode_custody_claim(claims[rank]);
    if (!claim.part.stage.ends_with(replica_stage("", rank))) {
      fail(ErrorCode::kDataLoss, "replica {} claims custody as '{}'", rank, claim.part.stage);
    }
    check_signer(claim.part, roster, folder);
    nonces.insert(claim.nonce);
    parts.push_back(claim.part);
    sums.push_back(sums_of(claim.part));
  }
  std::vector<BoundaryEntry> boundaries;
  for (std::size_t rank = 0; rank < sums.size(); ++rank) {
    for (const std::size_t peer : reduction_peers(order, rank, sums.size())) {
      if (peer < rank) continue;
      boundaries.push_back({sums_boundary(rank, peer), sums[rank].stage, sums[peer].stage});
    }
  }
  std::ranges::move(sums, std::back_inserter(parts));
  return make_opening(parts, std::move(boundaries), mixed_nonce(nonces));
}

// Every rank fills a row of its own, so that the sum of all is each of them.
std::vector<std::string> gathered_texts(Reducer& reducer, const std::string& own,
                                        std::uint64_t step) {
  if (own.size() > kMaxReplicaText) {
    fail(ErrorCode::kResourceExhausted, "a replica says {} bytes of itself, {} are allowed",
         own.size(), kMaxReplicaText);
  }
  const std::size_t width = kMaxReplicaText + 1;
  const auto ranks = static_cast<std::int64_t>(reducer.ranks());
  Tensor rows = Tensor::zeros({ranks, static_cast<std::int64_t>(width)}, DType::kFloat64);
  const std::span<double> row =
      rows.mutable_values<double>().subspan(reducer.rank() * width, width);
  row[0] = static_cast<double>(own.size());
  std::ranges::transform(own, row.begin() + 1, [](char one) {
    return static_cast<double>(static_cast<unsigned char>(one));
  });
  const NamedTensors sums = reducer.sum({{kTexts, rows}}, step);
  const std::span<const double> all = sums.at(kTexts).values<double>();
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < reducer.ranks(); ++rank) {
    const auto text = all.subspan(rank * width, width);
    if (!(text[0] >= 0 && text[0] <= static_cast<double>(kMaxReplicaText))) {
      fail(ErrorCode::kDataLoss, "what replica {} says of itself is damaged", rank);
    }
    std::string& bytes = texts.emplace_back();
    for (const double one : text.subspan(1, static_cast<std::size_t>(text[0]))) {
      if (!(one >= 0 && one <= 255)) {
        fail(ErrorCode::kDataLoss, "what replica {} says of itself is damaged", rank);
      }
      bytes.push_back(static_cast<char>(static_cast<unsigned char>(one)));
    }
  }
  return texts;
}

}  // namespace harmonics::inline in_schedule
