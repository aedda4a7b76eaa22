#include <harmonics/custody/verify.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/custody/breach.h>
#include <harmonics/custody/merkle.h>
#include <harmonics/custody/stage_trail.h>

namespace harmonics::inline in_custody {
namespace {

// Identifies a link in either side's account: boundary and direction, then its sequence.
using FlowName = std::pair<std::string, Direction>;

struct HandOver {
  Digest link{};
  Digest root{};
  std::string where;
};

// One verification: the trails of all stages, and what must agree between them.
class Verification {
 public:
  Verification(const Opening& opening, const VerifyOptions& options)
      : opening_(opening), run_(opening_digest(encode(opening))), options_(options) {
    for (const StageEntry& entry : opening.stages) {
      trails_.emplace_back(opening, run_, entry.stage);
      StageReport& report = reports_.emplace_back();
      report.stage = entry.stage;
      report.signer = entry.signer;
      report.key = entry.key;
      report.graph = entry.graph;
    }
    heads_.resize(opening.stages.size());
    proofs_.resize(opening.stages.size());
    commitments_.resize(opening.stages.size());
    waiting_.resize(opening.stages.size());
    data_.resize(opening.stages.size());
  }

  void check_signers(const Roster& roster);
  void take_all(const Chain& chain);
  void finish();
  [[nodiscard]] VerifyReport report() const;

 private:
  void take(const ChainRecord& record);
  void take_link(std::uint16_t stage, const Link& link);
  void take_head(std::uint16_t stage, ByteSpan body);
  void check_tensor(const Link& link);
  void check_proof(std::uint16_t stage, const Link& link, Bytes proof);
  void note_data(std::uint16_t stage, const Link& link);
  [[nodiscard]] std::vector<DataReport> data_of(std::size_t stage) const;
  void take_weights(std::uint16_t stage, const WeightMark& mark);
  void match_flows() const;
  void match_heads() const;
  void require_all_stages() const;
  void note_boundary(const Link& link);

  const Opening& opening_;
  const Digest run_;
  const VerifyOptions& options_;
  std::vector<StageTrail> trails_;
  std::vector<StageReport> reports_;
  std::vector<std::vector<Digest>> heads_;  // by stage; the first is head 1
  std::vector<std::pair<std::size_t, SeenHead>> seen_;
  std::vector<std::optional<Bytes>> proofs_;   // by stage: waits for its link
  std::vector<std::optional<Bytes>> waiting_;  // by stage: commitments that wait for their mark
  std::vector<Bytes> commitments_;             // by stage: of the weights that count now
  std::map<FlowName, std::vector<HandOver>> sent_;
  std::map<FlowName, std::vector<HandOver>> received_;
  std::map<std::string, BoundaryReport> boundaries_;
  std::uint64_t links_ = 0;
  std::uint64_t tensors_ = 0;
  std::uint64_t proofs_checked_ = 0;
  // By stage, then by producer: the roots of its data.
  std::vector<std::map<std::string, std::set<Digest>>> data_;
  std::uint64_t data_checked_ = 0;
};

// Keys come from the roster, by the signers' names; the opening only says who is meant.
void Verification::check_signers(const Roster& roster) {
  std::size_t replaced = 0;
  std::string first;
  for (StageReport& report : reports_) {
    const PublicKey* known = roster.find(report.signer);
    report.known = known != nullptr && *known == report.key;
    if (known == nullptr || report.known) continue;
    ++replaced;
    if (first.empty()) {
      first = format("stage '{}' is signed with key {} and the roster has {} for '{}'",
                     report.stage, key_text(report.key), key_text(*known), report.signer);
    }
  }
  if (replaced == 0) return;
  const bool all = replaced == reports_.size();
  fail_custody(all && replaced > 1 ? Breach::kResigned : Breach::kSubstitutedKey, "{}", first);
}

// A link that comes before its turn is out of order if the one that was due comes later, and
// missing if it does not.
void require_order(const Chain& chain) {
  struct Turn {
    std::uint64_t expected = 1;
    std::set<std::uint64_t> early;
  };
  std::map<std::pair<std::uint16_t, FlowName>, Turn> turns;
  for (const ChainRecord& record : chain.records) {
    if (record.kind != RecordKind::kLink) continue;
    const Link link = decode_link(record.body);
    Turn& turn = turns[{record.stage, FlowName(link.passage.boundary, link.passage.direction)}];
    if (link.sequence > turn.expected) turn.early.insert(link.sequence);
    if (link.sequence != turn.expected) continue;
    if (!turn.early.empty()) {
      fail_custody(Breach::kReorder, "{}: link {} of stage '{}' stands after link {}",
                   passage_text(link.passage), link.sequence,
                   chain.opening.stages[record.stage].stage, *turn.early.begin());
    }
    ++turn.expected;
  }
}

void Verification::take_all(const Chain& chain) {
  require_order(chain);
  for (const ChainRecord& record : chain.records) take(record);
}

void Verification::take(const ChainRecord& record) {
  StageTrail& trail = trails_[record.stage];
  std::optional<Bytes>& waiting = proofs_[record.stage];
  if (waiting && record.kind != RecordKind::kLink) {
    fail_custody(Breach::kWrongProof, "a proof of stage '{}' belongs to no link", trail.stage());
  }
  if (waiting_[record.stage] && record.kind != RecordKind::kWeights) {
    fail_custody(Breach::kWrongWeights, "commitments of stage '{}' belong to no weights",
                 trail.stage());
  }
  switch (record.kind) {
    case RecordKind::kLink: take_link(record.stage, decode_link(record.body)); break;
    case RecordKind::kReceipt: {
      const Receipt receipt = decode_receipt(record.body);
      trail.take(receipt);
      received_[{receipt.passage.boundary, receipt.passage.direction}].push_back(
          {receipt.link, receipt.root, passage_text(receipt.passage)});
      ++reports_[record.stage].received;
      break;
    }
    case RecordKind::kWeights: take_weights(record.stage, decode_weight_mark(record.body)); break;
    case RecordKind::kLayers: trail.take(decode_layer_mark(record.body)); break;
    case RecordKind::kHead: take_head(record.stage, record.body); break;
    case RecordKind::kProof: waiting = record.body; break;
    case RecordKind::kCommitments: waiting_[record.stage] = record.body; break;
    case RecordKind::kOpening: fail_custody(Breach::kMalformed, "a second opening");
  }
}

void Verification::take_weights(std::uint16_t stage, const WeightMark& mark) {
  trails_[stage].take(mark);
  ++reports_[stage].weight_marks;
  reports_[stage].weights.push_back(mark);
  std::optional<Bytes> commitments = std::exchange(waiting_[stage], std::nullopt);
  if (commitments && sha256(*commitments) != mark.root) {
    fail_custody(Breach::kWrongWeights, "the commitments of stage '{}' are not those it announced",
                 trails_[stage].stage());
  }
  commitments_[stage] = std::move(commitments).value_or(Bytes());
}

void Verification::take_link(std::uint16_t stage, const Link& link) {
  const Digest digest = trails_[stage].take(link);
  sent_[{link.passage.boundary, link.passage.direction}].push_back(
      {digest, link.root, passage_text(link.passage)});
  ++links_;
  ++reports_[stage].sent;
  note_boundary(link);
  note_data(stage, link);
  check_tensor(link);
  check_proof(stage, link, std::exchange(proofs_[stage], std::nullopt).value_or(Bytes()));
}

void Verification::note_data(std::uint16_t stage, const Link& link) {
  for (const LinkInput& input : link.inputs) {
    if (input.source != LinkInput::Source::kData) continue;
    if (!data_[stage][input.name].insert(input.root).second || !options_.data) continue;
    if (!options_.data(input.name, input.root)) {
      fail_custody(
          Breach::kWrongInput,
          "{}: link {} of stage '{}' was made from data of producer '{}' with the root {}, "
          "which the data at hand does not have",
          passage_text(link.passage), link.sequence, trails_[stage].stage(), input.name,
          digest_text(input.root));
    }
    ++data_checked_;
  }
}

std::vector<DataReport> Verification::data_of(std::size_t stage) const {
  std::vector<DataReport> all;
  for (const auto& [producer, roots] : data_[stage]) {
    MerkleTree tree;
    for (const Digest& root : roots) tree.append(root);
    all.push_back({producer, roots.size(), tree.root()});
  }
  return all;
}

void Verification::check_tensor(const Link& link) {
  if (!options_.tensor) return;
  const std::optional<Bytes> bytes = options_.tensor(link);
  if (!bytes) return;
  if (tensor_root(*bytes) != link.root) {
    fail_custody(Breach::kFlippedTensor, "{}: the tensor's bytes are not those of link {}",
                 passage_text(link.passage), link.sequence);
  }
  ++tensors_;
}

void Verification::check_proof(std::uint16_t stage, const Link& link, Bytes proof) {
  if (link.proof == Digest{} && proof.empty()) {
    if (commitments_[stage].empty()) return;
    fail_custody(Breach::kWrongProof,
                 "{}: link {} has no proof, though its stage has committed to its weights",
                 passage_text(link.passage), link.sequence);
  }
  if (proof.empty() || sha256(proof) != link.proof) {
    fail_custody(Breach::kWrongProof, "{}: the proof in the chain is not the one of link {}",
                 passage_text(link.passage), link.sequence);
  }
  if (!options_.proof) {
    fail_custody(Breach::kWrongProof, "{}: link {} has a proof that cannot be checked here",
                 passage_text(link.passage), link.sequence);
  }
  options_.proof(link, proof, commitments_[stage]);
  ++proofs_checked_;
}

void Verification::take_head(std::uint16_t stage, ByteSpan body) {
  if (body.size() <= sizeof(Signature)) {
    fail_custody(Breach::kMalformed, "a head without its signature");
  }
  Signature signature;
  std::ranges::copy(body.last(signature.size()), signature.begin());
  const Head head = decode_head(body.first(body.size() - signature.size()));
  heads_[stage].push_back(trails_[stage].take(head, signature));
  for (const SeenHead& seen : head.seen) seen_.emplace_back(stage, seen);
}

void Verification::note_boundary(const Link& link) {
  BoundaryReport& report = boundaries_[link.passage.boundary];
  const bool forward = link.passage.direction == Direction::kForward;
  if (forward && report.forward == 0) {
    report.dtype = link.dtype;
    report.shape = link.shape;
  }
  ++(forward ? report.forward : report.backward);
}

// Every link was received, by the one it was for, as it was sent.
void Verification::match_flows() const {
  static const std::vector<HandOver> none;
  for (const BoundaryEntry& boundary : opening_.boundaries) {
    for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
      const FlowName name(boundary.name, direction);
      const auto sent_at = sent_.find(name);
      const auto received_at = received_.find(name);
      const auto& sent = sent_at == sent_.end() ? none : sent_at->second;
      const auto& received = received_at == received_.end() ? none : received_at->second;
      for (std::size_t i = 0; i < std::min(sent.size(), received.size()); ++i) {
        if (sent[i].link == received[i].link && sent[i].root == received[i].root) continue;
        fail_custody(Breach::kFork, "{}: stage '{}' received another link {} than '{}' sent",
                     sent[i].where, receiver_of(boundary, direction), i + 1,
                     sender_of(boundary, direction));
      }
      if (sent.size() > received.size()) {
        fail_custody(Breach::kDrop, "{}: link {} was sent and never received by stage '{}'",
                     sent[received.size()].where, received.size() + 1,
                     receiver_of(boundary, direction));
      }
      if (received.size() > sent.size()) {
        fail_custody(Breach::kRollback,
                     "{}: stage '{}' received link {}, of which stage '{}' knows nothing",
                     received[sent.size()].where, receiver_of(boundary, direction), sent.size() + 1,
                     sender_of(boundary, direction));
      }
    }
  }
}

// What others have seen of a stage's history is its history.
void Verification::match_heads() const {
  for (const auto& [witness, seen] : seen_) {
    const StageEntry* entry = opening_.stage(seen.stage);
    if (entry == nullptr) {
      fail_custody(Breach::kAltered, "stage '{}' has seen a head of '{}', which is no stage",
                   trails_[witness].stage(), seen.stage);
    }
    const auto& heads = heads_[static_cast<std::size_t>(entry - opening_.stages.data())];
    if (seen.number == 0 || seen.number > heads.size()) {
      fail_custody(Breach::kRollback, "stage '{}' has seen head {} of stage '{}', which ends at {}",
                   trails_[witness].stage(), seen.number, seen.stage, heads.size());
    }
    if (heads[seen.number - 1] != seen.head) {
      fail_custody(Breach::kFork, "stage '{}' has seen another head {} of stage '{}'",
                   trails_[witness].stage(), seen.number, seen.stage);
    }
  }
}

// A stage that left nothing at all: most likely its file was forgotten.
void Verification::require_all_stages() const {
  for (const StageTrail& trail : trails_) {
    if (trail.entries() > 0 || trail.heads() > 0) continue;
    fail_custody(Breach::kTruncated,
                 "there is nothing of stage '{}': give the files of all stages of the run",
                 trail.stage());
  }
}

void Verification::finish() {
  require_all_stages();
  match_heads();
  for (std::size_t i = 0; i < trails_.size(); ++i) {
    reports_[i].heads = heads_[i].size();
    if (proofs_[i]) {
      fail_custody(Breach::kWrongProof, "a proof of stage '{}' belongs to no link",
                   trails_[i].stage());
    }
    if (waiting_[i]) {
      fail_custody(Breach::kWrongWeights, "commitments of stage '{}' belong to no weights",
                   trails_[i].stage());
    }
    if (trails_[i].closed()) continue;
    fail_custody(
        Breach::kTruncated,
        "stage '{}' has no closing head (its last is {}): the end of the chain is missing, "
        "the file of this stage was not given, or the run did not end",
        trails_[i].stage(), trails_[i].heads());
  }
  match_flows();
}

VerifyReport Verification::report() const {
  VerifyReport report;
  report.run = run_;
  report.stages = reports_;
  for (std::size_t i = 0; i < report.stages.size(); ++i) report.stages[i].data = data_of(i);
  for (const BoundaryEntry& boundary : opening_.boundaries) {
    const auto found = boundaries_.find(boundary.name);
    report.boundaries.push_back(found == boundaries_.end() ? BoundaryReport{} : found->second);
    report.boundaries.back().boundary = boundary;
  }
  report.links = links_;
  report.tensors_checked = tensors_;
  report.proofs_checked = proofs_checked_;
  report.data_checked = data_checked_;
  report.signers_known = std::ranges::all_of(reports_, &StageReport::known);
  return report;
}

}  // namespace

VerifyReport verify_chain(std::span<const Chain> chains, const Roster& roster,
                          const VerifyOptions& options) {
  if (chains.empty()) fail(ErrorCode::kInvalidArgument, "there is no chain to verify");
  const Opening& opening = chains.front().opening;
  Verification verification(opening, options);
  verification.check_signers(roster);
  for (const Chain& chain : chains) {
    if (chain.opening != opening) {
      fail_custody(Breach::kOtherRun, "the chain files are of different runs");
    }
    verification.take_all(chain);
  }
  verification.finish();
  return verification.report();
}

}  // namespace harmonics::inline in_custody
