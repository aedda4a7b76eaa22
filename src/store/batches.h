// Facts cut into rows: what SQLite and PostgreSQL keep, with a checksum each.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <harmonics/base/bytes.h>
#include <harmonics/cluster/cluster_state.h>
#include <harmonics/cluster/fact.h>

namespace harmonics::inline in_store {

/// The version of the tables. 1 had no checksums, 2 no facts of the kind PlacesKept, 3 none of the
/// kind PastPlacesKept, 4 none of what docs/formats/store-schema.md says, 5 no tasks with files.
inline constexpr int kSchemaVersion = 6;
/// A row is closed once it has this many bytes.
inline constexpr std::size_t kRowBytes = std::size_t{4} << 20;

/// FNV-1a over the bytes, as the signed number that databases keep.
[[nodiscard]] std::int64_t checksum_of(ByteSpan bytes);

/// Calls `row` for each full row of facts.
void write_rows(std::span<const Fact> facts, const std::function<void(const Bytes&)>& row);
/// The same for a snapshot of the state.
void write_rows(const ClusterState& state, const std::function<void(const Bytes&)>& row);

/// A row as read back; `checksum` null in rows of schema 1. Damage is an `Error` (kDataLoss).
struct StoredRow {
  ByteSpan facts;
  const std::int64_t* checksum = nullptr;
  std::string where;  ///< For instance "journal row 7 of /var/lib/x.db".
};
void read_row(const StoredRow& row, const std::function<void(Fact&&)>& visit);

}  // namespace harmonics::inline in_store
