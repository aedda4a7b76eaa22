#include "live_feed.h"

#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <thread>

#include <harmonics/base/bytes.h>
#include <harmonics/base/escaped.h>
#include <harmonics/base/format.h>
#include <harmonics/custody/digest.h>
#include <harmonics/rpc/view_json.h>

#include "live_frames.h"
#include "loop_question.h"

namespace harmonics::inline in_server {
namespace {

using Steady = std::chrono::steady_clock;

/// A word now and then, so that both ends notice a connection that is gone.
constexpr std::chrono::seconds kSilence(15);
/// Between two looks at the loop, however many come.
constexpr std::chrono::milliseconds kShortestPause(100);
/// Frames of those that nobody watches any more are kept for whoever comes back.
constexpr std::chrono::minutes kForgetAfter(2);

/// Those who see the same: everyone's tasks, or one user's.
struct Group {
  explicit Group(const std::string& origin) : frames(origin) {}
  LiveFrames frames;
  std::uint64_t seen = 0;
  Steady::time_point watched{};
  std::string news{};  ///< Of this round.
};

struct Watching {
  Watcher watcher;
  bool greeted = false;
  std::string task_text{};  ///< As it was last told.
  Steady::time_point spoken{};
};

}  // namespace

struct LiveFeed::Parts {
  explicit Parts(ServerLoop& one) : loop(one) {}

  ServerLoop& loop;
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  std::list<Watching> arrived;  ///< Not yet taken over by the thread.
  std::size_t watchers = 0;
  std::thread thread;

  // The thread's own.
  Steady::time_point looked{};
  std::list<Watching> watching;
  std::map<std::string, Group> groups;  ///< By name of the user; "*": all tasks, no user's name.

  void run();
  [[nodiscard]] bool take_arrived();
  void round();
  [[nodiscard]] std::string origin_of(const std::string& key) const;
  void look(Group& group, const Viewer& viewer, LiveMoment moment);
  [[nodiscard]] bool tell(Watching& one, Group& group, const Identity& who);
  [[nodiscard]] bool tell_task(Watching& one, const Identity& who);
};

// False: it is over.
bool LiveFeed::Parts::take_arrived() {
  std::unique_lock lock(mutex);
  watchers = watching.size() + arrived.size();
  const auto wakes = [this] { return over || !arrived.empty(); };
  if (watching.empty()) {
    changed.wait(lock, wakes);
  } else {
    changed.wait_for(lock, kLivePeriod, wakes);
  }
  changed.wait_until(lock, looked + kShortestPause, [this] { return over; });
  looked = Steady::now();
  watching.splice(watching.end(), arrived);
  return !over;
}

void LiveFeed::Parts::run() {
  while (take_arrived()) round();
  for (Watching& one : watching) one.watcher.stream->end();
}

// A browser may come back as somebody else: what it saw is of no use then.
std::string LiveFeed::Parts::origin_of(const std::string& key) const {
  constexpr std::size_t kEnough = 12;
  return format("{}.{}", loop.term().value, digest_text(sha256(bytes_of(key))).substr(0, kEnough));
}

void LiveFeed::Parts::look(Group& group, const Viewer& viewer, LiveMoment moment) {
  auto picture = ask_loop<PictureView>(loop, PictureQuery{viewer, group.seen});
  if (!picture) return;
  group.seen = picture->last;
  moment.tasks = task_entries(picture->tasks);
  moment.happened = std::move(picture->happened);
  group.news = group.frames.advance(std::move(moment));
}

bool LiveFeed::Parts::tell_task(Watching& one, const Identity& who) {
  auto task = ask_loop<TaskView>(loop, TaskQuery{viewer_of(who), one.watcher.task});
  if (!task) return true;
  hide_from(who, *task);
  std::string text = escaped_json(task_json(*task).dump());
  if (text == one.task_text) return true;
  one.task_text = std::move(text);
  one.spoken = Steady::now();
  return one.watcher.stream->send(format("event: task\ndata: {}\n\n", one.task_text));
}

// False: it hears no more.
bool LiveFeed::Parts::tell(Watching& one, Group& group, const Identity& who) {
  if (group.frames.empty()) return true;  // the loop has not answered yet
  std::string text = std::exchange(one.greeted, true)
                         ? group.news
                         : "retry: 1000\n\n" + group.frames.since(one.watcher.last_id);
  const auto now = Steady::now();
  if (text.empty() && now - one.spoken >= kSilence) text = ": still here\n\n";
  if (!text.empty()) one.spoken = now;
  if (!text.empty() && !one.watcher.stream->send(text)) return false;
  return one.watcher.task == TaskId{} || tell_task(one, who);
}

void LiveFeed::Parts::round() {
  const auto status = ask_loop<ClusterStatus>(loop, StatusQuery{});
  const auto workers = ask_loop<std::vector<WorkerView>>(loop, WorkersQuery{});
  if (!status || !workers) return;
  const LiveMoment moment{status->now,
                          escaped_json(status_json(*status).dump()),
                          std::make_shared<const LiveEntries>(worker_entries(*workers)),
                          {},
                          {}};
  for (auto& [key, group] : groups) group.news.clear();
  const auto now = Steady::now();
  for (auto one = watching.begin(); one != watching.end();) {
    const auto who = loop.identify(one->watcher.token);
    bool stays = who && has_right(*who, Right::kView);
    if (stays) {
      const Viewer viewer = viewer_of(*who);
      const std::string key = viewer.sees_all ? "*" : "=" + viewer.user;
      Group& group = groups.try_emplace(key, origin_of(key)).first->second;
      if (group.watched != now) look(group, viewer, moment);
      group.watched = now;
      stays = tell(*one, group, *who);
    }
    if (!stays) one->watcher.stream->end();
    one = stays ? std::next(one) : watching.erase(one);
  }
  std::erase_if(groups, [&](const auto& one) { return now - one.second.watched > kForgetAfter; });
}

LiveFeed::LiveFeed(ServerLoop& loop) : parts_(std::make_unique<Parts>(loop)) {
  parts_->thread = std::thread([this] { parts_->run(); });
}

LiveFeed::~LiveFeed() {
  {
    const std::lock_guard lock(parts_->mutex);
    parts_->over = true;
  }
  parts_->changed.notify_all();
  parts_->thread.join();
}

bool LiveFeed::add(Watcher watcher) {
  const std::lock_guard lock(parts_->mutex);
  if (parts_->watchers >= kMaxWatchers) return false;
  ++parts_->watchers;
  parts_->arrived.push_back({std::move(watcher)});
  parts_->changed.notify_all();
  return true;
}

}  // namespace harmonics::inline in_server
