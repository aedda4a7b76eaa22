#include "part_map.h"

#include <algorithm>
#include <deque>
#include <functional>

#include <harmonics/base/check.h>
#include <harmonics/base/error.h>
#include <harmonics/schedule/part_copies.h>

namespace harmonics::inline in_schedule {

void PartMap::add(const PartRecord& record) {
  if (std::ranges::find(parts_, record) != parts_.end()) return;
  if (parts_.size() == kMaxRemoteParts) {
    fail(ErrorCode::kResourceExhausted, "a run has at most {} parts; '{}' is one more",
         kMaxRemoteParts, record.name);
  }
  check_settings(record);
  parts_.push_back(record);
  for (const BoundaryEnd& end : record.leaving) claim(senders_, end, "send");
  for (const BoundaryEnd& end : record.entering) claim(receivers_, end, "take");
  for (const BoundaryEnd& end : record.leaving) check_bits_agree(end.name);
  for (const BoundaryEnd& end : record.entering) check_bits_agree(end.name);
}

void PartMap::check_bits_agree(const std::string& boundary) const {
  const auto sender = senders_.find(boundary);
  const auto receiver = receivers_.find(boundary);
  if (sender == senders_.end() || receiver == receivers_.end()) return;
  const auto same = [&](std::string_view what, int sent, int taken) {
    if (sent == taken) return;
    const auto told = [](int bits) { return bits == 0 ? kExactBits : bits; };
    fail(ErrorCode::kFailedPrecondition,
         "boundary '{}': {} have {} bits in part '{}' and {} in part '{}'; give both ends the same "
         "(--boundary-bits and --gradient-bits, or bits= and gradient_bits= in their URLs)",
         boundary, what, told(sent), parts_[sender->second.part].name, told(taken),
         parts_[receiver->second.part].name);
  };
  same("activations", sender->second.bits.activations, receiver->second.bits.activations);
  same("gradients", sender->second.bits.gradients, receiver->second.bits.gradients);
}

// For the part that was added last.
void PartMap::claim(Claims& claims, const BoundaryEnd& end, std::string_view does) {
  const auto [place, fresh] =
      claims.emplace(end.name, Claim{parts_.size() - 1, end.gradients, end.bits});
  if (fresh) return;
  fail(ErrorCode::kAlreadyExists, "parts '{}' and '{}' both {} boundary '{}'",
       parts_[place->second.part].name, parts_.back().name, does, end.name);
}

void PartMap::check_settings(const PartRecord& record) const {
  if (parts_.empty()) return;
  const PartRecord& first = parts_.front();
  const auto same = [&](std::string_view what, const auto& here, const auto& there) {
    if (here == there) return;
    fail(ErrorCode::kFailedPrecondition,
         "{} is {} in part '{}' and {} in part '{}': all parts of a run need the same", what, here,
         first.name, there, record.name);
  };
  same("the seed", first.seed, record.seed);
  same("the number of micro-batches", first.micro_batches, record.micro_batches);
  same("the norm to clip at", first.clip_norm, record.clip_norm);
  same("the precision", first.precision, record.precision);
  same("the pipeline order", first.order, record.order);
  same("the number of steps done", first.steps, record.steps);
}

bool PartMap::closed() const {
  const auto by_name = [](const auto& a, const auto& b) { return a.first == b.first; };
  return std::ranges::equal(senders_, receivers_, by_name);
}

bool PartMap::learns() const { return std::ranges::any_of(parts_, &PartRecord::learns); }

void PartMap::check_gradients() const {
  for (const auto& [boundary, sender] : senders_) {
    const Claim& receiver = receivers_.at(boundary);
    if (sender.gradients == receiver.gradients) continue;
    fail(ErrorCode::kInvalidArgument,
         "boundary '{}': part '{}' waits for {} gradients and part '{}' sends {}; declare the same "
         "number at both ends",
         boundary, parts_[sender.part].name, sender.gradients, parts_[receiver.part].name,
         receiver.gradients);
  }
}

std::string PartMap::home_of(std::size_t part) const {
  const PartRecord& record = parts_[part];
  return record.home.empty() ? part_key(record) : record.home;
}

std::size_t PartMap::diameter() const {
  std::map<std::string, std::set<std::string>> near;
  for (const auto& [boundary, sender] : senders_) {
    const std::string from = home_of(sender.part);
    const std::string to = home_of(receivers_.at(boundary).part);
    if (from == to) continue;
    near[from].insert(to);
    near[to].insert(from);
  }
  std::size_t farthest = 0;
  for (const auto& [start, neighbours] : near) {
    std::map<std::string, std::size_t> distance{{start, 0}};
    std::deque<std::string> next{start};
    while (!next.empty()) {
      const std::string here = next.front();
      next.pop_front();
      farthest = std::max(farthest, distance[here]);
      for (const std::string& there : near[here]) {
        if (distance.emplace(there, distance[here] + 1).second) next.push_back(there);
      }
    }
  }
  return farthest;
}

std::set<std::string, std::less<>> PartMap::fed_from_outside(const std::string& home) const {
  std::set<std::size_t> below;  // parts of this home, and all that they flow into
  std::deque<std::size_t> next;
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    if (home_of(part) != home) continue;
    below.insert(part);
    next.push_back(part);
  }
  while (!next.empty()) {
    const std::size_t here = next.front();
    next.pop_front();
    for (const BoundaryEnd& end : parts_[here].leaving) {
      const std::size_t there = receivers_.at(end.name).part;
      if (below.insert(there).second) next.push_back(there);
    }
  }
  std::set<std::string, std::less<>> names;
  for (const auto& [boundary, receiver] : receivers_) {
    if (home_of(receiver.part) == home && !below.contains(senders_.at(boundary).part)) {
      names.insert(boundary);
    }
  }
  return names;
}

bool PartMap::all_boundaries_learn() const {
  return std::ranges::all_of(senders_, [&](const auto& sent) {
    const auto& [boundary, sender] = sent;
    return sender.gradients > 0 || home_of(sender.part) == home_of(receivers_.at(boundary).part);
  });
}

std::vector<std::string> PartMap::homes_in_order() const {
  std::map<std::string, std::size_t> depths;  // of the earliest part of a home
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    std::size_t& depth = depths[home_of(part)];
    depth = std::max(depth, depth_of(parts_[part]));
  }
  std::vector<std::string> homes;
  for (const auto& [home, depth] : depths) homes.push_back(home);
  std::ranges::stable_sort(homes, std::ranges::greater(),
                           [&](const std::string& home) { return depths.at(home); });
  return homes;
}

std::size_t PartMap::depth_of(const PartRecord& record) const {
  constexpr std::size_t kUnderWay = 0;
  std::map<std::size_t, std::size_t> depths;
  const std::function<std::size_t(std::size_t)> depth = [&](std::size_t part) {
    const auto [place, fresh] = depths.emplace(part, kUnderWay);
    if (!fresh) {
      if (place->second != kUnderWay) return place->second;
      fail(ErrorCode::kInvalidArgument,
           "the boundaries lead from part '{}' back to it: parts must form no circle",
           parts_[part].name);
    }
    std::size_t below = 0;
    for (const BoundaryEnd& end : parts_[part].leaving) {
      below = std::max(below, depth(receivers_.at(end.name).part));
    }
    return depths[part] = below + 1;
  };
  const auto own = std::ranges::find(parts_, record);
  HARMONICS_CHECK(own != parts_.end(), "part '{}' is not on its own map", record.name);
  return depth(static_cast<std::size_t>(own - parts_.begin()));
}

std::size_t PartMap::passes_ahead(const PartRecord& record) const {
  const std::size_t depth = depth_of(record);
  const bool has_copies = std::ranges::any_of(
      senders_, [](const auto& sent) { return boundary_of(sent.first) != sent.first; });
  if (!has_copies) return depth;
  return static_cast<std::size_t>(std::ranges::count_if(
      parts_, [&](const PartRecord& part) { return depth_of(part) <= depth; }));
}

std::size_t PartMap::span_of(const std::string& boundary) const {
  const PartRecord& sender = parts_[senders_.at(boundary).part];
  const PartRecord& receiver = parts_[receivers_.at(boundary).part];
  const std::size_t first = depth_of(receiver);
  const std::size_t span = depth_of(sender) - first;
  if (boundary_of(boundary) == boundary || span == 1) return span;
  std::map<std::size_t, std::size_t> copies;  // by depth
  for (const PartRecord& part : parts_) ++copies[depth_of(part)];
  std::size_t between = 0;
  for (std::size_t depth = first; depth < first + span; ++depth) between += copies[depth];
  return (between + copies[first] - 1) / copies[first];
}

}  // namespace harmonics::inline in_schedule
