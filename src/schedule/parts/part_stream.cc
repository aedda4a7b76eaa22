#include "part_stream.h"

#include <algorithm>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/transport/message.h>

#include "carrier_probe.h"
#include "remote/wire.h"

namespace harmonics::inline in_schedule {
namespace {

// In the micro-batch of an epoch's end: it came before the data was over.
constexpr std::uint32_t kEndedEarly = 1;

// Adds the time until it is destroyed.
class StreamLap {
 public:
  StreamLap(const Clock& clock, Nanoseconds& sum) : clock_(clock), sum_(sum), begun_(clock.now()) {}
  ~StreamLap() { sum_ += clock_.now() - begun_; }
  StreamLap(const StreamLap&) = delete;
  StreamLap& operator=(const StreamLap&) = delete;

 private:
  const Clock& clock_;
  Nanoseconds& sum_;
  const Nanoseconds begun_;
};

}  // namespace

PartStream::PartStream(StageDriver& driver, const StreamWork& work, Place place)
    : driver_(driver), work_(work), place_(std::move(place)) {
  flow_.part = driver_.stage()->graph().name();
  for (const auto& [name, end] : driver_.ends().leaving) {
    unanswered_.emplace(name, std::vector<std::size_t>(end.channels.size(), 0));
  }
  next_read_ = work_.first_batch;
  begin_batch(own_batch(work_.first_batch));
}

std::int64_t PartStream::own_batch(std::int64_t from) const {
  return static_cast<std::int64_t>(
      place_.turns.next_of(place_.copy, static_cast<std::uint64_t>(from)));
}

void PartStream::begin_batch(std::int64_t number) {
  number_ = number;
  driver_.ends().turn = static_cast<std::uint64_t>(number);
}

PartFlow PartStream::run(const std::stop_token& stop) {
  if (work_.probe_carriers) flow_.carriers = probe_carriers(driver_.ends(), driver_.patience());
  while (!stop.stop_requested()) {
    std::optional<Due> due = take();
    if (!due) {
      end_stream();
      break;
    }
    compute(std::move(*due), stop);
    give_credit();
    note_done();
  }
  return flow_;
}

std::optional<PartStream::Due> PartStream::take() {
  const StreamLap lap(clock_, flow_.for_input);
  const StreamFeed& feed = work_.feeds[place_.part];
  const bool is_fed = !driver_.ends().entering.empty();
  if (!is_fed && work_.stop_wished()) interrupted_ = true;
  const std::optional<std::int64_t> rows = is_fed ? take_boundaries() : std::nullopt;
  if (interrupted_ || (is_fed && !rows && !feed)) return std::nullopt;
  if (!is_fed && !feed) {
    fail(ErrorCode::kFailedPrecondition,
         "part '{}' has no data and no part before it sends any: there are no rows to run over",
         flow_.part);
  }
  Due due;
  if (feed) {
    std::optional<NamedTensors> data = feed(number_ - next_read_);
    next_read_ = number_ + 1;
    if (is_fed && rows.has_value() != data.has_value()) {
      fail(ErrorCode::kInvalidArgument,
           "part '{}': {} ended after {} batches and {} goes on: the data of all parts must be "
           "equally long",
           flow_.part, data ? "the data of the other parts" : "the data bound here", number_,
           data ? "the data bound here" : "that of the other parts");
    }
    if (!data) return std::nullopt;
    due.data = std::move(*data);
  }
  due.rows = rows ? *rows : batch_rows(due.data);
  if (rows && !due.data.empty() && batch_rows(due.data) != *rows) {
    fail(ErrorCode::kInvalidArgument,
         "the data of producer '{}' brings {} rows, the other parts work on {}: give all parts the "
         "same batch size",
         due.data.begin()->first, batch_rows(due.data), *rows);
  }
  return due;
}

// The first tensors of a batch, and its rows; nothing at the end of the stream.
std::optional<std::int64_t> PartStream::take_boundaries() {
  StageEnds& ends = driver_.ends();
  std::map<std::string, bool, std::less<>> ended;
  std::optional<std::int64_t> rows;
  std::size_t count = 0;
  for (const auto& [name, end] : ends.entering) {
    Message message = receive(name, end.in_turn(ends.turn));
    ended[name] = message.kind == MessageKind::kEpochEnd;
    if (ended[name]) {
      ++count;
      note_end(message);
      continue;
    }
    ByteSpan attached = message.attachment;
    // The link that follows the head is checked with the tensor, before either is used.
    if (driver_.custody() != nullptr) {
      attached = attached.first(std::min(attached.size(), kBatchHeadBytes));
    }
    const std::int64_t came = decode_batch_head(attached).batch_samples;
    if (rows && *rows != came) {
      fail(ErrorCode::kInvalidArgument,
           "boundary '{}' brings a batch of {} rows, another boundary one of {}", name, came,
           *rows);
    }
    rows = came;
    ends.taken.insert_or_assign(name, std::move(message));
  }
  if (count == 0) return rows;
  if (!interrupted_ && rows) {
    fail(ErrorCode::kInvalidArgument,
         "the stream of part '{}' ends on {} of {} boundaries only: the data of all parts must be "
         "equally long",
         flow_.part, count, ends.entering.size());
  }
  end_entering(ended);
  return std::nullopt;
}

// The channels that have not ended yet. Parts that were not asked to end at the same batch sent too
// much: that is answered and dropped.
void PartStream::end_entering(const std::map<std::string, bool, std::less<>>& ended) {
  StageEnds& ends = driver_.ends();
  ends.taken.clear();
  for (const auto& [name, end] : ends.entering) {
    Transport* const in_turn = &end.in_turn(ends.turn);
    if (!ended.at(name)) {
      in_turn->send(credit_message(step()), deadline_in(driver_.patience()));
      end_channel(name, *in_turn);
    }
    for (Transport* const channel : end.channels) {
      if (channel != in_turn) end_channel(name, *channel);
    }
  }
  for (const auto& [name, end] : ends.entering) {
    for (Transport* const channel : end.channels) {
      if (!end.dealt) continue;
      channel->send(credit_message(ended_at_), deadline_in(driver_.patience()));
    }
  }
}

void PartStream::end_channel(const std::string& name, Transport& channel) {
  for (;;) {
    const Message message = receive(name, channel);
    if (message.kind == MessageKind::kEpochEnd) return note_end(message);
    channel.send(credit_message(message.step), deadline_in(driver_.patience()));
  }
}

void PartStream::note_end(const Message& message) {
  interrupted_ = interrupted_ || message.micro_batch == kEndedEarly;
  ended_at_ = std::min(ended_at_, message.step);
}

Message PartStream::receive(const std::string& name, Transport& channel) {
  std::optional<Message> message = channel.receive(deadline_in(driver_.patience()));
  if (!message) {
    fail(ErrorCode::kUnavailable, "boundary '{}': the part that sends it has closed", name);
  }
  if (message->kind != MessageKind::kActivation && message->kind != MessageKind::kEpochEnd) {
    fail(ErrorCode::kDataLoss,
         "boundary '{}': a batch of a stream was due, {} came; the two parts are out of step: all "
         "parts must make the same calls",
         name, message_kind_name(message->kind));
  }
  return std::move(*message);
}

void PartStream::compute(Due due, const std::stop_token& stop) {
  const MicroBatch batch{step(), 0, 0, due.rows};
  StreamedBatch done{number_, due.rows, {}, {}};
  {
    const StreamLap lap(clock_, flow_.busy);
    const CoreLap core_lap(cores_, flow_.cpu, flow_.for_core);
    if (driver_.custody() != nullptr) driver_.custody()->begin_batch(driver_.stage(), batch.step);
    done.outputs = driver_.compute_one(batch, due.data, work_.measure ? &done.taps : nullptr);
  }
  const StreamLap lap(clock_, flow_.for_room);
  for (const auto& [name, end] : driver_.ends().leaving) {
    const std::size_t taker = end.turns.copy_of(driver_.ends().turn);
    await_room(name, taker, place_.rooms.find(name)->second - 1);
    const auto leaving = done.outputs.find(name);
    if (leaving != done.outputs.end()) {
      flow_.bytes_sent += leaving->second.byte_size() + kBatchHeadBytes;
    }
    ++unanswered_.find(name)->second[taker];
  }
  driver_.hand_on_one(batch, done.outputs);
  if (driver_.custody() != nullptr && !stop.stop_requested()) driver_.custody()->end_step();
  work_.sink->give(place_.part, std::move(done), stop);
}

// Waits until a copy has answered all but `room` batches.
void PartStream::await_room(const std::string& name, std::size_t copy, std::size_t room) {
  Transport& channel = *driver_.ends().leaving.find(name)->second.channels[copy];
  for (std::size_t& open = unanswered_.find(name)->second[copy]; open > room; --open) {
    static_cast<void>(receive_credit(name, channel));
  }
}

std::uint64_t PartStream::receive_credit(const std::string& name, Transport& channel) {
  const std::optional<Message> message = channel.receive(deadline_in(driver_.patience()));
  if (!message) {
    fail(ErrorCode::kUnavailable, "boundary '{}': the part that takes it has closed", name);
  }
  if (message->kind != MessageKind::kControl || tag_of(*message).topic != Topic::kCredit) {
    fail(ErrorCode::kDataLoss,
         "boundary '{}': an answer to batch {} was due, {} came; the two parts are out of step: "
         "all parts must make the same calls",
         name, number_, message_kind_name(message->kind));
  }
  return message->step;
}

// The batch has left this part: there is room for another one.
void PartStream::give_credit() {
  const StreamLap lap(clock_, flow_.for_room);
  for (const auto& [name, end] : driver_.ends().entering) {
    end.in_turn(driver_.ends().turn).send(credit_message(step()), deadline_in(driver_.patience()));
  }
}
// Copies that read data do not see where it ends for the others: the answers say it.
void PartStream::end_stream() {
  const StreamLap lap(clock_, flow_.for_room);
  const std::uint32_t early = interrupted_ ? kEndedEarly : 0;
  const auto& leaving = driver_.ends().leaving;
  for (const auto& [name, end] : leaving) {
    for (Transport* const channel : end.channels) {
      channel->send({MessageKind::kEpochEnd, next_step(), early, {}, {}},
                    deadline_in(driver_.patience()));
    }
  }
  for (const auto& [name, end] : leaving) {
    for (std::size_t copy = 0; copy < end.channels.size(); ++copy) {
      await_room(name, copy, 0);
      if (end.dealt) {
        ended_at_ = std::min(ended_at_, receive_credit(name, *end.channels[copy]));
      }
    }
  }
}

void PartStream::note_done() {
  const Nanoseconds now = clock_.now();
  if (flow_.batches == 0) first_done_ = now;
  ++flow_.batches;
  if (flow_.batches > 1) flow_.period = (now - first_done_) / (flow_.batches - 1);
  begin_batch(own_batch(number_ + 1));
}

}  // namespace harmonics::inline in_schedule
