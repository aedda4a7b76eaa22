#include <harmonics/serve/inference_service.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <harmonics/base/check.h>

#include "batcher.h"
#include "place_check.h"

namespace harmonics::inline in_serve {
namespace {

// The longest that the thread of deadlines sleeps.
constexpr Nanoseconds kLongestSleep = std::chrono::seconds(60);

/// A request that was taken and not answered.
struct Pending {
  InferenceRequest request;
  InferenceService::Done done;
  std::int64_t rows = 0;
  Nanoseconds arrived{};
  Nanoseconds expires{};
};

/// Where the rows of a request lie in a batch.
struct RowPlace {
  std::uint64_t ticket = 0;
  std::int64_t first = 0;
  std::int64_t rows = 0;
};

struct Fetched {
  FormedBatchPtr batch;
  std::vector<RowPlace> places;
  bool is_trial = false;
  int breaks = 0;
};

/// What is handed over once no lock is held.
struct Handover {
  InferenceService::Done done;
  InferenceAnswer answer;
};

void hand_over(std::vector<Handover> answers) {
  for (Handover& one : answers) one.done(std::move(one.answer));
}

}  // namespace

const char* service_state_name(ServiceState state) {
  switch (state) {
    case ServiceState::kStarting: return "starting";
    case ServiceState::kReady: return "ready";
    case ServiceState::kRecovering: return "recovering";
    case ServiceState::kDraining: return "draining";
    case ServiceState::kOver: break;
  }
  return "over";
}

struct InferenceService::Parts {
  Parts(ModelCard model, const ServingTerms& wanted, const Clock& time)
      : card(std::move(model)),
        terms(wanted),
        clock(time),
        batcher({card.batch_rows, wanted.queue_rows, wanted.max_wait, false}),
        check(card),
        last_formed(time.now()) {}

  const ModelCard card;
  const ServingTerms terms;
  const Clock& clock;

  mutable std::mutex mutex;
  std::condition_variable_any changed;  // for who fetches
  std::condition_variable_any earlier;  // for the thread of deadlines
  Batcher batcher;
  PlaceCheck check;
  std::map<std::uint64_t, Pending> pending;   // by ticket: waiting or under way
  std::map<std::int64_t, Fetched> under_way;  // by number
  std::uint64_t tickets = 0;
  std::uint64_t changes = 0;
  std::int64_t formed = 0;
  std::int64_t delivered = 0;
  std::vector<std::int64_t> sizes;
  ServiceState state = ServiceState::kStarting;
  ServiceFigures figures;
  Nanoseconds last_formed;
  Nanoseconds next_look{};
  std::jthread deadlines;

  // All of these are called with the lock held.
  [[nodiscard]] FormedBatchPtr form(TensorsByName inputs, std::vector<RowPlace> places,
                                    bool is_trial);
  [[nodiscard]] FormedBatchPtr form_requests(const std::vector<std::uint64_t>& chosen);
  [[nodiscard]] TensorsByName together(const std::vector<RowPlace>& places,
                                       std::int64_t rows) const;
  [[nodiscard]] FormedBatchPtr try_form(bool& ended);
  void note_change() {
    ++changes;
    changed.notify_all();
  }
  [[nodiscard]] bool has_room() const { return formed - delivered < terms.in_flight; }
  [[nodiscard]] bool is_ending() const {
    return state == ServiceState::kDraining || state == ServiceState::kOver;
  }
  [[nodiscard]] Nanoseconds until_due() const;
  void answer(std::uint64_t ticket, InferenceAnswer what, std::vector<Handover>& out);
  void give_up(Fetched& fetched, const std::string& why, std::vector<Handover>& out);
  void end_trials();
  void keep_deadlines(const std::stop_token& stop);
};

FormedBatchPtr InferenceService::Parts::form(TensorsByName inputs, std::vector<RowPlace> places,
                                             bool is_trial) {
  const std::int64_t rows = inputs.begin()->second.shape().at(0);
  auto batch = std::make_shared<const FormedBatch>(FormedBatch{formed, rows, std::move(inputs)});
  under_way[formed++] = {batch, std::move(places), is_trial, 0};
  last_formed = clock.now();
  note_change();
  return batch;
}

// The rows of the requests one after another, and zeros up to `rows`.
TensorsByName InferenceService::Parts::together(const std::vector<RowPlace>& places,
                                                std::int64_t rows) const {
  TensorsByName inputs;
  for (const TensorCard& input : card.inputs) {
    const Tensor& first = pending.at(places.front().ticket).request.inputs.at(input.name);
    if (places.front().rows == rows) {
      inputs.emplace(input.name, first);
      continue;
    }
    Shape shape = first.shape();
    shape.front() = rows;
    Tensor all = Tensor::zeros(std::move(shape), first.dtype());
    std::byte* to = all.mutable_bytes().data();
    for (const RowPlace& place : places) {
      const ByteSpan from = pending.at(place.ticket).request.inputs.at(input.name).bytes();
      std::memcpy(to, from.data(), from.size());
      to += from.size();
    }
    inputs.emplace(input.name, std::move(all));
  }
  return inputs;
}

FormedBatchPtr InferenceService::Parts::form_requests(const std::vector<std::uint64_t>& chosen) {
  std::vector<RowPlace> places;
  std::int64_t rows = 0;
  for (const std::uint64_t ticket : chosen) {
    const std::int64_t own = pending.at(ticket).rows;
    places.push_back({ticket, rows, own});
    rows += own;
  }
  const auto size = std::ranges::lower_bound(sizes, rows);
  const std::int64_t filled = size == sizes.end() ? rows : *size;
  ++figures.batches;
  figures.filling_rows += filled - rows;
  TensorsByName inputs = together(places, filled);
  return form(std::move(inputs), std::move(places), false);
}

// Once every trial is back: how batches are made from now on.
void InferenceService::Parts::end_trials() {
  if (state != ServiceState::kStarting || !check.over()) return;
  sizes = check.sizes();
  batcher.set_alone(sizes.empty());
  if (!sizes.empty()) batcher.set_rows(sizes.back());
  state = ServiceState::kReady;
}

// The next batch, if one is due; `ended` says that there will be none.
FormedBatchPtr InferenceService::Parts::try_form(bool& ended) {
  if (!has_room()) return nullptr;
  if (state == ServiceState::kStarting) {
    std::optional<TensorsByName> trial = check.next();
    return trial ? form(std::move(*trial), {}, true) : nullptr;
  }
  const Nanoseconds now = clock.now();
  const std::vector<std::uint64_t> chosen = batcher.take(now, is_ending());
  if (!chosen.empty()) return form_requests(chosen);
  ended = is_ending();
  if (ended || terms.idle == Nanoseconds::zero() || now < last_formed + terms.idle) return nullptr;
  return form(PlaceCheck::idle_inputs(card, sizes.empty() ? 1 : sizes.front()), {}, false);
}

// How long a fetch sleeps unless something changes.
Nanoseconds InferenceService::Parts::until_due() const {
  Nanoseconds due = clock.now() + kLongestSleep;
  if (has_room() && state != ServiceState::kStarting) {
    if (const std::optional<Nanoseconds> next = batcher.due()) due = std::min(due, *next);
    if (terms.idle != Nanoseconds::zero()) due = std::min(due, last_formed + terms.idle);
  }
  return std::max(Nanoseconds::zero(), due - clock.now());
}

void InferenceService::Parts::answer(std::uint64_t ticket, InferenceAnswer what,
                                     std::vector<Handover>& out) {
  const auto found = pending.find(ticket);
  if (found == pending.end()) return;  // it was answered before
  out.push_back({std::move(found->second.done), std::move(what)});
  pending.erase(found);
}

// Refuses the requests of a batch; an empty one takes its number.
void InferenceService::Parts::give_up(Fetched& fetched, const std::string& why,
                                      std::vector<Handover>& out) {
  for (const RowPlace& place : fetched.places) {
    ++figures.failed;
    answer(place.ticket,
           {{},
            Error(ErrorCode::kUnavailable,
                  format("the stream broke {} times with this request under way: {}",
                         terms.attempts, why))},
           out);
  }
  fetched.places.clear();
  const FormedBatch& was = *fetched.batch;
  fetched.batch = std::make_shared<const FormedBatch>(
      FormedBatch{was.number, was.rows, PlaceCheck::idle_inputs(card, was.rows)});
}

void InferenceService::Parts::keep_deadlines(const std::stop_token& stop) {
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    const Nanoseconds now = clock.now();
    static_cast<void>(batcher.expire(now));
    std::vector<std::uint64_t> late;
    next_look = now + kLongestSleep;
    for (const auto& [ticket, one] : pending) {
      if (one.expires <= now)
        late.push_back(ticket);
      else
        next_look = std::min(next_look, one.expires);
    }
    std::vector<Handover> answers;
    for (const std::uint64_t ticket : late) {
      const Nanoseconds waited = now - pending.at(ticket).arrived;
      ++figures.expired;
      answer(ticket,
             {{},
              Error(ErrorCode::kDeadlineExceeded,
                    format("no answer within {:.3f} s: the service is too busy, or the deadline "
                           "too short",
                           in_seconds(waited)))},
             answers);
    }
    if (!answers.empty()) {
      lock.unlock();
      hand_over(std::move(answers));
      lock.lock();
      continue;
    }
    earlier.wait_for(lock, stop, next_look - now, [&] { return next_look == Nanoseconds::zero(); });
  }
}

InferenceService::InferenceService(ModelCard card, const ServingTerms& terms, const Clock& clock)
    : parts_(std::make_unique<Parts>(std::move(card), terms, clock)) {
  parts_->deadlines =
      std::jthread([this](const std::stop_token& stop) { parts_->keep_deadlines(stop); });
}

InferenceService::~InferenceService() {
  end("the service has ended");
  parts_->deadlines.request_stop();
  parts_->deadlines.join();
}

const ModelCard& InferenceService::card() const { return parts_->card; }

ServiceState InferenceService::state() const {
  const std::lock_guard lock(parts_->mutex);
  return parts_->state;
}

ServiceFigures InferenceService::figures() const {
  const std::lock_guard lock(parts_->mutex);
  ServiceFigures figures = parts_->figures;
  figures.waiting_rows = parts_->batcher.waiting_rows();
  figures.in_flight = parts_->formed - parts_->delivered;
  figures.ready = parts_->state == ServiceState::kReady;
  return figures;
}

std::vector<std::int64_t> InferenceService::batch_sizes() const {
  const std::lock_guard lock(parts_->mutex);
  return parts_->sizes;
}

std::int64_t InferenceService::delivered() const {
  const std::lock_guard lock(parts_->mutex);
  return parts_->delivered;
}

void InferenceService::submit(InferenceRequest request, Done done) {
  Parts& parts = *parts_;
  const std::int64_t rows = check_request(parts.card, request);
  const std::lock_guard lock(parts.mutex);
  if (parts.state != ServiceState::kReady && parts.state != ServiceState::kRecovering) {
    ++parts.figures.refused;
    fail(ErrorCode::kUnavailable, "the service is {}: it takes no requests",
         service_state_name(parts.state));
  }
  const Nanoseconds now = parts.clock.now();
  const Nanoseconds patience = std::min(request.timeout.value_or(parts.terms.request_deadline),
                                        parts.terms.request_deadline);
  const std::uint64_t ticket = ++parts.tickets;
  if (!parts.batcher.admit({ticket, rows, now, now + patience})) {
    ++parts.figures.refused;
    fail(ErrorCode::kResourceExhausted,
         "{} rows wait already, and there is room for {}: try again later",
         parts.batcher.waiting_rows(), parts.terms.queue_rows);
  }
  parts.pending[ticket] = {std::move(request), std::move(done), rows, now, now + patience};
  if (now + patience < parts.next_look) {
    parts.next_look = Nanoseconds::zero();
    parts.earlier.notify_all();
  }
  parts.note_change();
}

FormedBatchPtr InferenceService::fetch(std::int64_t number, const std::stop_token& stop) {
  Parts& parts = *parts_;
  std::unique_lock lock(parts.mutex);
  while (!stop.stop_requested()) {
    const auto known = parts.under_way.find(number);
    if (known != parts.under_way.end()) return known->second.batch;
    HARMONICS_CHECK(number == parts.formed, "a stream fetched a batch that is not its next");
    bool ended = false;
    if (FormedBatchPtr batch = parts.try_form(ended)) return batch;
    if (ended) return nullptr;
    // Whatever changes may bring the next batch nearer: then it is looked at anew.
    parts.changed.wait_for(lock, stop, parts.until_due(),
                           [&, seen = parts.changes] { return parts.changes != seen; });
  }
  return nullptr;
}

void InferenceService::deliver(std::int64_t number, const TensorsByName& outputs) {
  Parts& parts = *parts_;
  std::vector<Handover> answers;
  {
    const std::lock_guard lock(parts.mutex);
    const auto found = parts.under_way.find(number);
    HARMONICS_CHECK(number == parts.delivered && found != parts.under_way.end(),
                    "a batch was delivered that is not due");
    const Nanoseconds now = parts.clock.now();
    if (found->second.is_trial) parts.check.take(outputs);
    for (const RowPlace& place : found->second.places) {
      const auto asked = parts.pending.find(place.ticket);
      if (asked == parts.pending.end()) continue;  // it has expired
      InferenceAnswer own;
      for (const TensorCard& output : parts.card.outputs) {
        const Tensor& all = outputs.find(output.name)->second;
        own.outputs.emplace(output.name, all.slice(place.first, place.first + place.rows));
      }
      ++parts.figures.answered;
      parts.figures.rows += place.rows;
      parts.figures.note_latency(now - asked->second.arrived);
      parts.answer(place.ticket, std::move(own), answers);
    }
    parts.under_way.erase(found);
    ++parts.delivered;
    if (parts.state == ServiceState::kRecovering) parts.state = ServiceState::kReady;
    parts.end_trials();
    parts.note_change();
  }
  hand_over(std::move(answers));
}

void InferenceService::note_break(const std::string& why) {
  Parts& parts = *parts_;
  std::vector<Handover> answers;
  {
    const std::lock_guard lock(parts.mutex);
    ++parts.figures.breaks;
    if (parts.state == ServiceState::kReady) parts.state = ServiceState::kRecovering;
    for (auto& [number, fetched] : parts.under_way) {
      if (!fetched.is_trial && ++fetched.breaks >= parts.terms.attempts) {
        parts.give_up(fetched, why, answers);
      }
    }
  }
  hand_over(std::move(answers));
}

void InferenceService::drain() {
  const std::lock_guard lock(parts_->mutex);
  if (parts_->state != ServiceState::kOver) parts_->state = ServiceState::kDraining;
  parts_->note_change();
}

void InferenceService::end(const std::string& why) {
  Parts& parts = *parts_;
  std::vector<Handover> answers;
  {
    const std::lock_guard lock(parts.mutex);
    parts.state = ServiceState::kOver;
    while (!parts.pending.empty()) {
      const std::uint64_t ticket = parts.pending.begin()->first;
      parts.batcher.remove(ticket);
      ++parts.figures.failed;
      parts.answer(ticket, {{}, Error(ErrorCode::kUnavailable, why)}, answers);
    }
    parts.note_change();
  }
  hand_over(std::move(answers));
}

}  // namespace harmonics::inline in_serve
