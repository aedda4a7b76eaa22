#include "remote_agreement.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/log.h>
#include <harmonics/runtime/devices.h>

#include "farewell.h"
#include "fit_terms.h"
#include "secure/secure_meeting.h"

namespace harmonics::inline in_schedule {
namespace {

// The name of the first part of a home.
std::string title_of(const std::string& home) { return home.substr(0, home.find('\n')); }

// The part that a home is of, whichever copy of it.
std::string part_of_home(const std::string& home) {
  const std::string title = title_of(home);
  return title.substr(0, title.find(kCopyTitle));
}

// One home for each part: the first copy stands for the others, which have the same weights.
std::vector<std::string> first_homes(const PartMap& map) {
  std::vector<std::string> homes;
  for (const std::string& home : map.homes_in_order()) {
    if (is_first_copy(title_of(home))) homes.push_back(home);
  }
  return homes;
}

}  // namespace

RemoteAgreement::RemoteAgreement(const StageRow& row, Peers peers, std::vector<PartRecord> own,
                                 const RemoteOptions& options)
    : row_(row),
      peers_(std::move(peers)),
      own_(std::move(own)),
      home_(part_key(own_.front())),
      options_(options) {
  for (std::size_t part = 0; part < own_.size(); ++part) {
    own_[part].home = home_;
    for (const BoundaryEnd& end : own_[part].entering) part_of_.emplace(end.name, part);
  }
}

RemoteAgreement::~RemoteAgreement() {
  if (map_ && stopped_by_.empty()) peers_.close(options_.closing);
}

void RemoteAgreement::abandon(const std::string& why) {
  if (!begun_ || !stopped_by_.empty()) return;
  stopped_by_ = why;
  if (row_.custody() != nullptr) row_.custody()->spoil(why);
  // A closed boundary is certain to be noticed, an abandoned one only if its link holds out.
  if (map_) peers_.close(std::min<Nanoseconds>(options_.closing, kFarewell));
  pipeline_.reset();
  peers_.abandon();
}

void RemoteAgreement::check_alive() const {
  if (stopped_by_.empty()) return;
  fail(ErrorCode::kFailedPrecondition,
       "part '{}' has stopped ({}); make a new scheduler and go on from a checkpoint", name(),
       stopped_by_);
}

void RemoteAgreement::meet(std::uint64_t step) {
  check_alive();
  // The caller may have changed threads since the last batch.
  use_compute_threads(options_.runtime.threads);
  if (map_) return;
  begun_ = true;
  for (PartRecord& record : own_) record.steps = static_cast<std::int64_t>(step);
  PartMap map = first_contact();
  if (map.learns()) map.check_gradients();
  if (SecureRun* const custody = row_.custody()) {
    custody->set_opening(opening_of(map.parts(), custody->options()));
  } else {
    refuse_secure_parts(map.parts());
  }
  width_ = map.diameter();
  fed_ = map.fed_from_outside(home_);
  log_info("schedule", "part '{}' has met {} others", name(), map.parts().size() - own_.size());
  map_ = std::move(map);
  pipeline_.emplace(row_, options_.pipeline, options_.runtime.threads, places());
}

PartMap RemoteAgreement::first_contact() {
  try {
    return peers_.meet(own_, options_.first_contact);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDeadlineExceeded) throw;
    fail(error.code(),
         "part '{}' has not met the others: {} (a neighbour may take {} s to come: start it, or "
         "wait longer)",
         name(), error.what(), in_seconds(options_.first_contact));
  }
}

std::vector<PartPlace> RemoteAgreement::places() const {
  const PartCopies& copies = options_.copies;
  std::vector<PartPlace> places;
  for (const PartRecord& record : own_) {
    PartPlace& place = places.emplace_back();
    place.depth = map_->passes_ahead(record);
    place.turns = copies.turns;
    place.copy = copies.copy;
    for (const std::string& name : copy_links(copies, row_.stages().front()->graph().name())) {
      const auto link = peers_.links().find(name);
      if (link == peers_.links().end()) {
        fail(ErrorCode::kFailedPrecondition,
             "copies that learn meet each other too: bind '{}' as a producer", name);
      }
      place.links.push_back(link->second.get());
    }
    const HarmonicGraph& graph = row_.stages()[places.size() - 1]->graph();
    for (const ProducerNode& node : graph.producers()) {
      const auto link = peers_.carrier(entering_channels(copies, node.name), copies.at(node.name));
      if (link) place.outside.entering.emplace(node.name, *link);
    }
    for (const ConsumerNode& node : graph.consumers()) {
      const std::vector<std::string> channels = leaving_channels(copies, node.name);
      const auto link = peers_.carrier(channels, copies.at(node.name));
      if (!link) continue;
      place.outside.leaving.emplace(node.name, *link);
      place.spans.emplace(node.name, map_->span_of(channels.front()));
    }
  }
  return places;
}

void RemoteAgreement::check_no_copies() const {
  if (!options_.copies.any() || options_.copies.learns) return;
  fail(ErrorCode::kFailedPrecondition,
       "part '{}' has copies, or meets some, which take turns at the batches of a stream: say in "
       "PartCopies that they learn",
       name());
}

bool RemoteAgreement::await_batch(std::uint64_t step) {
  check_no_copies();
  meet(step);
  step_ = step;
  head_.reset();
  std::size_t ended = 0;
  for (const std::string& name : fed_) {
    StageEnds& ends = pipeline_->ends(part_of_.find(name)->second);
    const bool dealt = boundary_of(name) != name;
    std::optional<Message> message =
        peers_.channels().find(name)->second->receive(deadline_in(patience()));
    if (!message) {
      fail(ErrorCode::kUnavailable, "boundary '{}': the part that sends it has closed", name);
    }
    if (message->kind == MessageKind::kEpochEnd) {
      ++ended;
      continue;
    }
    const bool announced =
        message->kind == MessageKind::kControl && tag_of(*message).topic == Topic::kBatch;
    if (dealt ? !announced : message->kind != MessageKind::kActivation) {
      fail(ErrorCode::kDataLoss,
           "boundary '{}': a batch was due, {} came; the two parts are out of step: all parts must "
           "make the same calls",
           name, message_kind_name(message->kind));
    }
    ByteSpan attached = message->attachment;
    // The link that follows the head is checked with the tensor, before either is used.
    if (row_.custody() != nullptr) {
      attached = attached.first(std::min(attached.size(), kBatchHeadBytes));
    }
    const BatchHead head = decode_batch_head(attached);
    if (head_ && head_->batch_samples != head.batch_samples) {
      fail(ErrorCode::kInvalidArgument,
           "boundary '{}' brings a batch of {} rows, another boundary one of {}", name,
           head.batch_samples, head_->batch_samples);
    }
    head_ = head;
    if (dealt) {
      lower(pipeline_->ends_after(), head.ends_after);
    } else {
      ends.taken.insert_or_assign(name, std::move(*message));
    }
  }
  if (ended > 0 && head_) {
    fail(ErrorCode::kInvalidArgument,
         "the epoch of part '{}' ends on {} of {} boundaries only: the data of all parts must be "
         "equally long",
         name(), ended, fed_.size());
  }
  return ended == 0;
}

std::int64_t RemoteAgreement::rows(const NamedTensors& data) const {
  if (!head_) return batch_rows(data);
  if (!data.empty() && batch_rows(data) != head_->batch_samples) {
    fail(ErrorCode::kInvalidArgument,
         "the data of producer '{}' brings {} rows, the other parts work on {}: give all parts the "
         "same batch size",
         data.begin()->first, batch_rows(data), head_->batch_samples);
  }
  return head_->batch_samples;
}

PipelineRunner& RemoteAgreement::pipeline() {
  check_alive();
  if (!pipeline_) {
    fail(ErrorCode::kInternal, "part '{}' was asked to compute before it has met the others",
         name());
  }
  return *pipeline_;
}

PipelineRunner& RemoteAgreement::pipeline_for(const SlicedBatch& batch) {
  PipelineRunner& found = pipeline();
  const auto count = static_cast<std::uint32_t>(batch.micro_batches.size());
  if (head_ && head_->micro_batches != count) {
    fail(ErrorCode::kInvalidArgument, "the other parts cut the batch in {}, this one in {}",
         head_->micro_batches, count);
  }
  return found;
}

std::map<std::string, double> RemoteAgreement::all_square_sums(std::map<std::string, double> own,
                                                               std::uint64_t step) {
  Notice notice;
  for (const auto& [name, square] : own) {
    const auto bytes = std::bit_cast<std::array<char, sizeof(double)>>(square);
    notice.emplace(name, std::string(bytes.begin(), bytes.end()));
  }
  const NoticeTag tag{Topic::kSquareSums, step, 0};
  std::map<std::string, double> all;
  for (const auto& [name, text] : peers_.spread(std::move(notice), tag, width_, patience())) {
    ByteReader in(bytes_of(text), "square sum");
    all.emplace(name, in.number<double>());
  }
  return all;
}

void RemoteAgreement::end_epoch() {
  check_alive();
  for (const auto& [name, channel] : peers_.channels()) {
    if (part_of_.contains(name)) continue;
    channel->send({MessageKind::kEpochEnd, step_, 0, {}, {}}, deadline_in(patience()));
  }
  // What enters because of what left here ends now as well.
  for (const auto& [name, channel] : peers_.channels()) {
    if (!part_of_.contains(name) || fed_.contains(name)) continue;
    const std::optional<Message> message = channel->receive(deadline_in(patience()));
    if (message && message->kind == MessageKind::kEpochEnd) continue;
    fail(ErrorCode::kDataLoss,
         "boundary '{}': the end of the epoch was due, {} came; the data of all parts must be "
         "equally long",
         name, message ? message_kind_name(message->kind) : "the end of the run");
  }
}

std::map<std::string, std::string> RemoteAgreement::gather(Topic topic, std::string own,
                                                           std::uint64_t step) {
  const Notice all = peers_.spread({{home_, std::move(own)}}, {topic, step, 0}, width_, patience());
  return {all.begin(), all.end()};
}

FitTerms RemoteAgreement::agree(const FitTerms& own, std::uint64_t step) {
  check_no_copies();
  meet(step);
  pipeline_->ends_after() = kNoEnd;
  FitTerms terms = own;
  terms.epochs_are_steps = own.epochs_are_steps && fed_.empty();
  // The files that this fit saves carry the mark of the first process.
  const std::string mark = random_mark();
  mark_.clear();
  saves_ = 0;
  if (!saved_ && step == 0) saved_ = SavedStep{};
  for (const auto& [home, text] : gather(Topic::kTerms, mark + encode(terms), step)) {
    if (mark_.empty()) mark_ = text.substr(0, mark.size());
    join_terms(terms, decode_fit_terms(std::string_view(text).substr(mark_.size())),
               title_of(home));
  }
  return terms;
}

StreamTerms RemoteAgreement::agree(const StreamTerms& own, std::uint64_t step) {
  meet(step);
  StreamTerms terms = own;
  for (const auto& [home, text] : gather(Topic::kStream, encode(own), step)) {
    join_terms(terms, decode_stream_terms(text));
  }
  terms.parts = map_->parts().size();
  return terms;
}

TapReport RemoteAgreement::all_taps(const TapReport& own, std::uint64_t step) {
  TapReport all;
  for (const auto& [home, text] : gather(Topic::kTaps, encode(own), step)) {
    all += decode_tap_report(text);
  }
  return all;
}

bool RemoteAgreement::ends_after(std::uint64_t steps, bool wished) {
  std::atomic<std::uint64_t>& end = pipeline_->ends_after();
  // The wish walks one boundary per step. Where no gradients come back it only walks forward: then
  // those that nobody feeds decide.
  if (wished && (fed_.empty() || map_->all_boundaries_learn())) lower(end, steps + width_ + 1);
  return steps >= end.load();
}

void RemoteAgreement::save(const std::filesystem::path& path, std::uint64_t step,
                           const WriteState& write) {
  check_alive();
  const std::vector<std::string> homes = first_homes(*map_);
  const auto index = static_cast<std::size_t>(std::ranges::find(homes, home_) - homes.begin());
  const bool writes = index < homes.size();
  SavedStep saved{static_cast<std::int64_t>(step), {}};
  const std::string file =
      stage_file_name(path, {saved.step, mark_, ++saves_, index, homes.size()});
  const StageFile own{part_of_home(home_), file, writes ? write(path.parent_path() / file) : ""};
  const auto all = gather(Topic::kCheckpoint, encode(own), step);
  for (const std::string& home : homes) saved.stages.push_back(decode_stage_file(all.at(home)));
  if (writes && is_first_in_folder(path, saved, index)) {
    complete_checkpoint(path, {saved, saved_});
  }
  static_cast<void>(gather(Topic::kCheckpointDone, "", step));
  saved_ = std::move(saved);
}

SavedStep RemoteAgreement::choose_saved_step(const std::filesystem::path& path,
                                             std::uint64_t step) {
  meet(step);
  std::vector<SavedStep> common = {SavedStep{}};
  if (!path.empty()) {
    common = usable_steps(path, part_of_home(home_), first_homes(*map_).size());
  }
  std::vector<std::string> own;
  std::ranges::transform(common, std::back_inserter(own), saved_step_id);
  std::string told;
  for (const auto& [home, text] : gather(Topic::kResume, encode_ids(own), step)) {
    const std::vector<std::string> theirs = decode_ids(text);
    std::erase_if(common, [&](const SavedStep& saved) {
      return std::ranges::find(theirs, saved_step_id(saved)) == theirs.end();
    });
    told += format("{}'{}' can go on from {}", told.empty() ? "" : "; ", title_of(home),
                   theirs.empty() ? "nothing" : listed(theirs));
  }
  if (common.empty()) {
    fail(ErrorCode::kFailedPrecondition,
         "the parts have no checkpoint in common: {}; resume all parts or none, from files of one "
         "run",
         told);
  }
  // A checkpoint that is one file is replaced by the first manifest: nobody can go back to it.
  SavedStep chosen = common.front();
  const bool replaced = !chosen.stages.empty() && chosen.stages.front().sha256.empty();
  saved_ = replaced ? std::nullopt : std::optional(chosen);
  chosen.stages = files_to_read(chosen, part_of_home(home_), first_homes(*map_).size());
  return chosen;
}

}  // namespace harmonics::inline in_schedule
