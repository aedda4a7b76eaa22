#include "turns.h"

#include <algorithm>
#include <utility>

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
    const auto known = next_.find(group_of(turn));
    from = known == next_.end() ? horizon_ : known->second;
  }
  return std::max(turn.front, from);
}

bool Sweep::stop(const std::vector<Turn>& left) {
  std::map<Group, TaskId> next;
  for (const Turn& turn : left) {
    const TaskId from = resume(turn);
    if (from < horizon_) next.emplace(group_of(turn), from);
  }
  next_ = std::move(next);
  under_way_ = !next_.empty();
  return under_way_ || again_ != Change::kNone;
}

bool Line::Later::operator()(const Turn& a, const Turn& b) const {
  if (a.priority != b.priority) return a.priority < b.priority;
  if (levels_first && a.level != b.level) return a.level > b.level;
  if (a.user != b.user) {
    const std::uint64_t share_a = a.held * b.user->quota.weight;
    const std::uint64_t share_b = b.held * a.user->quota.weight;
    if (share_a != share_b) return share_a > share_b;
  } else if (a.held != b.held) {
    return a.held > b.held;
  }
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

bool Line::waits_longer(const Crowd& a, const Crowd& b) {
  if (a.priority != b.priority) return a.priority < b.priority;
  return a.held * b.user->quota.weight > b.held * a.user->quota.weight;
}

Line::Line(const StateTables& tables, const Ranking& ranking)
    : tables_(tables),
      ranking_(ranking),
      later_{.levels_first = ranking.policy.rule() != OrderRule::kShares} {
  for (const auto& [key, groups] : tables.queue.crowds()) {
    const UserRecord& user = tables.known_user(key.user);
    const Crowd crowd{-key.order, &user, held_by(user)};
    if (later_.levels_first) {
      line_up(crowd, groups);
    } else {
      crowds_.push_back(crowd);
    }
  }
  std::ranges::make_heap(crowds_, waits_longer);
  std::ranges::make_heap(turns_, later_);
}

bool Line::empty() {
  while (turns_.empty() && !crowds_.empty()) line_up_first_crowd();
  return turns_.empty();
}

// Of equals the level decides, which only those have that are lined up.
bool Line::crowd_may_be_first() const {
  if (crowds_.empty()) return false;
  if (turns_.empty()) return true;
  const Turn& turn = turns_.front();
  return !waits_longer(crowds_.front(), {turn.priority, turn.user, turn.held});
}

void Line::line_up_first_crowd() {
  std::ranges::pop_heap(crowds_, waits_longer);
  Crowd& crowd = crowds_.back();
  if (const std::uint64_t held = held_by(*crowd.user); held != crowd.held) {
    crowd.held = held;
    std::ranges::push_heap(crowds_, waits_longer);
    return;
  }
  const Crowd first = crowd;
  crowds_.pop_back();
  const auto before = static_cast<std::ptrdiff_t>(turns_.size());
  line_up(first);
  if (before == 0) {
    std::ranges::make_heap(turns_, later_);
  } else {
    for (auto end = turns_.begin() + before; end != turns_.end();) {
      std::push_heap(turns_.begin(), ++end, later_);
    }
  }
}

void Line::line_up(const Crowd& crowd) {
  const TaskQueue::Crowds& crowds = tables_.queue.crowds();
  const auto groups = crowds.find({-crowd.priority, crowd.user->name});
  if (groups != crowds.end()) line_up(crowd, groups->second);
}

void Line::line_up(const Crowd& crowd, const TaskQueue::Groups& groups) {
  for (const auto& [level, group] : groups) {
    const auto& [front, lane] = *group.begin();
    Turn turn{&group, crowd.priority, level, 0, crowd.user, crowd.held, front, lane};
    if (sweep_ != nullptr && !go_on(turn)) continue;
    turn.level = ranking_.level(tables_.known_task(turn.front));
    turns_.push_back(turn);
  }
}

void Line::push(const Turn& turn) {
  turns_.push_back(turn);
  std::ranges::push_heap(turns_, later_);
}

bool Line::go_on(Turn& turn) const {
  const auto from = turn.group->lower_bound(sweep_->resume(turn));
  if (from == turn.group->end() || from->first >= end_) return false;
  turn.front = from->first;
  turn.lane = from->second;
  return true;
}

Turn Line::take() {
  while (true) {
    while (crowd_may_be_first()) line_up_first_crowd();
    HARMONICS_CHECK(!turns_.empty(), "a turn is taken and nobody is in line");
    std::ranges::pop_heap(turns_, later_);
    Turn& turn = turns_.back();
    const std::uint64_t held = held_by(*turn.user);
    if (held == turn.held) {
      const Turn first = turn;
      turns_.pop_back();
      return first;
    }
    HARMONICS_CHECK(held > turn.held, "user '{}' holds less than as the pass began",
                    turn.user->name);
    turn.held = held;
    std::ranges::push_heap(turns_, later_);
  }
}

void Line::next(Turn turn) {
  const auto after = turn.group->upper_bound(turn.front);
  if (after == turn.group->end() || after->first >= end_) return;
  turn.front = after->first;
  turn.lane = after->second;
  turn.level = ranking_.level(tables_.known_task(turn.front));
  turn.held = held_by(*turn.user);
  push(turn);
}

void Line::resume(const Sweep& sweep) {
  sweep_ = &sweep;
  end_ = sweep.end();
  std::erase_if(turns_, [&](Turn& turn) {
    const TaskId before = turn.front;
    if (!go_on(turn)) return true;
    if (turn.front != before) turn.level = ranking_.level(tables_.known_task(turn.front));
    return false;
  });
  std::ranges::make_heap(turns_, later_);
}

void Line::clear() {
  turns_.clear();
  crowds_.clear();
}

void Line::started(const TaskQueue::Fronts* group, TaskId task, bool gone) {
  std::erase_if(turns_, [&](Turn& turn) {
    if (turn.group != group) return false;
    if (gone) return true;
    if (turn.front != task) return false;
    const auto after = group->upper_bound(task);
    if (after == group->end() || after->first >= end_) return true;
    turn.front = after->first;
    turn.lane = after->second;
    turn.level = ranking_.level(tables_.known_task(turn.front));
    return false;
  });
  std::ranges::make_heap(turns_, later_);
}

std::vector<Turn> Line::left() {
  for (const Crowd& crowd : std::exchange(crowds_, {})) line_up(crowd);
  return std::exchange(turns_, {});
}

}  // namespace harmonics::inline in_cluster
