#include <harmonics/schedule/part_copies.h>

#include <algorithm>
#include <numeric>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>

namespace harmonics::inline in_schedule {
namespace {

// No name of a graph has it.
constexpr char kCopyMark = '~';

// Every copy gains its weight at each turn; the one that has most takes it and pays for all.
std::vector<std::uint16_t> round_of(const std::vector<std::uint32_t>& weights) {
  const std::int64_t total = std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
  std::vector<std::int64_t> credit(weights.size(), 0);
  std::vector<std::uint16_t> round;
  for (std::int64_t turn = 0; turn < total; ++turn) {
    for (std::size_t i = 0; i < weights.size(); ++i) credit[i] += weights[i];
    const auto first = std::ranges::max_element(credit);
    *first -= total;
    round.push_back(static_cast<std::uint16_t>(first - credit.begin()));
  }
  return round;
}

struct Seat {
  std::size_t copy;
  std::size_t of;
};

std::string channel_name(const std::string& boundary, Seat from, Seat to) {
  if (from.of == 1 && to.of == 1) return boundary;
  return format("{}{}{}of{}{}{}of{}", boundary, kCopyMark, from.copy, from.of, kCopyMark, to.copy,
                to.of);
}

}  // namespace

CopyTurns::CopyTurns() : CopyTurns(std::vector<std::uint32_t>{1}) {}

CopyTurns::CopyTurns(const std::vector<std::uint32_t>& weights) : weights_(weights) {
  if (weights_.empty() || weights_.size() > kMaxCopies) {
    fail(ErrorCode::kInvalidArgument, "a part has 1 to {} copies, not {}", kMaxCopies,
         weights_.size());
  }
  std::uint32_t divisor = 0;
  for (const std::uint32_t weight : weights_) {
    if (weight < 1 || weight > kMaxTurns) {
      fail(ErrorCode::kInvalidArgument, "a copy has 1 to {} turns in a round, not {}", kMaxTurns,
           weight);
    }
    divisor = std::gcd(divisor, weight);
  }
  for (std::uint32_t& weight : weights_) weight /= divisor;
  round_ = std::make_shared<const std::vector<std::uint16_t>>(round_of(weights_));
}

std::uint64_t CopyTurns::next_of(std::size_t copy, std::uint64_t from) const {
  while (copy_of(from) != copy) ++from;
  return from;
}

double CopyTurns::share_of(std::size_t copy) const {
  return static_cast<double>(weights_.at(copy)) / static_cast<double>(round_->size());
}

const CopyTurns& PartCopies::at(std::string_view boundary) const {
  static const CopyTurns kAlone;
  const auto found = others.find(boundary);
  return found == others.end() ? kAlone : found->second;
}

bool PartCopies::any() const {
  return turns.copies() > 1 ||
         std::ranges::any_of(others, [](const auto& one) { return one.second.copies() > 1; });
}

std::vector<std::string> entering_channels(const PartCopies& copies, const std::string& boundary) {
  const std::size_t senders = copies.at(boundary).copies();
  std::vector<std::string> names;
  for (std::size_t i = 0; i < senders; ++i) {
    names.push_back(channel_name(boundary, {i, senders}, {copies.copy, copies.turns.copies()}));
  }
  return names;
}

std::vector<std::string> leaving_channels(const PartCopies& copies, const std::string& boundary) {
  const std::size_t takers = copies.at(boundary).copies();
  std::vector<std::string> names;
  for (std::size_t i = 0; i < takers; ++i) {
    names.push_back(channel_name(boundary, {copies.copy, copies.turns.copies()}, {i, takers}));
  }
  return names;
}

std::vector<std::string> copy_links(const PartCopies& copies, const std::string& part) {
  std::vector<std::string> names;
  const std::size_t count = copies.turns.copies();
  if (!copies.learns) return names;
  for (std::size_t other = 1; other < count; ++other) {
    if (copies.copy != 0 && copies.copy != other) continue;
    names.push_back(channel_name(part, {0, count}, {other, count}));
  }
  return names;
}

std::string_view boundary_of(std::string_view channel) {
  return channel.substr(0, channel.find(kCopyMark));
}

}  // namespace harmonics::inline in_schedule
