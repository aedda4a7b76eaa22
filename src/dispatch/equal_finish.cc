#include "equal_finish.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace harmonics::inline in_dispatch {

EqualFinish equal_finish(std::span<const Taker> takers, double rows) {
  std::vector<std::size_t> order(takers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return takers[i].ready_s; });
  // With the first k devices at work, T = (rows + sum ready/row) / (sum 1/row); right once the next
  // device would be ready later than that.
  double speed = 0;
  double offset = 0;
  double time = 0;
  for (std::size_t k = 0; k < order.size(); ++k) {
    const Taker& taker = takers[order[k]];
    speed += 1 / taker.row_s;
    offset += taker.ready_s / taker.row_s;
    time = (rows + offset) / speed;
    const double next = k + 1 < order.size() ? takers[order[k + 1]].ready_s
                                             : std::numeric_limits<double>::infinity();
    if (time <= next) break;
  }
  EqualFinish finish{.time_s = time, .rows = std::vector<double>(takers.size(), 0.0)};
  for (std::size_t i = 0; i < takers.size(); ++i) {
    finish.rows[i] = std::max(0.0, (time - takers[i].ready_s) / takers[i].row_s);
  }
  return finish;
}

}  // namespace harmonics::inline in_dispatch
