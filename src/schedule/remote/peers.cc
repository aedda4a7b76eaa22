#include "peers.h"

#include <exception>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/log.h>

namespace harmonics::inline in_schedule {

TransportPtr Peers::make_end(const RemoteBinding& binding) const {
  return make_transport(binding, options_);
}

Transport* Peers::keep(TransportPtr end) {
  transports_.push_back(std::make_unique<TimedTransport>(std::move(end), waited_));
  return transports_.back().get();
}

void Peers::bind(const std::string& channel, TransportPtr end) {
  channels_.emplace(channel, keep(std::move(end)));
}

void Peers::bind_link(const std::string& name, TransportPtr end) {
  links_.emplace(name, std::make_unique<TimedTransport>(std::move(end), waited_));
}

std::optional<BoundaryCarrier> Peers::carrier(const std::vector<std::string>& channels,
                                              const CopyTurns& turns) const {
  BoundaryCarrier carrier{.channels = {},
                          .host_only = true,
                          .turns = turns,
                          .dealt = boundary_of(channels.front()) != channels.front()};
  for (const std::string& name : channels) {
    const auto found = channels_.find(name);
    if (found == channels_.end()) return std::nullopt;
    carrier.channels.push_back(found->second);
  }
  return carrier;
}

PartMap Peers::meet(const std::vector<PartRecord>& own, Nanoseconds patience) {
  PartMap map;
  Notice known;
  for (const PartRecord& record : own) {
    map.add(record);
    known.emplace(part_key(record), encode(record));
  }
  for (std::uint32_t round = 0; !map.closed() || round < map.diameter(); ++round) {
    const std::size_t before = known.size();
    exchange(known, {Topic::kMeeting, 0, round}, patience);
    for (const auto& [name, record] : known) map.add(decode_part_record(record));
    // Each round brings the parts one boundary further away: after one without news none follow.
    if (known.size() > before || map.closed()) continue;
    fail(ErrorCode::kFailedPrecondition,
         "the parts that met ({}) leave a boundary without its other end: one of them may be there "
         "twice; start each part of the run once",
         listed(map.parts(), &PartRecord::name));
  }
  return map;
}

Notice Peers::spread(Notice notice, NoticeTag tag, std::size_t rounds, Nanoseconds patience) {
  for (tag.round = 0; tag.round < rounds; ++tag.round) exchange(notice, tag, patience);
  return notice;
}

void Peers::exchange(Notice& notice, const NoticeTag& tag, Nanoseconds patience) {
  const Message own = notice_message(notice, tag);
  for (const TransportPtr& end : transports_) end->send(own, deadline_in(patience));
  for (const TransportPtr& end : transports_) {
    const std::optional<Message> message = end->receive(deadline_in(patience));
    if (!message) {
      fail(ErrorCode::kUnavailable, "boundary '{}': the part at the other end has closed",
           end->binding().name);
    }
    if (message->kind != MessageKind::kControl || tag_of(*message) != tag) {
      const NoticeTag came = tag_of(*message);
      const std::string_view what = message->kind == MessageKind::kControl
                                        ? topic_name(came.topic)
                                        : message_kind_name(message->kind);
      fail(ErrorCode::kDataLoss,
           "boundary '{}': {} of step {}, round {} was due, {} of step {}, number {} came; the two "
           "parts are out of step: all parts must make the same calls, from the same checkpoint",
           end->binding().name, topic_name(tag.topic), tag.step + 1, tag.round, what, came.step + 1,
           came.round);
    }
    notice.merge(decode_notice(*message));
  }
}

void Peers::close(Nanoseconds patience) noexcept {
  const Deadline deadline = deadline_in(patience);
  const auto close_one = [&](Transport& end) {
    try {
      end.close(deadline);
    } catch (const std::exception& error) {
      log_warn("schedule", "closing boundary '{}': {}", end.binding().name, error.what());
    }
  };
  for (const TransportPtr& end : transports_) close_one(*end);
  for (const auto& [name, end] : links_) close_one(*end);
  abandon();
}

void Peers::abandon() {
  channels_.clear();
  links_.clear();
  transports_.clear();
}

}  // namespace harmonics::inline in_schedule
