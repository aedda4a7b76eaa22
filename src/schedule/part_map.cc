#include "part_map.h"

#include <algorithm>
#include <deque>
#include <functional>

#include <harmonics/base/error.h>

namespace harmonics {

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
}

// For the part that was added last.
void PartMap::claim(Claims& claims, const BoundaryEnd& end, std::string_view does) {
  const auto [place, fresh] = claims.emplace(end.name, Claim{parts_.size() - 1, end.gradients});
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

std::size_t PartMap::diameter() const {
  std::vector<std::vector<std::size_t>> near(parts_.size());
  for (const auto& [boundary, sender] : senders_) {
    const std::size_t to = receivers_.at(boundary).part;
    near[sender.part].push_back(to);
    near[to].push_back(sender.part);
  }
  std::size_t farthest = 0;
  for (std::size_t start = 0; start < parts_.size(); ++start) {
    std::map<std::size_t, std::size_t> distance{{start, 0}};
    std::deque<std::size_t> next{start};
    while (!next.empty()) {
      const std::size_t here = next.front();
      next.pop_front();
      farthest = std::max(farthest, distance[here]);
      for (const std::size_t there : near[here]) {
        if (distance.emplace(there, distance[here] + 1).second) next.push_back(there);
      }
    }
  }
  return farthest;
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
  if (own == parts_.end()) {
    fail(ErrorCode::kInternal, "part '{}' is not on its own map", record.name);
  }
  return depth(static_cast<std::size_t>(own - parts_.begin()));
}

}  // namespace harmonics
