#include <vector>

#include <harmonics/base/error.h>

#include "batches.h"
#include "guarded_store.h"

namespace harmonics::inline in_store {

/// What survives: rows, and who leads.
class MemoryDisk {
 public:
  std::vector<Bytes> snapshot;
  std::vector<Bytes> journal;
  const Store* leader = nullptr;
};

namespace {

std::uint64_t total(const std::vector<Bytes>& rows) {
  std::uint64_t bytes = 0;
  for (const Bytes& row : rows) bytes += row.size();
  return bytes;
}

class MemoryStore final : public GuardedStore {
 public:
  explicit MemoryStore(std::shared_ptr<MemoryDisk> disk) : disk_(std::move(disk)) {}
  ~MemoryStore() override {
    if (disk_->leader == this) disk_->leader = nullptr;
  }

 protected:
  void do_lead(Nanoseconds) override {
    if (disk_->leader != nullptr && disk_->leader != this) {
      fail(ErrorCode::kUnavailable, "memory store: another server leads; end it first");
    }
    disk_->leader = this;
  }
  void do_load(const std::function<void(Fact&&)>& visit) override {
    for (const auto* rows : {&disk_->snapshot, &disk_->journal}) {
      for (const Bytes& row : *rows) read_row({row, nullptr, "memory store"}, visit);
    }
    sizes_ = {total(disk_->journal), total(disk_->snapshot)};
  }
  void do_append(std::span<const Fact> facts) override {
    check_leads();
    write_rows(facts, [&](const Bytes& row) {
      disk_->journal.push_back(row);
      sizes_.journal_bytes += row.size();
    });
  }
  void do_compact(const ClusterState& state) override {
    check_leads();
    disk_->snapshot.clear();
    disk_->journal.clear();
    write_rows(state, [&](const Bytes& row) { disk_->snapshot.push_back(row); });
    sizes_ = {0, total(disk_->snapshot)};
  }

 private:
  void check_leads() const {
    if (disk_->leader != this) fail(ErrorCode::kAborted, "memory store: another server leads now");
  }

  std::shared_ptr<MemoryDisk> disk_;
};

}  // namespace

std::shared_ptr<MemoryDisk> make_memory_disk() { return std::make_shared<MemoryDisk>(); }

std::unique_ptr<Store> open_memory_store(std::shared_ptr<MemoryDisk> disk) {
  return std::make_unique<MemoryStore>(std::move(disk));
}

}  // namespace harmonics::inline in_store
