#include "replica_keeper.h"

#include <algorithm>
#include <utility>

#include <harmonics/base/error.h>

namespace harmonics::inline in_torch_program {

ReplicaKeeper::ReplicaKeeper(std::size_t replicas, std::filesystem::path state_file,
                             ChoosePlaces places)
    : replicas_(replicas), state_file_(std::move(state_file)), choose_places_(std::move(places)) {}

void ReplicaKeeper::started(std::size_t replica) {
  replicas_[replica] = {};
  replicas_[replica].state = State::kStarting;
}

void ReplicaKeeper::ended(std::size_t replica) {
  if (replicas_[replica].state == State::kDone) return;
  lost_one_ = lost_one_ || replicas_[replica].belongs;
  replicas_[replica] = {};
  if (saving_ == replica) saving_.reset();
}

void ReplicaKeeper::done(std::size_t replica, std::uint64_t steps) {
  replicas_[replica].state = State::kDone;
  done_steps_ = std::max(done_steps_, steps);
}

void ReplicaKeeper::heard(std::size_t replica, const KeeperNews& news) {
  if (news.kind == KeeperNews::Kind::kSaved) {
    saved_ = saved_ || saving_ == replica;
    return;
  }
  replicas_[replica].state = State::kStanding;
  replicas_[replica].standing = news.standing;
  // It lost somebody who may live: a link that does not heal.
  if (replicas_[replica].belongs && !news.standing.between_steps) lost_one_ = true;
}

bool ReplicaKeeper::lives(const Replica& replica) const {
  return replica.state == State::kStarting || replica.state == State::kComputing ||
         replica.state == State::kStanding;
}

std::vector<std::size_t> ReplicaKeeper::survivors() const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    // Before the first group there are only newcomers, which make it together.
    if (lives(replicas_[i]) && (replicas_[i].belongs || generation_ == 0)) found.push_back(i);
  }
  return found;
}

bool ReplicaKeeper::takes_part(std::size_t replica) const {
  const std::vector<std::size_t> all = survivors();
  return std::ranges::find(all, replica) != all.end();
}

std::vector<std::size_t> ReplicaKeeper::newcomers() const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    const Replica& one = replicas_[i];
    if (one.state == State::kStanding && !one.belongs && generation_ > 0) found.push_back(i);
  }
  return found;
}

bool ReplicaKeeper::has_lost_all() const {
  const bool some_done =
      std::ranges::any_of(replicas_, [](const Replica& one) { return one.state == State::kDone; });
  return survivors().empty() && !some_done;
}

bool ReplicaKeeper::waits_for_standing() const {
  return std::ranges::any_of(
      replicas_, [](const Replica& one) { return one.belongs && one.state == State::kStanding; });
}

std::vector<std::size_t> ReplicaKeeper::laggards() const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    if (replicas_[i].belongs && replicas_[i].state == State::kComputing) found.push_back(i);
  }
  return found;
}

std::vector<ReplicaKeeper::Addressed> ReplicaKeeper::orders() {
  std::vector<Addressed> all;
  call_together(all);
  make_group(all);
  return all;
}

void ReplicaKeeper::call_together(std::vector<Addressed>& orders) {
  if (generation_ == 0) return;
  const bool wanted = !newcomers().empty();
  for (const std::size_t i : survivors()) {
    Replica& one = replicas_[i];
    if (one.state != State::kComputing) continue;
    if (lost_one_ && one.told_to_regroup != generation_) {
      one.told_to_regroup = generation_;
      orders.push_back({i, {KeeperOrder::Kind::kRegroup, generation_}});
    }
    if (wanted && !one.told_of_newcomer) {
      one.told_of_newcomer = true;
      orders.push_back({i, {KeeperOrder::Kind::kNewcomer, generation_}});
    }
  }
}

std::uint64_t ReplicaKeeper::newest_steps() const {
  std::uint64_t newest = done_steps_;
  for (const std::size_t i : survivors()) newest = std::max(newest, replicas_[i].standing.steps);
  return newest;
}

void ReplicaKeeper::make_group(std::vector<Addressed>& orders) {
  std::vector<std::size_t> members = survivors();
  const auto stands = [&](std::size_t i) { return replicas_[i].state == State::kStanding; };
  if (members.empty() || !std::ranges::all_of(members, stands)) return;
  const bool between = std::ranges::all_of(
      members, [&](std::size_t i) { return replicas_[i].standing.between_steps; });
  const std::uint64_t steps = newest_steps();
  const std::vector<std::size_t> loaders = between ? newcomers() : std::vector<std::size_t>{};
  if (loaders.empty()) {
    form(members, {}, steps, orders);
    return;
  }
  if (!saving_) {
    const auto giver = std::ranges::find_if(
        members, [&](std::size_t i) { return replicas_[i].standing.steps == steps; });
    if (giver == members.end()) return;
    saving_ = *giver;
    saved_ = false;
    KeeperOrder save{KeeperOrder::Kind::kSave, generation_};
    save.file = state_file_;
    orders.push_back({*giver, std::move(save)});
  }
  if (!saved_) return;
  members.insert(members.end(), loaders.begin(), loaders.end());
  std::ranges::sort(members);
  form(members, loaders, steps, orders);
}

void ReplicaKeeper::form(const std::vector<std::size_t>& members,
                         const std::vector<std::size_t>& loaders, std::uint64_t steps,
                         std::vector<Addressed>& orders) {
  KeeperOrder group{KeeperOrder::Kind::kGroup, ++generation_};
  group.members = members;
  group.places = choose_places_(members.size());
  for (const std::size_t i : members) {
    const ReplicaStanding& standing = replicas_[i].standing;
    const bool loads = std::ranges::find(loaders, i) != loaders.end();
    if (!loads && standing.steps == steps) group.shares = standing.shares;
  }
  for (const std::size_t i : members) {
    const ReplicaStanding& standing = replicas_[i].standing;
    const bool loads = std::ranges::find(loaders, i) != loaders.end();
    KeeperOrder own = group;
    if (loads) {
      own.file = state_file_;
    } else if (standing.steps != steps) {
      own.take_over = standing.steps + 1 == steps && standing.holds_sums;
      if (!own.take_over) {
        fail(ErrorCode::kFailedPrecondition,
             "replica {} is at step {}, others at {}: start all from the same checkpoint", i,
             standing.steps + 1, steps + 1);
      }
    }
    orders.push_back({i, std::move(own)});
    replicas_[i] = {};
    replicas_[i].state = State::kComputing;
    replicas_[i].belongs = true;
  }
  lost_one_ = false;
  saving_.reset();
  saved_ = false;
}

}  // namespace harmonics::inline in_torch_program
