#include <harmonics/custody/stage_trail.h>

#include <algorithm>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/custody/breach.h>

#include <harmonics/custody/canonical.h>

namespace harmonics::inline in_custody {
namespace {

LinkInput::Source source_of(Direction direction) {
  return direction == Direction::kForward ? LinkInput::Source::kForward
                                          : LinkInput::Source::kBackward;
}

std::set<LinkInput> without_data(const std::vector<LinkInput>& inputs) {
  std::set<LinkInput> received(inputs.begin(), inputs.end());
  std::erase_if(received,
                [](const LinkInput& input) { return input.source == LinkInput::Source::kData; });
  return received;
}

}  // namespace

const std::string& sender_of(const BoundaryEntry& boundary, Direction direction) {
  return direction == Direction::kForward ? boundary.from : boundary.to;
}

const std::string& receiver_of(const BoundaryEntry& boundary, Direction direction) {
  return direction == Direction::kForward ? boundary.to : boundary.from;
}

StageTrail::StageTrail(const Opening& opening, const Digest& run, std::string stage)
    : opening_(&opening), run_(run), stage_(std::move(stage)), last_head_(run) {
  if (opening.stage(stage_) == nullptr) {
    fail(ErrorCode::kInvalidArgument, "'{}' is no stage of the run", stage_);
  }
}

void StageTrail::require_open() const {
  if (closed_) {
    fail_custody(Breach::kAltered, "stage '{}' goes on after its closing head", stage_);
  }
}

void StageTrail::require_end(const Passage& passage, bool sender) const {
  const BoundaryEntry* boundary = opening_->boundary(passage.boundary);
  if (boundary != nullptr && (sender ? sender_of(*boundary, passage.direction)
                                     : receiver_of(*boundary, passage.direction)) == stage_) {
    return;
  }
  fail_custody(Breach::kSwappedBoundary, "{}: stage '{}' does not {} over this boundary",
               passage_text(passage), stage_, sender ? "send" : "receive");
}

void StageTrail::advance(const Passage& passage, bool sent, std::uint64_t sequence,
                         const Digest& link) {
  FlowState& flow = flows_[{passage.boundary, passage.direction, sent}];
  if (sequence <= flow.count) {
    fail_custody(Breach::kReplay, "{}: link {} was {} by stage '{}' before", passage_text(passage),
                 sequence, sent ? "sent" : "received", stage_);
  }
  if (sequence != flow.count + 1) {
    fail_custody(Breach::kDrop, "{}: link {} of stage '{}' is missing, link {} came in its place",
                 passage_text(passage), flow.count + 1, stage_, sequence);
  }
  flow = {sequence, link};
}

Digest StageTrail::take(const Link& link) {
  require_open();
  if (link.run != run_ || link.graph != opening_->stage(stage_)->graph) {
    fail_custody(Breach::kOtherRun, "{}: the link of stage '{}' belongs to another {}",
                 passage_text(link.passage), stage_, link.run != run_ ? "run" : "graph");
  }
  require_end(link.passage, true);
  const Digest before = flow(link.passage.boundary, link.passage.direction, true).last;
  const Digest digest = link_digest(encode(link));
  advance(link.passage, true, link.sequence, digest);
  if (link.previous != before) {
    fail_custody(Breach::kAltered, "{}: link {} of stage '{}' does not follow the link before it",
                 passage_text(link.passage), link.sequence, stage_);
  }
  if (without_data(link.inputs) != received(link.passage.micro_batch)) {
    fail_custody(Breach::kWrongInput,
                 "{}: link {} of stage '{}' was not made from what the stage received",
                 passage_text(link.passage), link.sequence, stage_);
  }
  if (link.weights != weights_.root || link.weights_step != weights_.step) {
    fail_custody(Breach::kWrongWeights,
                 "{}: link {} of stage '{}' names weights that the stage did not announce",
                 passage_text(link.passage), link.sequence, stage_);
  }
  log_.append(digest);
  return digest;
}

void StageTrail::take(const Receipt& receipt) {
  require_open();
  require_end(receipt.passage, false);
  advance(receipt.passage, false, receipt.sequence, receipt.link);
  received_[receipt.passage.micro_batch].insert(
      {source_of(receipt.passage.direction), receipt.passage.boundary, receipt.root});
  log_.append(receipt_digest(encode(receipt)));
}

void StageTrail::take(const WeightMark& mark) {
  require_open();
  if (mark.step < weights_.step) {
    fail_custody(Breach::kWrongWeights, "stage '{}' announces weights of step {} after step {}",
                 stage_, mark.step, weights_.step);
  }
  weights_ = mark;
  log_.append(weight_mark_digest(encode(mark)));
}

void StageTrail::take(const LayerMark& mark) {
  require_open();
  log_.append(layer_mark_digest(encode(mark)));
}

void StageTrail::check_seen(const Head& head) const {
  for (const auto& [stage, before] : seen_) {
    const auto now =
        std::ranges::find_if(head.seen, [&](const SeenHead& s) { return s.stage == stage; });
    if (now == head.seen.end() || now->number < before.number) {
      fail_custody(Breach::kRollback, "head {} of stage '{}' forgets head {} of stage '{}'",
                   head.number, stage_, before.number, stage);
    }
    if (now->number == before.number && now->head != before.head) {
      fail_custody(Breach::kFork, "stage '{}' has seen two heads {} of stage '{}'", stage_,
                   before.number, stage);
    }
  }
}

Digest StageTrail::take(const Head& head, const Signature& signature) {
  require_open();
  if (head.run != run_ || head.stage != stage_) {
    fail_custody(Breach::kOtherRun, "head {} among the records of stage '{}' is of {}", head.number,
                 stage_, head.run != run_ ? "another run" : "stage '" + head.stage + "'");
  }
  if (head.number <= heads_) {
    fail_custody(Breach::kRollback, "stage '{}' signs head {} after head {}", stage_, head.number,
                 heads_);
  }
  if (head.number != heads_ + 1) {
    fail_custody(Breach::kDrop, "head {} of stage '{}' is missing", heads_ + 1, stage_);
  }
  if (head.previous != last_head_) {
    fail_custody(Breach::kFork, "head {} of stage '{}' follows another head {} than this one",
                 head.number, stage_, heads_);
  }
  const Head due = next_head(head.closing);
  if (head.entries != due.entries || head.log_root != due.log_root || head.flows != due.flows) {
    fail_custody(Breach::kAltered,
                 "the records of stage '{}' up to head {} are not those that it signed", stage_,
                 head.number);
  }
  check_seen(head);
  const Digest digest = head_digest(encode(head));
  const StageEntry& entry = *opening_->stage(stage_);
  if (!verify_signature(entry.key, signed_text(kHeadPurpose, digest), signature)) {
    fail_custody(Breach::kSubstitutedKey,
                 "head {} of stage '{}' is not signed with the key of its signer '{}'", head.number,
                 stage_, entry.signer);
  }
  adopt(head, digest);
  return digest;
}

void StageTrail::take_own(const Head& head, const Digest& digest) {
  require_open();
  check_seen(head);
  adopt(head, digest);
}

void StageTrail::adopt(const Head& head, const Digest& digest) {
  for (const SeenHead& seen : head.seen) seen_[seen.stage] = seen;
  heads_ = head.number;
  last_head_ = digest;
  closed_ = head.closing;
  signed_entries_ = log_.size();
  received_.clear();
}

Head StageTrail::next_head(bool closing) const {
  Head head;
  head.run = run_;
  head.stage = stage_;
  head.number = heads_ + 1;
  head.closing = closing;
  head.entries = log_.size();
  head.log_root = log_.root();
  head.previous = last_head_;
  for (const auto& [key, state] : flows_) {
    head.flows.push_back({key.boundary, key.direction, key.sent, state.count, state.last});
  }
  return head;
}

Flow StageTrail::flow(const std::string& boundary, Direction direction, bool sent) const {
  const auto found = flows_.find({boundary, direction, sent});
  if (found == flows_.end()) return {boundary, direction, sent, 0, {}};
  return {boundary, direction, sent, found->second.count, found->second.last};
}

std::set<LinkInput> StageTrail::received(std::uint32_t micro_batch) const {
  const auto found = received_.find(micro_batch);
  return found == received_.end() ? std::set<LinkInput>() : found->second;
}

Bytes StageTrail::save() const {
  if (unsigned_entries() != 0) {
    fail(ErrorCode::kFailedPrecondition, "stage '{}' cannot be saved inside a step", stage_);
  }
  ByteWriter out;
  out.raw(run_);
  out.text(stage_);
  out.number(heads_);
  out.raw(last_head_);
  out.number(static_cast<std::uint8_t>(closed_));
  out.raw(encode(weights_));
  out.number(log_.size());
  out.number(static_cast<std::uint32_t>(log_.peaks().size()));
  for (const Digest& peak : log_.peaks()) out.raw(peak);
  Head tail = next_head(false);
  for (const auto& [stage, seen] : seen_) tail.seen.push_back(seen);
  out.raw(encode(tail));
  return out.take();
}

void StageTrail::restore(ByteSpan bytes) {
  decode_canonical(bytes, "saved custody", [&](CanonicalReader& in) {
    if (in.digest() != run_ || in.name() != stage_) {
      fail_custody(Breach::kOtherRun, "the saved custody is not of stage '{}' in this run", stage_);
    }
    heads_ = in.number<std::uint64_t>();
    last_head_ = in.digest();
    closed_ = in.choice(0, 1, "a flag") == 1;
    weights_.step = in.number<std::uint64_t>();
    weights_.root = in.digest();
    const auto size = in.number<std::uint64_t>();
    log_ = MerkleTree::from_peaks(size, in.list<Digest>(64, 32, [&] { return in.digest(); }));
    const Head tail = decode_head(in.raw(in.left()));
    flows_.clear();
    for (const Flow& flow : tail.flows) {
      flows_[{flow.boundary, flow.direction, flow.sent}] = {flow.count, flow.last};
    }
    seen_.clear();
    for (const SeenHead& seen : tail.seen) seen_[seen.stage] = seen;
    return true;
  });
  signed_entries_ = log_.size();
  received_.clear();
}

}  // namespace harmonics::inline in_custody
