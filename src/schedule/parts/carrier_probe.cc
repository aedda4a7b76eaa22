#include "carrier_probe.h"

#include <algorithm>
#include <chrono>
#include <ranges>
#include <string>
#include <utility>

#include <harmonics/base/clock.h>
#include <harmonics/base/error.h>
#include <harmonics/base/number_text.h>
#include <harmonics/base/random.h>

namespace harmonics::inline in_schedule {
namespace {

constexpr int kCarrierPings = 4;
constexpr std::int64_t kProbeGrowth = 4;
// A block is long enough when it takes so long, and so many round trips: until then a connection is
// still finding out how much it may send.
constexpr std::chrono::milliseconds kLongEnough(50);
constexpr int kRoundTrips = 6;

/// One boundary of this part, and how long its other end may take.
struct ProbedEnd {
  const std::string& name;
  Transport& transport;
  Nanoseconds patience;
};

std::uint32_t receive_mark(const ProbedEnd& end) {
  const std::optional<Message> message = end.transport.receive(deadline_in(end.patience));
  if (!message) {
    fail(ErrorCode::kUnavailable, "boundary '{}': the part at its other end has closed", end.name);
  }
  const bool is_probe = message->kind == MessageKind::kControl &&
                        message->micro_batch >= kCarrierProbe &&
                        message->micro_batch <= kCarrierProbeEnd;
  if (is_probe) return message->micro_batch;
  fail(ErrorCode::kInvalidArgument,
       "boundary '{}': its link was to be measured, {} came: give all parts the same plan (its "
       "list, or its report)",
       end.name, message_kind_name(message->kind));
}

void send_mark(const ProbedEnd& end, std::uint32_t mark, Tensor tensor = {}) {
  end.transport.send({MessageKind::kControl, 0, mark, std::move(tensor), {}},
                     deadline_in(end.patience));
}

// Until the other end has answered.
Nanoseconds round_trip(const ProbedEnd& end, const Tensor& tensor) {
  const SteadyClock clock;
  const Nanoseconds begun = clock.now();
  send_mark(end, kCarrierProbe, tensor);
  if (receive_mark(end) != kCarrierAnswer) {
    fail(ErrorCode::kDataLoss, "boundary '{}': an answer to a measurement was due", end.name);
  }
  return clock.now() - begun;
}

Tensor noise(std::int64_t bytes) {
  Tensor tensor = Tensor::empty({bytes}, DType::kUInt8);
  Random random(static_cast<std::uint64_t>(bytes), "link probe");
  for (std::uint8_t& value : tensor.mutable_values<std::uint8_t>()) {
    value = static_cast<std::uint8_t>(random.below(256));
  }
  return tensor;
}

CarrierMeasure measured_carrier(const ProbedEnd& end) {
  Nanoseconds trip = Nanoseconds::max();
  for (int i = 0; i < kCarrierPings; ++i) trip = std::min(trip, round_trip(end, {}));
  CarrierMeasure link{end.name, trip / 2, 0};
  const Nanoseconds enough = std::max<Nanoseconds>(kLongEnough, kRoundTrips * trip);
  const Tensor block = noise(kLastProbeBytes);
  for (std::int64_t bytes = kFirstProbeBytes;; bytes *= kProbeGrowth) {
    const Tensor sent = block.slice(0, bytes);
    Nanoseconds took = round_trip(end, sent) - trip;
    const bool is_last = took >= enough || bytes == kLastProbeBytes;
    if (!is_last) continue;
    took = std::max(Nanoseconds(1), std::min(took, round_trip(end, sent) - trip));
    link.bytes_per_s = static_cast<double>(bytes) / in_seconds(took);
    break;
  }
  send_mark(end, kCarrierProbeEnd);
  return link;
}

void answer_probes(const ProbedEnd& end) {
  while (receive_mark(end) == kCarrierProbe) send_mark(end, kCarrierAnswer);
}

// The number of the part that takes a boundary, which its name ends with.
std::uint64_t taker_of(std::string_view boundary) {
  const auto number = number_from<std::uint64_t>(boundary.substr(boundary.rfind('@') + 1));
  return number.value_or(0);
}

}  // namespace

std::vector<CarrierMeasure> probe_carriers(StageEnds& ends, Nanoseconds patience) {
  for (const auto& [name, end] : ends.entering) {
    for (Transport* const channel : end.channels) answer_probes({name, *channel, patience});
  }
  std::vector<std::pair<std::uint64_t, const std::string*>> leaving;
  for (const auto& [name, end] : ends.leaving) leaving.emplace_back(taker_of(name), &name);
  std::ranges::sort(leaving, {}, [](const auto& one) { return std::pair(one.first, *one.second); });
  std::vector<CarrierMeasure> links;
  for (const auto& [taker, name] : leaving) {
    const BoundaryCarrier& end = ends.leaving.find(*name)->second;
    links.push_back(measured_carrier({*name, *end.channels.front(), patience}));
    for (Transport* const channel : end.channels | std::views::drop(1)) {
      const CarrierMeasure other = measured_carrier({*name, *channel, patience});
      if (other.bytes_per_s < links.back().bytes_per_s) links.back() = other;
    }
  }
  return links;
}

}  // namespace harmonics::inline in_schedule
