// Tasks by id: pages of a vector, since ids are dense and are forgotten oldest first.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <harmonics/base/check.h>
#include <harmonics/base/error.h>
#include <harmonics/cluster/cluster_records.h>

namespace harmonics::inline in_cluster {

/// Owns the records; one stays where it is until it is erased.
class TaskTable {
 public:
  [[nodiscard]] TaskRecord* find(TaskId id) {
    Page* page = page_of(id);
    if (page == nullptr) return nullptr;
    std::optional<TaskRecord>& slot = page->slots[id.value % kPageTasks];
    return slot ? &*slot : nullptr;
  }
  [[nodiscard]] const TaskRecord* find(TaskId id) const {
    return const_cast<TaskTable*>(this)->find(id);
  }

  /// The id must be free.
  TaskRecord& add(TaskRecord record) {
    const std::uint64_t number = record.id.value / kPageTasks;
    if (pages_.empty()) first_page_ = number;
    const std::uint64_t end = std::max(number, first_page_ + pages_.size());
    if (end - std::min(number, first_page_) > kMaxPages) {
      fail(ErrorCode::kDataLoss, "task {} is too far from the others", record.id.value);
    }
    while (number < first_page_) {
      pages_.insert(pages_.begin(), nullptr);
      --first_page_;
    }
    if (number - first_page_ >= pages_.size()) pages_.resize(number - first_page_ + 1);
    std::unique_ptr<Page>& page = pages_[number - first_page_];
    if (page == nullptr) page = std::make_unique<Page>();
    std::optional<TaskRecord>& slot = page->slots[record.id.value % kPageTasks];
    HARMONICS_CHECK(!slot, "task {} is added twice", record.id.value);
    slot.emplace(std::move(record));
    ++page->used;
    ++size_;
    return *slot;
  }

  /// The id must be there.
  void erase(TaskId id) {
    HARMONICS_CHECK(find(id) != nullptr, "task {} is erased and was not there", id.value);
    const std::uint64_t index = id.value / kPageTasks - first_page_;
    Page& page = *pages_[index];
    page.slots[id.value % kPageTasks].reset();
    --size_;
    if (--page.used == 0) pages_[index].reset();
  }

  [[nodiscard]] std::size_t size() const { return size_; }

  /// Calls `visit` in order of id from `from` on until it returns false.
  template <typename Visit>
  void each(TaskId from, Visit visit) const {
    const std::uint64_t start = std::max(from.value, first_page_ * kPageTasks);
    for (std::uint64_t p = start / kPageTasks - first_page_; p < pages_.size(); ++p) {
      if (pages_[p] == nullptr) continue;
      for (const std::optional<TaskRecord>& slot : pages_[p]->slots) {
        if (slot && slot->id >= from && !visit(*slot)) return;
      }
    }
  }

  /// The same downwards, from the largest id that is not above `from`.
  template <typename Visit>
  void each_down(TaskId from, Visit visit) const {
    if (pages_.empty() || from.value < first_page_ * kPageTasks) return;
    const std::uint64_t top = from.value / kPageTasks - first_page_;
    for (std::uint64_t p = std::min<std::uint64_t>(top + 1, pages_.size()); p-- > 0;) {
      if (pages_[p] == nullptr) continue;
      for (std::size_t i = kPageTasks; i-- > 0;) {
        const std::optional<TaskRecord>& slot = pages_[p]->slots[i];
        if (slot && slot->id <= from && !visit(*slot)) return;
      }
    }
  }

 private:
  static constexpr std::size_t kPageTasks = 1024;
  static constexpr std::uint64_t kMaxPages = 1 << 22;  ///< Four thousand million ids apart.
  struct Page {
    std::array<std::optional<TaskRecord>, kPageTasks> slots;
    std::size_t used = 0;
  };

  [[nodiscard]] Page* page_of(TaskId id) const {
    const std::uint64_t number = id.value / kPageTasks;
    if (number < first_page_ || number - first_page_ >= pages_.size()) return nullptr;
    return pages_[number - first_page_].get();
  }

  std::uint64_t first_page_ = 0;
  std::vector<std::unique_ptr<Page>> pages_;
  std::size_t size_ = 0;
};

}  // namespace harmonics::inline in_cluster
