#include <harmonics/custody/custody_log.h>

#include <algorithm>
#include <cstring>

#include <harmonics/base/error.h>
#include <harmonics/base/number_text.h>
#include <harmonics/custody/breach.h>

#include <harmonics/custody/canonical.h>

namespace harmonics::inline in_custody {
namespace {

// What travels with a tensor: the link, its signature, and the sender's latest head, signed.
struct Attachment {
  Bytes link;
  Signature signature{};
  Bytes head;  // empty: the sender has none yet
  Signature head_signature{};
};

constexpr std::uint8_t kAttachmentVersion = 1;
constexpr std::size_t kMaxRecordInAttachment = 60 << 10;

Signature read_signature(CanonicalReader& in) {
  Signature signature;
  std::memcpy(signature.data(), in.raw(signature.size()).data(), signature.size());
  return signature;
}

Bytes read_block(CanonicalReader& in) {
  const auto size = in.number<std::uint32_t>();
  if (size > kMaxRecordInAttachment) in.broken("a record is too large");
  const ByteSpan raw = in.raw(size);
  return {raw.begin(), raw.end()};
}

Attachment decode_attachment(ByteSpan bytes) {
  return decode_canonical(bytes, "custody attachment", [](CanonicalReader& in) {
    Attachment read;
    (void)in.choice(kAttachmentVersion, kAttachmentVersion, "a known version");
    read.link = read_block(in);
    read.signature = read_signature(in);
    read.head = read_block(in);
    if (!read.head.empty()) read.head_signature = read_signature(in);
    return read;
  });
}

void require_signature(const StageEntry& entry, ByteSpan text, const Signature& signature,
                       const std::string& what) {
  if (verify_signature(entry.key, text, signature)) return;
  fail_custody(Breach::kSubstitutedKey,
               "{} is not signed with the key that the run's roster has for stage '{}' (signer "
               "'{}'), or was changed on the way",
               what, entry.stage, entry.signer);
}

// What is signed for a link that travels: also what else the message holds.
Bytes travelling_text(const Digest& link, ByteSpan along) {
  Bytes text = signed_text(kLinkPurpose, link);
  if (along.empty()) return text;
  const Digest rest = sha256(along);
  text.insert(text.end(), rest.begin(), rest.end());
  return text;
}

Digest proof_digest(ByteSpan proof) { return proof.empty() ? Digest{} : sha256(proof); }

Opening with_key(Opening opening, const std::string& stage, const SigningKey& key) {
  opening = checked_opening(std::move(opening));
  const StageEntry* entry = opening.stage(stage);
  if (entry == nullptr) {
    fail(ErrorCode::kInvalidArgument, "'{}' is no stage of the run's opening", stage);
  }
  if (entry->key != key.public_key()) {
    fail(ErrorCode::kInvalidArgument, "the opening has another key for stage '{}' than key '{}'",
         stage, key.name());
  }
  return opening;
}

}  // namespace

CustodyLog::CustodyLog(Opening opening, std::string stage, SigningKey key,
                       std::shared_ptr<ChainWriter> writer)
    : opening_(with_key(std::move(opening), stage, key)),
      run_(opening_digest(encode(opening_))),
      key_(std::move(key)),
      writer_(std::move(writer)),
      stage_(static_cast<std::uint16_t>(opening_.stage(stage) - opening_.stages.data())),
      trail_(opening_, run_, std::move(stage)) {}

void CustodyLog::keep(RecordKind kind, Bytes body) {
  if (step_.size() == kMaxStepRecords) {
    fail(ErrorCode::kResourceExhausted,
         "stage '{}' has more than {} custody records in one step: end_step was not called",
         trail_.stage(), kMaxStepRecords);
  }
  step_.push_back({kind, stage_, std::move(body)});
}

void CustodyLog::weights(std::uint64_t step, const Digest& root) {
  const WeightMark mark{step, root};
  trail_.take(mark);
  keep(RecordKind::kWeights, encode(mark));
}

void CustodyLog::layers(const LayerMark& mark) {
  for (const LayerRoot& layer : mark.layers) {
    if (!layer.layer.empty() && layer.layer.size() <= kMaxCustodyName) continue;
    fail(ErrorCode::kInvalidArgument, "the name '{}' of a layer has not 1 to {} bytes", layer.layer,
         kMaxCustodyName);
  }
  trail_.take(mark);
  keep(RecordKind::kLayers, encode(mark));
}

void CustodyLog::committed_weights(std::uint64_t step, ByteSpan commitments) {
  keep(RecordKind::kCommitments, Bytes(commitments.begin(), commitments.end()));
  weights(step, sha256(commitments));
}

Digest CustodyLog::context_of(const Passage& passage) const {
  return proof_context(run_, opening_.stages[stage_].graph, passage);
}

void CustodyLog::data(const std::string& producer, std::uint32_t micro_batch,
                      const TensorView& tensor) {
  data_[micro_batch].insert({LinkInput::Source::kData, producer, tensor_root(tensor.bytes)});
}

Bytes CustodyLog::sign_outgoing(const Passage& passage, const TensorView& tensor, ByteSpan proof,
                                ByteSpan along) {
  const Flow flow = trail_.flow(passage.boundary, passage.direction, true);
  Link link;
  link.run = run_;
  link.graph = opening_.stages[stage_].graph;
  link.passage = passage;
  link.sequence = flow.count + 1;
  link.dtype = tensor.dtype;
  link.shape.assign(tensor.shape.begin(), tensor.shape.end());
  link.root = tensor_root(tensor.bytes);
  std::set<LinkInput> inputs = trail_.received(passage.micro_batch);
  inputs.merge(std::set<LinkInput>(data_[passage.micro_batch]));
  link.inputs.assign(inputs.begin(), inputs.end());
  link.weights = trail_.weights().root;
  link.weights_step = trail_.weights().step;
  link.previous = flow.last;
  link.proof = proof_digest(proof);
  const Digest digest = trail_.take(link);
  if (!proof.empty()) keep(RecordKind::kProof, Bytes(proof.begin(), proof.end()));
  Bytes encoded = encode(link);
  ByteWriter out;
  out.number(kAttachmentVersion);
  out.number(static_cast<std::uint32_t>(encoded.size()));
  out.raw(encoded);
  out.raw(key_.sign(travelling_text(digest, along)));
  out.number(static_cast<std::uint32_t>(head_.size() - std::min(head_.size(), sizeof(Signature))));
  out.raw(head_);
  keep(RecordKind::kLink, std::move(encoded));
  return out.take();
}

Link CustodyLog::check_incoming(const Passage& due, const TensorView& tensor, ByteSpan attachment,
                                ByteSpan proof, ByteSpan along) {
  const BoundaryEntry* boundary = opening_.boundary(due.boundary);
  if (boundary == nullptr || receiver_of(*boundary, due.direction) != trail_.stage()) {
    fail(ErrorCode::kInvalidArgument, "{}: stage '{}' receives nothing there", passage_text(due),
         trail_.stage());
  }
  if (attachment.empty()) {
    fail_custody(Breach::kDrop, "{}: the tensor came without its link", passage_text(due));
  }
  const std::string& sender = sender_of(*boundary, due.direction);
  const Attachment came = decode_attachment(attachment);
  const Link link = decode_link(came.link);
  if (link.run != run_) {
    fail_custody(Breach::kOtherRun, "{}: the link belongs to another run", passage_text(due));
  }
  const Digest digest = link_digest(came.link);
  require_signature(*opening_.stage(sender), travelling_text(digest, along), came.signature,
                    passage_text(due) + ": the link");
  if (!came.head.empty()) check_head(due, came.head, came.head_signature, sender);
  check_link(due, link, tensor, proof);
  const Receipt receipt{due, link.sequence, digest, link.root};
  trail_.take(receipt);
  keep(RecordKind::kReceipt, encode(receipt));
  return link;
}

void CustodyLog::check_head(const Passage& due, ByteSpan encoded, const Signature& signature,
                            const std::string& sender) {
  const Digest digest = head_digest(encoded);
  SeenHead& seen = seen_[sender];
  if (seen.number != 0 && seen.head == digest) return;
  const Head head = decode_head(encoded);
  require_signature(*opening_.stage(sender), signed_text(kHeadPurpose, digest), signature,
                    passage_text(due) + ": the head");
  if (head.run != run_ || head.stage != sender) {
    fail_custody(Breach::kOtherRun, "{}: the head is of {}", passage_text(due),
                 head.run != run_ ? "another run" : "stage '" + head.stage + "'");
  }
  if (head.number < seen.number) {
    fail_custody(Breach::kRollback, "{}: stage '{}' went back from head {} to head {}",
                 passage_text(due), sender, seen.number, head.number);
  }
  const bool follows = head.number == seen.number + 1;
  if (head.number == seen.number ||
      (follows && head.previous != (seen.number == 0 ? run_ : seen.head))) {
    fail_custody(Breach::kFork, "{}: stage '{}' shows another history: its head {} {}",
                 passage_text(due), sender, head.number,
                 follows ? "does not follow the one seen before" : "is not the one seen before");
  }
  check_flows(due, head, sender);
  seen = {sender, head.number, digest};
}

// Both sides' accounts of one boundary must agree as far as both go.
void CustodyLog::check_flows(const Passage& due, const Head& head,
                             const std::string& sender) const {
  for (const Flow& theirs : head.flows) {
    if (theirs.boundary != due.boundary) continue;
    const Flow ours = trail_.flow(theirs.boundary, theirs.direction, !theirs.sent);
    if (theirs.count > ours.count) {
      fail_custody(Breach::kDrop, "{}: by its head {} stage '{}' has {} {} links {}, here it is {}",
                   passage_text(due), head.number, sender, theirs.sent ? "sent" : "received",
                   theirs.count, direction_name(theirs.direction), ours.count);
    }
    if (theirs.count == ours.count && theirs.last != ours.last) {
      fail_custody(Breach::kFork, "{}: by its head {} stage '{}' {} another link {} than this",
                   passage_text(due), head.number, sender, theirs.sent ? "sent" : "received",
                   theirs.count);
    }
  }
}

void CustodyLog::check_link(const Passage& due, const Link& link, const TensorView& tensor,
                            ByteSpan proof) const {
  const std::string where = passage_text(due);
  const Passage& is = link.passage;
  if (is.boundary != due.boundary || is.direction != due.direction) {
    fail_custody(Breach::kSwappedBoundary, "{}: a link of {} came", where, passage_text(is));
  }
  const Flow flow = trail_.flow(due.boundary, due.direction, false);
  if (link.sequence <= flow.count) {
    fail_custody(Breach::kReplay, "{}: link {} ({}) came again", where, link.sequence,
                 passage_text(is));
  }
  if (link.sequence != flow.count + 1) {
    fail_custody(Breach::kReorder, "{}: link {} ({}) came before link {}, which was held back",
                 where, link.sequence, passage_text(is), flow.count + 1);
  }
  if (link.previous != flow.last) {
    fail_custody(Breach::kFork, "{}: link {} follows another link {} than the one that came", where,
                 link.sequence, flow.count);
  }
  if (is != due) {
    fail_custody(Breach::kReorder, "{}: a link of {} came", where, passage_text(is));
  }
  if (link.dtype != tensor.dtype || !std::ranges::equal(link.shape, tensor.shape)) {
    fail_custody(Breach::kFlippedTensor, "{}: the tensor has another dtype or shape than its link",
                 where);
  }
  if (link.root != tensor_root(tensor.bytes)) {
    fail_custody(Breach::kFlippedTensor,
                 "{}: the tensor's bytes are not those of link {}: they were changed on the way",
                 where, link.sequence);
  }
  if (link.proof != proof_digest(proof)) {
    fail_custody(Breach::kWrongProof, "{}: the proof that came is not the one of link {}", where,
                 link.sequence);
  }
}

void CustodyLog::sign_head(bool closing) {
  Head head = trail_.next_head(closing);
  for (const auto& [stage, seen] : seen_) {
    if (seen.number != 0) head.seen.push_back(seen);
  }
  Bytes encoded = encode(head);
  const Digest digest = head_digest(encoded);
  const Signature signature = key_.sign(signed_text(kHeadPurpose, digest));
  trail_.take_own(head, digest);
  encoded.insert(encoded.end(), signature.begin(), signature.end());
  head_ = encoded;
  keep(RecordKind::kHead, std::move(encoded));
  if (writer_ != nullptr) writer_->append(step_);
  step_.clear();
  data_.clear();
}

void CustodyLog::end_step() { sign_head(false); }

void CustodyLog::close() {
  sign_head(true);
  if (writer_ != nullptr) writer_->sync();
}

std::string CustodyLog::proof() const {
  const ByteSpan signature = head_.empty() ? ByteSpan() : ByteSpan(head_).last(sizeof(Signature));
  return format("harmonics-custody-1:{}:{}:{}:{}:{}", digest_text(run_), trail_.stage(),
                trail_.heads(), digest_text(trail_.last_head()), to_hex(signature));
}

Bytes CustodyLog::save() const {
  ByteWriter out;
  const Bytes trail = trail_.save();
  out.number(static_cast<std::uint32_t>(trail.size()));
  out.raw(trail);
  out.number(static_cast<std::uint32_t>(seen_.size()));
  for (const auto& [stage, seen] : seen_) {
    out.text(stage);
    out.number(seen.number);
    out.raw(seen.head);
  }
  out.raw(head_);
  return out.take();
}

void CustodyLog::restore(ByteSpan bytes) {
  decode_canonical(bytes, "saved custody", [&](CanonicalReader& in) {
    trail_.restore(in.raw(in.number<std::uint32_t>()));
    seen_.clear();
    for (const SeenHead& seen : in.list<SeenHead>(kMaxCustodyStages, 44, [&] {
           SeenHead read;
           read.stage = in.name();
           read.number = in.number<std::uint64_t>();
           read.head = in.digest();
           return read;
         })) {
      seen_[seen.stage] = seen;
    }
    const ByteSpan head = in.raw(in.left());
    head_.assign(head.begin(), head.end());
    return true;
  });
  step_.clear();
  data_.clear();
}

WeightMark saved_weights(const Opening& opening, const std::string& stage, ByteSpan saved) {
  return decode_canonical(saved, "saved custody", [&](CanonicalReader& in) {
    StageTrail trail(opening, opening_digest(encode(opening)), stage);
    trail.restore(in.raw(in.number<std::uint32_t>()));
    static_cast<void>(in.raw(in.left()));
    return trail.weights();
  });
}

ProofLine parse_proof_line(std::string_view text) {
  std::vector<std::string> fields;
  std::size_t at = 0;
  // A stage's name may hold colons; everything else may not.
  for (std::size_t colon; (colon = text.find(':', at)) != std::string_view::npos; at = colon + 1) {
    fields.emplace_back(text.substr(at, colon - at));
  }
  fields.emplace_back(text.substr(at));
  ProofLine line;
  const auto bad = [&] {
    fail(ErrorCode::kInvalidArgument, "'{}' is no proof line of a custody log", text);
  };
  if (fields.size() < 6 || fields[0] != "harmonics-custody-1") bad();
  const std::size_t last = fields.size() - 1;
  line.run = fields[1];
  line.stage = fields[2];
  for (std::size_t i = 3; i < last - 2; ++i) line.stage += ":" + fields[i];
  const auto number = number_from<std::uint64_t>(fields[last - 2]);
  if (!number) bad();
  line.number = *number;
  line.head = fields[last - 1];
  line.signature = fields[last];
  return line;
}

}  // namespace harmonics::inline in_custody
