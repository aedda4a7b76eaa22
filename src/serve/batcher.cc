#include "batcher.h"

#include <algorithm>

namespace harmonics::inline in_serve {

bool Batcher::admit(const Waiting& request) {
  if (waiting_rows_ + request.rows > terms_.queue_rows) return false;
  waiting_.push_back(request);
  waiting_rows_ += request.rows;
  return true;
}

Batcher::Front Batcher::front() const {
  if (waiting_.empty()) return {};
  if (terms_.alone || waiting_.front().rows > terms_.rows) return {1, true};
  Front found;
  std::int64_t rows = 0;
  for (const Waiting& request : waiting_) {
    if (rows + request.rows > terms_.rows) {
      found.full = true;
      break;
    }
    rows += request.rows;
    ++found.count;
  }
  found.full = found.full || rows == terms_.rows;
  return found;
}

std::vector<std::uint64_t> Batcher::take(Nanoseconds now, bool hurry) {
  const Front ready = front();
  std::vector<std::uint64_t> tickets;
  if (ready.count == 0) return tickets;
  if (!ready.full && !hurry && now < waiting_.front().arrived + terms_.max_wait) return tickets;
  for (std::size_t i = 0; i < ready.count; ++i) {
    tickets.push_back(waiting_.front().ticket);
    waiting_rows_ -= waiting_.front().rows;
    waiting_.pop_front();
  }
  return tickets;
}

std::optional<Nanoseconds> Batcher::due() const {
  const Front ready = front();
  if (ready.count == 0) return std::nullopt;
  return ready.full ? waiting_.front().arrived : waiting_.front().arrived + terms_.max_wait;
}

std::vector<std::uint64_t> Batcher::expire(Nanoseconds now) {
  std::vector<std::uint64_t> tickets;
  for (const Waiting& request : waiting_) {
    if (request.expires <= now) tickets.push_back(request.ticket);
  }
  for (const std::uint64_t ticket : tickets) remove(ticket);
  return tickets;
}

std::optional<Nanoseconds> Batcher::next_expiry() const {
  if (waiting_.empty()) return std::nullopt;
  return std::ranges::min_element(waiting_, {}, &Waiting::expires)->expires;
}

bool Batcher::remove(std::uint64_t ticket) {
  const auto found = std::ranges::find(waiting_, ticket, &Waiting::ticket);
  if (found == waiting_.end()) return false;
  waiting_rows_ -= found->rows;
  waiting_.erase(found);
  return true;
}

}  // namespace harmonics::inline in_serve
