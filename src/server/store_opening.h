// How a server comes to its store: leads it, reads it whole, and does not take an empty one for its
// own (private to server).
#pragma once

#include <memory>
#include <string>

#include <harmonics/server/server.h>
#include <harmonics/store/store.h>

namespace harmonics::inline in_server {

/// A store that this process leads, and all that it holds.
struct OpenedStore {
  std::unique_ptr<Store> store;
  ClusterState state;
};

/// Waits for the lead as `settings` say, then reads the store. Damage is an Error (kDataLoss) that
/// says what is whole and how to go on. So is (kFailedPrecondition) a store that is empty although
/// this state folder has served it before, unless `settings.new_store`: the workers would stop all
/// that they run as unknown.
[[nodiscard]] OpenedStore open_led_store(const ServerSettings& settings);

/// Notes beside the store's folder that it is in use; once its first fact is stored.
void mark_store(const ServerSettings& settings, Term term);

}  // namespace harmonics::inline in_server
