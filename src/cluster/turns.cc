#include "turns.h"

#include <algorithm>

#include <harmonics/base/check.h>

namespace harmonics::inline in_cluster {

std::uint64_t held_by(const UserRecord& user) { return std::max(user.gpus(), user.active); }

void Sweep::begin(Change change, TaskId next_task) {
  again_ = std::max(again_, change);
  resuming_ = under_way_;
  if (under_way_) return;
  under_way_ = true;
  floor_ = again_ == Change::kAny ? TaskId{} : horizon_;
  horizon_ = next_task;
  again_ = Change::kNone;
}

TaskId Sweep::resume(const Turn& turn) const {
  TaskId from = floor_;
  if (resuming_) {
    const auto known = next_.find(turn.group->first);
    from = known == next_.end() ? horizon_ : known->second;
  }
  return std::max(turn.front, from);
}

bool Sweep::stop(const std::vector<Turn>& left) {
  std::map<GroupKey, TaskId> next;
  for (const Turn& turn : left) {
    const TaskId from = resume(turn);
    if (from < horizon_) next.emplace(turn.group->first, from);
  }
  next_ = std::move(next);
  under_way_ = !next_.empty();
  return under_way_ || again_ != Change::kNone;
}

bool Line::Later::operator()(const Turn& a, const Turn& b) const {
  if (a.priority != b.priority) return a.priority < b.priority;
  if (levels_first && a.level != b.level) return a.level > b.level;
  const std::uint64_t share_a = a.held * b.user->quota.weight;
  const std::uint64_t share_b = b.held * a.user->quota.weight;
  if (share_a != share_b) return share_a > share_b;
  if (a.level != b.level) return a.level > b.level;
  return a.front > b.front;
}

std::uint32_t Ranking::level(const TaskRecord& task) const {
  if (task.id == head && policy.rule() == OrderRule::kShares) return 0;
  const auto* active = std::get_if<Active>(&task.state);
  const Time until = active == nullptr ? now : active->since;
  const Nanoseconds waited = std::max(until - task.submission->at - task.ran, Nanoseconds{});
  return policy.level({task.spec(), waited, task.ran + std::max(now - until, Nanoseconds{})});
}

Line::Line(const StateTables& tables, const Ranking& ranking)
    : tables_(tables),
      ranking_(ranking),
      levels_first_(ranking.policy.rule() != OrderRule::kShares) {
  std::vector<Turn> turns;
  turns.reserve(tables.queue.groups().size());
  for (const auto& group : tables.queue.groups()) {
    const UserRecord& user = tables.known_user(group.first.user);
    const auto& [front, lane] = *group.second.begin();
    turns.push_back({&group, -group.first.order, ranking.level(tables.known_task(front)), &user,
                     held_by(user), front, lane});
  }
  set(std::move(turns));
}

Turn Line::take() {
  while (true) {
    HARMONICS_CHECK(!turns_.empty(), "a turn is taken and nobody is in line");
    Turn turn = turns_.top();
    turns_.pop();
    const std::uint64_t held = held_by(*turn.user);
    if (held == turn.held) return turn;
    HARMONICS_CHECK(held > turn.held, "user '{}' holds less than as the pass began",
                    turn.user->name);
    turn.held = held;
    turns_.push(turn);
  }
}

void Line::next(Turn turn) {
  const auto after = turn.group->second.upper_bound(turn.front);
  if (after == turn.group->second.end() || after->first >= end_) return;
  turn.front = after->first;
  turn.lane = after->second;
  turn.level = ranking_.level(tables_.known_task(turn.front));
  turn.held = held_by(*turn.user);
  turns_.push(turn);
}

void Line::resume(const Sweep& sweep) {
  end_ = sweep.end();
  std::vector<Turn> kept;
  for (Turn& turn : left()) {
    const auto from = turn.group->second.lower_bound(sweep.resume(turn));
    if (from == turn.group->second.end() || from->first >= end_) continue;
    turn.front = from->first;
    turn.lane = from->second;
    turn.level = ranking_.level(tables_.known_task(turn.front));
    kept.push_back(turn);
  }
  set(std::move(kept));
}

void Line::forget(const LaneKey& lane) {
  std::vector<Turn> kept = left();
  std::erase_if(kept, [&](const Turn& turn) { return turn.group->first == group_of(lane); });
  set(std::move(kept));
}

std::vector<Turn> Line::left() {
  std::vector<Turn> left;
  left.reserve(turns_.size());
  for (; !turns_.empty(); turns_.pop()) left.push_back(turns_.top());
  return left;
}

}  // namespace harmonics::inline in_cluster
