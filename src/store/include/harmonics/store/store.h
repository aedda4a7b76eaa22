// Where facts are kept: one interface for memory, SQLite and PostgreSQL, one contract suite for
// all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <harmonics/cluster/cluster_state.h>
#include <harmonics/cluster/fact.h>

namespace harmonics::inline in_store {

inline constexpr Nanoseconds kNoRenewal = Nanoseconds::max();

/// A journal of facts with a snapshot before it. Owned by one thread. After any member has thrown,
/// the store refuses everything (kFailedPrecondition) until it is opened anew: what the failed call
/// had reached is unknown, and only reading it back tells.
class Store {
 public:
  virtual ~Store() = default;

  /// Becomes the one writer. Waits up to `timeout` for another server to let go (kUnavailable when
  /// it does not). Memory and SQLite never wait longer than the lock of a dying process lives.
  virtual void lead(Nanoseconds timeout) = 0;
  /// Reads snapshot and journal back, oldest first. Only after `lead`.
  virtual void load(const std::function<void(Fact&&)>& visit) = 0;
  /// Adds facts as one group commit: when it returns they are on disk, all of them; when it throws,
  /// all or none are. Nobody else leads then (kAborted if another server has taken over).
  virtual void append(std::span<const Fact> facts) = 0;
  /// Replaces snapshot and journal by what `state` says, atomically.
  virtual void compact(const ClusterState& state) = 0;
  /// Bytes of the journal since the last snapshot, and of that snapshot: when to compact.
  struct Sizes {
    std::uint64_t journal_bytes = 0;
    std::uint64_t snapshot_bytes = 0;
  };
  [[nodiscard]] virtual Sizes sizes() const = 0;
  /// `append` (of nothing, if there is nothing) must be called that often, or another server may
  /// take over. kNoRenewal: whoever leads does so for as long as its process lives.
  [[nodiscard]] virtual Nanoseconds renew_every() const { return kNoRenewal; }
};

/// Compact when the journal is larger than this and than twice the snapshot.
inline constexpr std::uint64_t kMinJournalBytes = 64 << 20;
[[nodiscard]] bool should_compact(const Store::Sizes& sizes);

/// The state that a store holds. Only after `lead`.
[[nodiscard]] ClusterState load_state(Store& store);

/// Facts kept in memory, shared by all stores opened on the same `MemoryDisk`: for tests and the
/// simulator. Goes through the same bytes as the others.
class MemoryDisk;
[[nodiscard]] std::shared_ptr<MemoryDisk> make_memory_disk();
[[nodiscard]] std::unique_ptr<Store> open_memory_store(std::shared_ptr<MemoryDisk> disk);

/// One SQLite file (made when absent; its folder must exist).
[[nodiscard]] std::unique_ptr<Store> open_sqlite_store(const std::filesystem::path& file);
/// A PostgreSQL database, by URL (`postgres://user@host:port/database`).
[[nodiscard]] std::unique_ptr<Store> open_postgres_store(const std::string& url);

/// postgres://… or postgresql://… is PostgreSQL, "memory:" is a fresh memory store, all else is the
/// path of a SQLite file. A kind that was not built is an `Error` (kUnimplemented) that names
/// HARMONICS_WITH_STORE.
[[nodiscard]] std::unique_ptr<Store> open_store(const std::string& where);

}  // namespace harmonics::inline in_store
