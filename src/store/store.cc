#include <harmonics/store/store.h>

namespace harmonics {

bool should_compact(const Store::Sizes& sizes) {
  return sizes.journal_bytes > kMinJournalBytes && sizes.journal_bytes > 2 * sizes.snapshot_bytes;
}

ClusterState load_state(Store& store) {
  ClusterState state;
  store.load([&](Fact&& fact) { state.apply(fact); });
  return state;
}

}  // namespace harmonics
