// What watchers of the page are told: a whole picture, then what changed (private to server). Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/rpc/views.h>

namespace harmonics::inline in_server {

/// Texts of JSON by key. What follows `compared` in an entry may change without being news.
struct LiveEntry {
  std::string text;
  std::string compared;
  bool operator==(const LiveEntry& other) const { return compared == other.compared; }
};
using LiveEntries = std::map<std::string, LiveEntry>;

/// Of workers by name. When one was last heard of is no news by itself.
[[nodiscard]] LiveEntries worker_entries(const std::vector<WorkerView>& workers);
/// Of tasks by id.
[[nodiscard]] LiveEntries task_entries(const std::vector<TaskView>& tasks);

/// A moment as it is now.
struct LiveMoment {
  Time now{};
  std::string status;  ///< JSON.
  std::shared_ptr<const LiveEntries> workers;
  LiveEntries tasks;
  std::vector<Happening> happened;  ///< Since the moment before.
};

/// The frames for all who see the same: each is a server-sent event whose id says which server and
/// which moment, so that whoever comes back is told what was missed, or everything where that is
/// not known any more. One thread.
class LiveFrames {
 public:
  /// Deltas that are kept for those who come back, by number and by bytes.
  static constexpr std::size_t kMaxKept = 240;
  static constexpr std::size_t kMaxKeptBytes = 8 << 20;

  /// `origin` says whose frames these are, of which start of the server: a text without '-'.
  explicit LiveFrames(std::string origin) : origin_(std::move(origin)) {}

  /// The event that brings those up to date who know the moment before; empty when nothing changed.
  std::string advance(LiveMoment moment);
  /// Before the first moment there is nothing to show.
  [[nodiscard]] bool empty() const { return number_ == 0; }
  /// The whole picture as an event.
  [[nodiscard]] std::string snapshot() const;
  /// For whoever saw event `last_id`: what came after it, or the whole picture.
  [[nodiscard]] std::string since(std::string_view last_id) const;

 private:
  [[nodiscard]] std::string event(const char* kind, std::uint64_t number,
                                  const std::string& data) const;

  struct Delta {
    std::uint64_t number = 0;
    std::string event;
  };
  const std::string origin_;
  std::uint64_t number_ = 0;
  LiveMoment now_;
  std::deque<Happening> happened_;  ///< The newest kMaxHappenings.
  std::deque<Delta> kept_;
  std::size_t kept_bytes_ = 0;
};

}  // namespace harmonics::inline in_server
