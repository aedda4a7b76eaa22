#include "peers.h"

#include <exception>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>

namespace harmonics {

Transport* Peers::keep(const RemoteBinding& binding) {
  transports_.push_back(make_transport(binding, options_));
  return transports_.back().get();
}

void Peers::bind_entering(const RemoteBinding& binding) {
  ends_.entering.emplace(binding.name, keep(binding));
}

void Peers::bind_leaving(const RemoteBinding& binding) {
  ends_.leaving.emplace(binding.name, keep(binding));
}

PartMap Peers::meet(const PartRecord& own, Nanoseconds patience) {
  // A part is known by its boundaries: no two parts share one.
  const auto key = [](const PartRecord& record) {
    std::string text = record.name;
    for (const BoundaryEnd& end : record.leaving) text += "\n>" + end.name;
    for (const BoundaryEnd& end : record.entering) text += "\n<" + end.name;
    return text;
  };
  PartMap map;
  map.add(own);
  Notice known{{key(own), encode(own)}};
  for (std::uint32_t round = 0; !map.closed() || round < map.diameter(); ++round) {
    exchange(known, 0, round, patience);
    for (const auto& [name, record] : known) map.add(decode_part_record(record));
  }
  return map;
}

Notice Peers::spread(Notice notice, std::uint64_t step, std::size_t rounds, Nanoseconds patience) {
  for (std::uint32_t round = 0; round < rounds; ++round) exchange(notice, step, round, patience);
  return notice;
}

void Peers::exchange(Notice& notice, std::uint64_t step, std::uint32_t round,
                     Nanoseconds patience) {
  const Message own = notice_message(notice, step, round);
  for (const TransportPtr& end : transports_) end->send(own, deadline_in(patience));
  for (const TransportPtr& end : transports_) {
    const std::optional<Message> message = end->receive(deadline_in(patience));
    if (!message) {
      fail(ErrorCode::kUnavailable, "boundary '{}': the part at the other end has closed",
           end->binding().name);
    }
    if (message->kind != MessageKind::kControl || message->step != step ||
        message->micro_batch != round) {
      fail(
          ErrorCode::kDataLoss,
          "boundary '{}': control of step {}, round {} was due, {} of step {}, number {} came; the "
          "two parts are out of step: start both from the same checkpoint",
          end->binding().name, step + 1, round, message_kind_name(message->kind), message->step + 1,
          message->micro_batch);
    }
    notice.merge(decode_notice(*message));
  }
}

void Peers::close(Nanoseconds patience) noexcept {
  const Deadline deadline = deadline_in(patience);
  for (const TransportPtr& end : transports_) {
    try {
      end->close(deadline);
    } catch (const std::exception& error) {
      log_warn("schedule", "closing boundary '{}': {}", end->binding().name, error.what());
    }
  }
  abandon();
}

void Peers::abandon() {
  ends_.entering.clear();
  ends_.leaving.clear();
  ends_.taken.clear();
  transports_.clear();
}

}  // namespace harmonics
