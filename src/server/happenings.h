// What happened of late, for people who watch (private to server).
#pragma once

#include <deque>
#include <string>

#include <harmonics/rpc/views.h>

namespace harmonics::inline in_server {

/// Keeps the newest kMaxKept; older ones are forgotten, and all with a restart. Owned by the loop.
class Happenings {
 public:
  static constexpr std::size_t kMaxKept = 2000;

  /// Takes what a stored fact means for people; most mean nothing.
  void learn(const ClusterState& state, const Fact& fact, Time now);
  /// A worker has come ("connected") or gone ("away").
  void note_worker(const std::string& name, const char* kind, Time now);
  /// After `query.seen`, what the viewer may see.
  void fill(const PictureQuery& query, PictureView& view) const;

 private:
  void note_task(const ClusterState& state, TaskId task, std::string_view kind, Time now);
  void add(Happening one);

  std::uint64_t last_ = 0;
  std::deque<Happening> kept_;
};

}  // namespace harmonics::inline in_server
