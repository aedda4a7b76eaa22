#include <harmonics/store/store.h>

#include <harmonics/base/error.h>

#include "guarded_store.h"

namespace harmonics::inline in_store {

bool should_compact(const Store::Sizes& sizes) {
  return sizes.journal_bytes > kMinJournalBytes && sizes.journal_bytes > 2 * sizes.snapshot_bytes;
}

ClusterState load_state(Store& store) {
  ClusterState state;
  store.load([&](Fact&& fact) { state.apply(fact); });
  return state;
}

template <typename Action>
void GuardedStore::guarded(Action action) {
  if (stage_ == Stage::kFailed) {
    fail(ErrorCode::kFailedPrecondition,
         "the store failed before; open it anew, since only reading it back tells what it holds");
  }
  const Stage before = std::exchange(stage_, Stage::kFailed);
  stage_ = action(before);
}

void GuardedStore::lead(Nanoseconds timeout) {
  if (stage_ == Stage::kLeads || stage_ == Stage::kLoaded) return;
  guarded([&](Stage) {
    do_lead(timeout);
    return Stage::kLeads;
  });
}

void GuardedStore::load(const std::function<void(Fact&&)>& visit) {
  if (stage_ == Stage::kOpen) {
    fail(ErrorCode::kFailedPrecondition, "the store must lead before it is loaded");
  }
  guarded([&](Stage) {
    sizes_ = {};
    do_load(visit);
    return Stage::kLoaded;
  });
}

void GuardedStore::append(std::span<const Fact> facts) {
  if (stage_ == Stage::kOpen || stage_ == Stage::kLeads) {
    fail(ErrorCode::kFailedPrecondition, "the store must be loaded before it is appended to");
  }
  guarded([&](Stage before) {
    do_append(facts);
    return before;
  });
}

void GuardedStore::compact(const ClusterState& state) {
  if (stage_ == Stage::kOpen || stage_ == Stage::kLeads) {
    fail(ErrorCode::kFailedPrecondition, "the store must be loaded before it is compacted");
  }
  guarded([&](Stage before) {
    do_compact(state);
    return before;
  });
}

std::unique_ptr<Store> open_store(const std::string& where) {
  if (where.starts_with("postgres://") || where.starts_with("postgresql://")) {
    return open_postgres_store(where);
  }
  if (where == "memory:") return open_memory_store(make_memory_disk());
  return open_sqlite_store(where);
}

}  // namespace harmonics::inline in_store
