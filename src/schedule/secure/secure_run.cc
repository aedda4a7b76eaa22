#include <harmonics/schedule/secure_run.h>

#include <algorithm>
#include <exception>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>
#include <harmonics/graph/blob.h>

#include "secure_replicas.h"

namespace harmonics::inline in_schedule {
namespace {

std::uint64_t steps_of(const StageRow& row) {
  return static_cast<std::uint64_t>(row.state().steps);
}

SecurePart secure_part(const StageRow& row, const HarmonicGraph& part, const SigningKey& key) {
  SecurePart made{part.name(), key.name(), key.public_key(), sha256(encode_graph(part)), {}};
  for (const ConsumerNode& node : part.consumers()) {
    const auto leaves = std::ranges::find(row.consumers(), node.name, &ConsumerNode::name);
    if (leaves != row.consumers().end()) made.outputs.push_back(node.name);
  }
  return made;
}

const Stage& stage_of(std::span<const Stage> stages, std::size_t part) {
  return stages[std::min(part, stages.size() - 1)];
}

}  // namespace

RunNonce new_run_nonce() {
  // A new key is as good a source of randomness as any.
  const PublicKey chance = SigningKey::make("nonce").public_key();
  RunNonce nonce;
  std::copy_n(chance.begin(), nonce.size(), nonce.begin());
  return nonce;
}

Opening make_opening(std::span<const SecurePart> parts, std::vector<BoundaryEntry> boundaries,
                     const RunNonce& nonce) {
  Opening opening;
  opening.nonce = nonce;
  opening.boundaries = std::move(boundaries);
  for (const SecurePart& part : parts) {
    opening.stages.push_back({part.stage, part.signer, part.key, part.graph});
    if (part.outputs.empty()) continue;
    const std::string reader = reader_of(part.stage);
    opening.stages.push_back({reader, part.signer, part.key, part.graph});
    for (const std::string& name : part.outputs) {
      opening.boundaries.push_back({output_boundary(part.stage, name), part.stage, reader});
    }
  }
  return checked_opening(std::move(opening));
}

std::filesystem::path key_folder(const SecureOptions& options) {
  return options.keys.empty() ? default_key_folder() : options.keys;
}

SigningKey signing_key(const SecureOptions& options) {
  return own_signing_key(key_folder(options), options.key);
}

SecureRun::SecureRun(SecureOptions options, SigningKey key, std::vector<SecurePart> parts)
    : options_(std::move(options)), key_(std::move(key)), parts_(std::move(parts)) {}

void SecureRun::restore(SavedCustody saved) {
  if (!custody_.empty()) {
    fail(ErrorCode::kFailedPrecondition,
         "a secure run has begun: load a checkpoint before its first step");
  }
  saved_ = std::move(saved);
  weights_replaced_ = false;
}

std::vector<CustodyLog*> SecureRun::logs() const {
  std::vector<CustodyLog*> all;
  for (const auto& part : custody_) {
    all.push_back(&part->log());
    if (part->reader() != nullptr) all.push_back(part->reader());
  }
  return all;
}

void SecureRun::make_logs() {
  for (const SecurePart& part : parts_) {
    const auto make = [&](const std::string& stage) {
      return std::make_unique<CustodyLog>(opening_, stage, key_, writer_);
    };
    custody_.push_back(std::make_unique<StageCustody>(
        make(part.stage), part.outputs.empty() ? nullptr : make(reader_of(part.stage)), options_));
  }
}

void SecureRun::begin() {
  if (!stopped_by_.empty()) {
    fail(ErrorCode::kFailedPrecondition,
         "this secure run has stopped ({}): make a new scheduler and go on from a checkpoint",
         stopped_by_);
  }
  if (closed_) {
    fail(ErrorCode::kFailedPrecondition, "the chain of this secure run is closed: nothing follows");
  }
  if (!custody_.empty()) return;
  if (can_go_on()) {
    take_saved();
    return;
  }
  if (!options_.chain.empty()) {
    if (options_.sets_aside) set_chain_aside(options_.chain);
    writer_ = std::make_shared<ChainWriter>(options_.chain, opening_);
  }
  make_logs();
}

// Whether the checkpoint is of this run: the same parts, keys and boundaries.
bool SecureRun::can_go_on() const {
  if (saved_.opening.empty()) return false;
  if (begins_anew_) {
    log_warn("schedule", "the checkpoint is of one of several replicas: another chain begins here");
    return false;
  }
  const Opening before = decode_opening(saved_.opening);
  const bool same = before.stages == opening_.stages && before.boundaries == opening_.boundaries &&
                    before.reproducible == opening_.reproducible &&
                    std::ranges::all_of(parts_, [&](const SecurePart& part) {
                      return saved_.logs.contains(part.stage) &&
                             (part.outputs.empty() || saved_.logs.contains(reader_of(part.stage)));
                    });
  if (!same) {
    log_warn(
        "schedule",
        "the checkpoint was made with other parts, keys or arithmetic: another chain begins here");
  }
  return same;
}

bool SecureRun::is_own(const std::string& stage) const {
  return std::ranges::any_of(parts_, [&](const SecurePart& part) {
    return stage == part.stage || (!part.outputs.empty() && stage == reader_of(part.stage));
  });
}

void SecureRun::take_saved() {
  opening_ = decode_opening(saved_.opening);
  if (!options_.chain.empty()) {
    std::map<std::string, ChainPosition> positions;
    for (const StageEntry& entry : opening_.stages) {
      if (!is_own(entry.stage)) continue;
      CustodyLog probe(opening_, entry.stage, key_);
      probe.restore(saved_.logs.at(entry.stage));
      positions[entry.stage] = probe.position();
    }
    writer_ = std::make_shared<ChainWriter>(options_.chain, opening_, positions);
  }
  make_logs();
  for (CustodyLog* log : logs()) log->restore(saved_.logs.at(log->trail().stage()));
  if (weights_replaced_) forget_weights();
}

void SecureRun::forget_weights() {
  weights_replaced_ = true;
  for (const auto& part : custody_) part->forget_weights();
}

SavedCustody SecureRun::save(std::span<const Stage> stages, std::uint64_t steps) {
  if (custody_.empty()) {
    if (!weights_replaced_ || saved_.opening.empty()) return saved_;
    // What was saved before is of other weights; before the parts have met nothing can be signed.
    if (opening_.stages.empty()) return {};
    begin();
  }
  SavedCustody saved;
  if (!stopped_by_.empty() || closed_) return saved;
  saved.opening = encode(opening_);
  for (std::size_t i = 0; i < custody_.size(); ++i) {
    custody_[i]->announce(stage_of(stages, i), steps);
    custody_[i]->end_step();
  }
  for (const CustodyLog* log : logs()) saved.logs[log->trail().stage()] = log->save();
  if (writer_ != nullptr) writer_->sync();
  return saved;
}

void SecureRun::spoil(const std::string& why) {
  if (stopped_by_.empty()) stopped_by_ = why;
}

void SecureRun::close(std::span<const Stage> stages, std::uint64_t steps) {
  if (!stopped_by_.empty() || closed_) return;
  if (custody_.empty()) {
    // A run that resumed where it had ended may have lost the end of its chain.
    if (saved_.opening.empty() || opening_.stages.empty()) return;
    begin();
  }
  closed_ = true;
  for (std::size_t i = 0; i < custody_.size(); ++i) {
    custody_[i]->announce(stage_of(stages, i), steps);
    custody_[i]->close();
  }
}

std::string SecureRun::proof() const {
  std::string lines;
  for (const auto& part : custody_) {
    if (part->log().trail().heads() == 0) continue;
    if (!lines.empty()) lines += '\n';
    lines += part->log().proof();
  }
  return lines;
}

std::shared_ptr<SecureRun> make_custody(const StageRow& row, const SecureOptions& options,
                                        SigningKey key) {
  const auto name_of = [&](std::size_t part) { return row.stages()[part]->graph().name(); };
  std::vector<SecurePart> parts;
  for (const Stage& stage : row.stages()) {
    parts.push_back(secure_part(row, stage->graph(), key));
  }
  std::vector<BoundaryEntry> boundaries;
  for (const RowBoundary& boundary : row.boundaries()) {
    boundaries.push_back({boundary.name, name_of(boundary.from), name_of(boundary.to)});
  }
  auto custody = std::make_shared<SecureRun>(options, std::move(key), parts);
  if (!row.is_partial()) {
    Opening opening = make_opening(parts, std::move(boundaries), new_run_nonce());
    opening.reproducible = row.settings().reproducible;
    custody->set_opening(std::move(opening));
  }
  return custody;
}

std::shared_ptr<SecureRun> make_replica_custody(const StageRow& row, const SecureOptions& options,
                                                SigningKey key, std::size_t replica) {
  if (row.is_partial() || row.stages().size() > 1) {
    fail(ErrorCode::kUnimplemented,
         "replicas that are cut into parts cannot be secure: leave the graph in one part, or leave "
         "secure off");
  }
  SecurePart whole = secure_part(row, row.stages().front()->graph(), key);
  whole.stage = replica_stage(whole.stage, replica);
  const SecurePart sums = sums_of(whole);
  auto custody = std::make_shared<SecureRun>(options, std::move(key), std::vector{whole, sums});
  custody->begin_anew();
  return custody;
}

void close_quietly(const StageRow& row) noexcept {
  if (row.custody() == nullptr || !row.custody()->has_begun()) return;
  if (std::uncaught_exceptions() > 0) return;
  try {
    row.custody()->close(row.stages(), steps_of(row));
  } catch (const std::exception& error) {
    log_warn("schedule", "the chain has no end: {}", error.what());
  }
}

}  // namespace harmonics::inline in_schedule
