#include "batches.h"

#include <harmonics/base/error.h>
#include <harmonics/cluster/fact_codec.h>

namespace harmonics::inline in_store {

std::int64_t checksum_of(ByteSpan bytes) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const std::byte byte : bytes) {
    hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3U;
  }
  return static_cast<std::int64_t>(hash);
}

namespace {

class RowCutter {
 public:
  explicit RowCutter(const std::function<void(const Bytes&)>& row) : row_(row) {}

  void add(const Fact& fact) {
    writer_.add(fact);
    if (writer_.size() >= kRowBytes) row_(writer_.take());
  }
  void finish() {
    if (!writer_.empty()) row_(writer_.take());
  }

 private:
  const std::function<void(const Bytes&)>& row_;
  FactWriter writer_;
};

}  // namespace

void write_rows(std::span<const Fact> facts, const std::function<void(const Bytes&)>& row) {
  RowCutter cutter(row);
  for (const Fact& fact : facts) cutter.add(fact);
  cutter.finish();
}

void write_rows(const ClusterState& state, const std::function<void(const Bytes&)>& row) {
  RowCutter cutter(row);
  state.snapshot([&](const Fact& fact) { cutter.add(fact); });
  cutter.finish();
}

void read_row(const StoredRow& row, const std::function<void(Fact&&)>& visit) {
  if (row.checksum != nullptr && *row.checksum != checksum_of(row.facts)) {
    fail(ErrorCode::kDataLoss,
         "{}: the checksum does not match: the row is damaged; restore a copy", row.where);
  }
  read_facts(row.facts, row.where, visit);
}

}  // namespace harmonics::inline in_store
