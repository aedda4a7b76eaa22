#include "host_match.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace harmonics::inline in_plan {
namespace {

constexpr std::size_t kNobody = std::numeric_limits<std::size_t>::max();

// The Hungarian method: slots come one by one, and each takes the cheapest chain of displacements,
// measured with the potentials that the earlier ones left.
class Hungarian {
 public:
  explicit Hungarian(const std::vector<std::vector<double>>& worth)
      : worth_(worth),
        hosts_(worth.front().size()),
        slot_potential_(worth.size(), 0),
        host_potential_(hosts_, 0),
        slot_of_(hosts_, kNobody) {}

  std::vector<std::size_t> run() {
    for (std::size_t slot = 0; slot < worth_.size(); ++slot) place(slot);
    std::vector<std::size_t> result(worth_.size());
    for (std::size_t host = 0; host < hosts_; ++host) {
      if (slot_of_[host] != kNobody) result[slot_of_[host]] = host;
    }
    return result;
  }

 private:
  void place(std::size_t first) {
    std::vector<double> least(hosts_, std::numeric_limits<double>::infinity());
    std::vector<std::size_t> before(hosts_, kNobody);  // the host from which a chain came here
    std::vector<bool> settled(hosts_, false);
    std::size_t slot = first;
    std::size_t host = kNobody;
    do {
      std::size_t next = kNobody;
      for (std::size_t h = 0; h < hosts_; ++h) {
        if (settled[h]) continue;
        const double cost = -worth_[slot][h] - slot_potential_[slot] - host_potential_[h];
        if (cost < least[h]) {
          least[h] = cost;
          before[h] = host;
        }
        if (next == kNobody || least[h] < least[next]) next = h;
      }
      const double step = least[next];
      slot_potential_[first] += step;
      for (std::size_t h = 0; h < hosts_; ++h) {
        if (settled[h]) {
          slot_potential_[slot_of_[h]] += step;
          host_potential_[h] -= step;
        } else {
          least[h] -= step;
        }
      }
      settled[next] = true;
      host = next;
      slot = slot_of_[host];
    } while (slot != kNobody);
    while (host != kNobody) {
      const std::size_t from = before[host];
      slot_of_[host] = from == kNobody ? first : slot_of_[from];
      host = from;
    }
  }

  const std::vector<std::vector<double>>& worth_;
  std::size_t hosts_;
  std::vector<double> slot_potential_;
  std::vector<double> host_potential_;
  std::vector<std::size_t> slot_of_;
};

std::vector<std::size_t> match_greedily(const std::vector<std::vector<double>>& worth) {
  std::vector<std::tuple<double, std::size_t, std::size_t>> pairs;
  for (std::size_t slot = 0; slot < worth.size(); ++slot) {
    for (std::size_t host = 0; host < worth[slot].size(); ++host) {
      if (worth[slot][host] > 0) pairs.emplace_back(-worth[slot][host], slot, host);
    }
  }
  std::ranges::sort(pairs);
  std::vector<std::size_t> result(worth.size(), kNobody);
  std::vector<bool> taken(worth.front().size(), false);
  for (const auto& [cost, slot, host] : pairs) {
    if (result[slot] != kNobody || taken[host]) continue;
    result[slot] = host;
    taken[host] = true;
  }
  std::size_t free = 0;
  for (std::size_t& host : result) {
    if (host != kNobody) continue;
    while (taken[free]) ++free;
    taken[free] = true;
    host = free;
  }
  return result;
}

}  // namespace

std::vector<std::size_t> match_hosts(const std::vector<std::vector<double>>& worth) {
  if (worth.empty()) return {};
  return worth.size() <= kMaxExactSlots ? Hungarian(worth).run() : match_greedily(worth);
}

}  // namespace harmonics::inline in_plan
