#include <harmonics/dispatch/adaptive_scheduler.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>

#include "equal_finish.h"

namespace harmonics::inline in_dispatch {
namespace {

/// The first sub-batch of an unknown device: it may be a hundred thousand times slower than the
/// others, and what it was given cannot be taken back.
constexpr std::size_t kProbeRows = 1;
/// How much larger than anything seen a sub-batch may be, once latency and rate are told apart.
constexpr std::size_t kGrowth = 32;
/// Before latency and rate are told apart.
constexpr std::size_t kProbeGrowth = 4;
/// Sub-batches that wait at a device beyond one per lane, so that it never idles between two.
constexpr std::size_t kAhead = 1;
/// Such a sub-batch is given out when the device needs it within this time, not earlier.
constexpr Nanoseconds kSoon = std::chrono::milliseconds(5);
/// Sub-batches that a run has at least on a device with several lanes: fewer hardly overlap.
constexpr std::size_t kOverlapped = 16;
/// How many times its usual deviation a device that has one piece to do is given to be late.
constexpr double kCaution = 2;
/// Stealing must bring the end of the victim's work forward by this share of what it has left.
constexpr double kLeastGain = 0.02;
/// A sub-batch that has run so many times as long as expected may never end.
constexpr double kStuck = 2;
/// Computing rows again must take no more than this share of what they would still take.
constexpr double kSooner = 0.5;
/// What was learned is written again when it moved by more than this.
constexpr double kWorthSaving = 0.2;

bool moved(double a, double b) { return std::abs(a - b) > kWorthSaving * std::max(a, b); }

}  // namespace

AdaptiveScheduler::AdaptiveScheduler(AdaptiveConfig config)
    : config_(std::move(config)), devices_(parse_work_devices(config_.devices)) {
  if (!(config_.efficiency > 0 && config_.efficiency < 1)) {
    fail(ErrorCode::kInvalidArgument, "an efficiency of {} is not between 0 and 1",
         config_.efficiency);
  }
  if (config_.max_attempts < 1) {
    fail(ErrorCode::kInvalidArgument, "{} attempts: at least 1 is needed", config_.max_attempts);
  }
  learners_.resize(devices_.size());
  if (!config_.first_batches.empty()) {
    const auto sizes = broadcast(config_.first_batches, devices_.size(), "first batches");
    for (std::size_t d = 0; d < devices_.size(); ++d) learners_[d].first_batch = sizes[d];
  }
  if (config_.rates_file.empty()) return;
  saved_ = load_rates(config_.rates_file);
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    const auto found = saved_.find({config_.model, devices_[d].name});
    if (found == saved_.end()) continue;
    learners_[d].rate = RateModel(found->second.latency_s, found->second.row_s);
    learners_[d].ceiling_rows = found->second.ceiling_rows;
    learners_[d].largest_seen = best_batch(learners_[d]);
  }
}

AdaptiveScheduler::~AdaptiveScheduler() {
  try {
    save();
  } catch (const std::exception& error) {
    log_warn("dispatch", "what was learned is lost: {}", error.what());
  }
}

void AdaptiveScheduler::begin_run(const RunView& view) {
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    Learner& learner = learners_[d];
    if (learner.quarantined) log_info("dispatch", "device '{}' is tried again", devices_[d].name);
    learner.on_probation = learner.quarantined;
    learner.quarantined = false;
    learner.last_ended = Nanoseconds(0);
    learner.lanes = view.devices[d].lanes;
    learner.rate.forgive();
  }
}

// --- sizes ---

std::size_t AdaptiveScheduler::best_batch(const Learner& learner) const {
  const double by_latency = learner.rate.latency_s() / learner.rate.row_s() * config_.efficiency /
                            (1 - config_.efficiency);
  const double by_time = in_seconds(config_.least_time) / learner.rate.row_s();
  const double rows = std::clamp(std::max(by_latency, by_time), 1.0, 1e15);
  auto best = static_cast<std::size_t>(std::ceil(rows));
  // Only another size tells latency and rate apart.
  if (!learner.rate.separated()) best = std::max(best, kProbeGrowth * learner.largest_seen);
  if (learner.ceiling_rows > 0) best = std::min(best, learner.ceiling_rows);
  return best;
}

// The sub-batch to use in this run.
std::size_t AdaptiveScheduler::piece_rows(std::size_t device, const RunView& view) const {
  const std::size_t best = best_batch(learners_[device]);
  if (view.devices[device].lanes == 1) return best;
  return std::min(best, std::max<std::size_t>(1, view.total_rows / kOverlapped));
}

// `rows` as a size that this device can have now.
std::size_t AdaptiveScheduler::fitting(const Learner& learner, const DeviceLoad& load,
                                       double rows) const {
  std::size_t most = load.room_rows;
  if (learner.ceiling_rows > 0) most = std::min(most, learner.ceiling_rows);
  const std::size_t growth = learner.rate.separated() ? kGrowth : kProbeGrowth;
  if (learner.largest_seen > 0 &&
      learner.largest_seen < std::numeric_limits<std::size_t>::max() / growth) {
    most = std::min(most, std::max(learner.largest_seen * growth, learner.first_batch));
  }
  return std::min(most, static_cast<std::size_t>(std::max(0.0, std::min(rows, 1e15))));
}

bool AdaptiveScheduler::takes_more(std::size_t device, const RunView& view) const {
  const Learner& learner = learners_[device];
  const DeviceLoad& load = view.devices[device];
  if (learner.quarantined || load.room_rows == 0) return false;
  const auto lanes = static_cast<std::size_t>(load.lanes);
  if (!learner.rate.known() || learner.on_probation) return load.running + load.queued == 0;
  // Not long before it is needed: by then more is known, and others may be faster.
  const bool soon = learner.rate.separated() && ready_s(device, view) <= in_seconds(kSoon);
  return load.running + load.queued < lanes + (soon ? kAhead : 0);
}

// When the device will have done what it holds, in seconds from now.
double AdaptiveScheduler::ready_s(std::size_t device, const RunView& view) const {
  const RateModel& rate = learners_[device].rate;
  const DeviceLoad& load = view.devices[device];
  double ready = 0;
  if (load.running > 0) {
    const double running = rate.latency_s() + rate.row_s() * static_cast<double>(load.running_rows);
    ready = std::max(0.0, running - in_seconds(view.now - load.oldest_start));
  }
  if (load.queued > 0) {
    ready += rate.latency_s() * static_cast<double>(load.queued) +
             rate.row_s() * static_cast<double>(load.queued_rows);
  }
  return ready;
}

// --- who takes what ---

std::optional<WorkAssignment> AdaptiveScheduler::assign(const RunView& view) {
  if (view.left_rows == 0) {
    const auto stealing = steal(view);
    return stealing || !config_.repeat_late ? stealing : repeat(view);
  }
  if (const auto probing = probe(view)) return probing;
  if (const auto sharing = share(view)) return sharing;
  return last_rows(view);
}

std::optional<WorkAssignment> AdaptiveScheduler::probe(const RunView& view) const {
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    const Learner& learner = learners_[d];
    if ((learner.rate.known() && !learner.on_probation) || !takes_more(d, view)) {
      continue;
    }
    return WorkAssignment{.device = d, .rows = std::min(kProbeRows, view.left_rows)};
  }
  return std::nullopt;
}

// The equal finish of all known devices says how much each should still take; a device with room
// gets the next piece of that.
std::optional<WorkAssignment> AdaptiveScheduler::share(const RunView& view) const {
  std::vector<Taker> takers;
  std::vector<std::size_t> known;
  double round = 0;
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    const Learner& learner = learners_[d];
    if (learner.quarantined || learner.on_probation || !learner.rate.known()) continue;
    known.push_back(d);
    round += static_cast<double>(piece_rows(d, view));
  }
  if (known.empty()) return std::nullopt;
  const auto left = static_cast<double>(view.left_rows);
  const bool last_round = left <= round;
  const auto one_piece = [&](std::size_t d) {
    const RateModel& rate = learners_[d].rate;
    return Taker{ready_s(d, view) + rate.latency_s(), rate.row_s()};
  };
  for (const std::size_t d : known) {
    const RateModel& rate = learners_[d].rate;
    const double spread = rate.latency_s() / static_cast<double>(piece_rows(d, view));
    takers.push_back(last_round ? one_piece(d) : Taker{ready_s(d, view), rate.row_s() + spread});
  }
  EqualFinish finish = equal_finish(takers, left);
  // Where the share is less than a full sub-batch, its whole latency falls on it, and nothing evens
  // out if it takes longer than expected.
  bool again = false;
  for (std::size_t k = 0; k < known.size() && !last_round; ++k) {
    if (finish.rows[k] >= static_cast<double>(piece_rows(known[k], view))) continue;
    const double careful = 1 + kCaution * learners_[known[k]].rate.deviation();
    const Taker piece = one_piece(known[k]);
    takers[k] = {careful * piece.ready_s, careful * piece.row_s};
    again = true;
  }
  if (again) finish = equal_finish(takers, left);
  std::optional<WorkAssignment> earliest;
  double earliest_ready = std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < known.size(); ++k) {
    const std::size_t d = known[k];
    if (!takes_more(d, view) || takers[k].ready_s >= earliest_ready) continue;
    const auto best = static_cast<double>(piece_rows(d, view));
    // Two last pieces of equal size rather than a full one and a crumb.
    const double fair = std::round(finish.rows[k]);
    const double wanted = fair >= 2 * best ? best : (fair > best ? std::ceil(fair / 2) : fair);
    const std::size_t rows =
        std::min(fitting(learners_[d], view.devices[d], wanted), view.left_rows);
    if (rows == 0) continue;
    earliest = WorkAssignment{.device = d, .rows = rows};
    earliest_ready = takers[k].ready_s;
  }
  return earliest;
}

// So few rows that every share rounds to none: whoever is done first with them takes them.
std::optional<WorkAssignment> AdaptiveScheduler::last_rows(const RunView& view) const {
  std::optional<WorkAssignment> best;
  double soonest = std::numeric_limits<double>::infinity();
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    const Learner& learner = learners_[d];
    if (learner.quarantined || learner.on_probation || !learner.rate.known()) continue;
    const std::size_t rows = std::max<std::size_t>(
        1, fitting(learner, view.devices[d], static_cast<double>(view.left_rows)));
    const double end = ready_s(d, view) + learner.rate.seconds(rows);
    if (end >= soonest) continue;
    soonest = end;
    // A device without room ends something first, and then this is asked again.
    best.reset();
    if (takes_more(d, view)) {
      best = WorkAssignment{.device = d, .rows = std::min(rows, view.left_rows)};
    }
  }
  return best;
}

// An idle device takes so much of what waits elsewhere that both finish together.
std::optional<WorkAssignment> AdaptiveScheduler::steal(const RunView& view) const {
  for (std::size_t thief = 0; thief < devices_.size(); ++thief) {
    const Learner& learner = learners_[thief];
    const DeviceLoad& load = view.devices[thief];
    if (learner.quarantined || learner.on_probation || !learner.rate.known()) continue;
    if (load.running + load.queued > 0) continue;
    std::size_t victim = WorkAssignment::kNobody;
    double latest = 0;
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      if (d == thief || view.devices[d].queued == 0) continue;
      const double ready = ready_s(d, view);
      if (ready <= latest) continue;
      latest = ready;
      victim = d;
    }
    if (victim == WorkAssignment::kNobody) continue;
    const double both = learner.rate.row_s() + learners_[victim].rate.row_s();
    const double rows = std::floor((latest - learner.rate.latency_s()) / both);
    const std::size_t taken =
        std::min(fitting(learner, load, rows), view.devices[victim].last_queued_rows);
    const double gain = static_cast<double>(taken) * learners_[victim].rate.row_s();
    if (taken > 0 && gain > kLeastGain * latest) {
      return WorkAssignment{.device = thief, .rows = taken, .from = victim};
    }
  }
  return std::nullopt;
}

// An idle device computes again what would be done later elsewhere.
std::optional<WorkAssignment> AdaptiveScheduler::repeat(const RunView& view) const {
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    const Learner& learner = learners_[d];
    const DeviceLoad& load = view.devices[d];
    if (learner.quarantined || learner.on_probation || !learner.rate.known()) continue;
    if (load.running + load.queued > 0) continue;
    std::optional<WorkAssignment> latest;
    double latest_s = 0;
    for (std::size_t other = 0; other < devices_.size(); ++other) {
      const DeviceLoad& there = view.devices[other];
      const std::size_t rows = there.repeatable_rows;
      if (other == d || rows == 0 || fitting(learner, load, static_cast<double>(rows)) < rows) {
        continue;
      }
      const RateModel& rate = learners_[other].rate;
      const double passed = in_seconds(view.now - there.oldest_start);
      const bool stuck = !rate.known() || learners_[other].on_probation ||
                         passed > kStuck * rate.seconds(there.running_rows);
      const double left = stuck ? std::numeric_limits<double>::infinity() : ready_s(other, view);
      if (left <= latest_s || learner.rate.seconds(rows) > kSooner * left) continue;
      latest = WorkAssignment{.device = d, .rows = rows, .from = other, .repeat = true};
      latest_s = left;
    }
    if (latest) return latest;
  }
  return std::nullopt;
}

// --- what happened ---

void AdaptiveScheduler::finished(const FinishedWork& work) {
  Learner& learner = learners_[work.device];
  // With several lanes sub-batches overlap: the device was busy with this one from the end of the
  // one before.
  const Nanoseconds from = std::max(work.started, learner.last_ended);
  // The first one of a run had nothing to overlap with, and would pass for a slow one.
  const bool first = learner.lanes > 1 && learner.last_ended == Nanoseconds(0);
  if (!first || !learner.rate.separated()) {
    learner.rate.observe(work.rows, std::max(1e-9, in_seconds(work.ended - from)),
                         std::max(1e-9, in_seconds(work.ended - work.started)));
  }
  learner.last_ended = work.ended;
  learner.largest_seen = std::max(learner.largest_seen, work.rows);
  if (learner.on_probation) {
    log_info("dispatch", "device '{}' works again", devices_[work.device].name);
    learner.on_probation = false;
  }
}

Recovery AdaptiveScheduler::failed(const FailedWork& work) {
  Learner& learner = learners_[work.device];
  const std::string& name = devices_[work.device].name;
  if (work.kind == FailureKind::kOutOfMemory && work.rows > 1) {
    const std::size_t half = work.rows / 2;
    learner.ceiling_rows = learner.ceiling_rows == 0 ? half : std::min(learner.ceiling_rows, half);
    log_warn("dispatch", "device '{}': {} rows do not fit its memory, from now on at most {}: {}",
             name, work.rows, learner.ceiling_rows, work.reason);
    return Recovery::kSplit;
  }
  if (work.kind == FailureKind::kDeviceLost) {
    learner.quarantined = true;
    learner.reason = work.reason;
    log_warn("dispatch", "device '{}' is lost, its rows go elsewhere: {}", name, work.reason);
    return work.attempts <= config_.max_attempts ? Recovery::kRequeue : Recovery::kStop;
  }
  return Recovery::kStop;
}

std::string AdaptiveScheduler::stalled() const {
  std::string text = "every device is lost:";
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    text += format("\n  '{}': {}", devices_[d].name,
                   learners_[d].quarantined ? learners_[d].reason : std::string("has no room"));
  }
  return text;
}

// --- what is kept ---

LearnedRates AdaptiveScheduler::learned() const {
  LearnedRates rates;
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    const Learner& learner = learners_[d];
    if (!learner.rate.separated()) continue;
    rates[{config_.model, devices_[d].name}] = {learner.rate.latency_s(), learner.rate.row_s(),
                                                learner.ceiling_rows};
  }
  return rates;
}

void AdaptiveScheduler::end_run(const RunView&) {
  if (config_.rates_file.empty()) return;
  for (const auto& [key, rate] : learned()) {
    const auto found = saved_.find(key);
    if (found == saved_.end() || moved(found->second.row_s, rate.row_s) ||
        found->second.ceiling_rows != rate.ceiling_rows) {
      save();
      return;
    }
  }
}

void AdaptiveScheduler::save() {
  if (config_.rates_file.empty()) return;
  const LearnedRates rates = learned();
  if (rates.empty() || rates == saved_) return;
  save_rates(config_.rates_file, rates);
  saved_ = rates;
}

std::vector<DeviceKnowledge> AdaptiveScheduler::knowledge() const {
  std::vector<DeviceKnowledge> all;
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    const Learner& learner = learners_[d];
    DeviceKnowledge one{.device = devices_[d].name,
                        .known = learner.rate.known(),
                        .ceiling_rows = learner.ceiling_rows,
                        .quarantined = learner.quarantined};
    if (one.known) {
      one.latency_s = learner.rate.latency_s();
      one.rows_per_second = 1 / learner.rate.row_s();
      one.best_batch = best_batch(learner);
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace harmonics::inline in_dispatch
