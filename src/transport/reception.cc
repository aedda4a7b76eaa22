#include "reception.h"

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include <harmonics/base/escaped.h>
#include <harmonics/base/log.h>

namespace harmonics::inline in_transport {
namespace {

// The parts of a run start in any order: so long it is nothing to worry about when somebody asks
// for a boundary that is not here yet.
constexpr Nanoseconds kStartingTime = std::chrono::seconds(30);

}  // namespace

// One connection on its way through the greeting.
struct Reception::Visit {
  Visitor visitor;
  std::string host;
  Deadline since = std::chrono::steady_clock::now();
  bool has_spoken = false;     // its hello was read
  bool sent_away = false;      // for another one
  bool may_hang_up = true;     // until the connection belongs to a greeter
  Greeter* greeter = nullptr;  // set while it is in use
  bool done = false;
  std::thread thread;

  [[nodiscard]] Deadline grace() const {
    return since + (has_spoken ? kSpokenGrace : kSilentGrace);
  }
};

Reception::Reception(std::string place, Nanoseconds handshake_timeout)
    : place_(std::move(place)), handshake_timeout_(handshake_timeout) {}

Reception::~Reception() { close(); }

void Reception::close() {
  Visits done;
  {
    Lock lock(mutex_);
    closed_ = true;
    for (const auto& visit : visits_) {
      if (visit->may_hang_up) visit->visitor.hang_up();
    }
    left_.notify_all();
    left_.wait(lock, [&] { return std::ranges::all_of(visits_, &Visit::done); });
    done = take_done();
  }
  join(done);
}

bool Reception::add(const std::string& boundary, Greeter& greeter) {
  const std::lock_guard lock(mutex_);
  return boundaries_.emplace(boundary, &greeter).second;
}

void Reception::remove(const std::string& boundary) {
  Lock lock(mutex_);
  const auto found = boundaries_.find(boundary);
  if (found == boundaries_.end()) return;
  const Greeter* greeter = found->second;
  boundaries_.erase(found);
  for (const auto& visit : visits_) {
    if (visit->greeter == greeter && visit->may_hang_up) visit->visitor.hang_up();
  }
  left_.wait(lock, [&] {
    return std::ranges::none_of(visits_, [&](const auto& v) { return v->greeter == greeter; });
  });
}

bool Reception::admit(Visitor visitor) {
  Visits done;
  bool is_open = true;
  {
    Lock lock(mutex_);
    for (done = take_done(); !closed_ && visits_.size() >= kMaxGreetings;) {
      make_room(lock);
      std::ranges::move(take_done(), std::back_inserter(done));
    }
    is_open = !closed_;
    if (is_open) {
      visits_.push_back(std::make_unique<Visit>());
      Visit& visit = *visits_.back();
      visit.host = visitor.peer.substr(0, visitor.peer.rfind(':'));
      visit.visitor = std::move(visitor);
      visit.thread = std::thread([this, &visit] { greet(visit); });
    }
  }
  join(done);
  return is_open;
}

// Turns somebody away, or waits a little until that is fair or somebody is done.
void Reception::make_room(Lock& lock) {
  const Deadline now = std::chrono::steady_clock::now();
  Visit* const oldest = next_to_go();
  if (oldest != nullptr && oldest->grace() <= now) {
    warn(format("{} was turned away: {} others have not finished their greeting",
                oldest->visitor.peer, visits_.size() - 1));
    oldest->sent_away = true;
    oldest->visitor.hang_up();
  }
  const bool waits_for_grace = oldest != nullptr && !oldest->sent_away;
  left_.wait_until(lock, waits_for_grace ? oldest->grace() : now + kSilentGrace);
}

Reception::Visit* Reception::next_to_go() const {
  Visit* next = nullptr;
  std::size_t crowd = 0;
  for (const auto& visit : visits_) {
    if (visit->done || visit->sent_away || !visit->may_hang_up) continue;
    const std::size_t others = crowd_of(visit->host);
    const bool is_quieter = next != nullptr && next->has_spoken && !visit->has_spoken;
    const bool is_of_more = next != nullptr && next->has_spoken == visit->has_spoken;
    if (next == nullptr || is_quieter || (is_of_more && others > crowd)) {
      next = visit.get();
      crowd = others;
    }
  }
  return next;
}

std::size_t Reception::crowd_of(const std::string& host) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(visits_, [&](const auto& visit) { return visit->host == host; }));
}

Reception::Visits Reception::take_done() {
  Visits done;
  for (auto& visit : visits_) {
    if (visit->done) done.push_back(std::move(visit));
  }
  std::erase(visits_, nullptr);
  return done;
}

void Reception::join(const Visits& visits) {
  for (const auto& visit : visits) visit->thread.join();
}

// Under the mutex.
void Reception::warn(const std::string& text) {
  const auto left_out = log_limit_.take(std::chrono::steady_clock::now());
  if (!left_out) return;
  log_warn("transport", "{}: {}{}", place_, text,
           *left_out == 0 ? "" : format(" ({} lines like this were left out)", *left_out));
}

void Reception::greet(Visit& visit) {
  std::string trouble;
  bool is_early = false;
  try {
    greet_stream(visit);
  } catch (const Error& error) {
    trouble = format("connection from {} refused: {}", visit.visitor.peer, escaped(error.what()));
    is_early = error.code() == ErrorCode::kNotFound &&
               std::chrono::steady_clock::now() - opened_ < kStartingTime;
  }
  const std::lock_guard lock(mutex_);
  if (is_early) {
    log_debug("transport", "{}: {}", place_, trouble);
  } else if (!trouble.empty() && !visit.sent_away) {
    warn(trouble);
  }
  visit.may_hang_up = false;
  visit.visitor = {};
  visit.greeter = nullptr;
  visit.done = true;
  left_.notify_all();
}

void Reception::greet_stream(Visit& visit) {
  const Deadline deadline = deadline_in(handshake_timeout_);
  StreamPtr stream = visit.visitor.open(deadline);
  const Greeting hello = read_hello(*stream, deadline);
  Greeter* greeter = nullptr;
  {
    const std::lock_guard lock(mutex_);
    visit.has_spoken = true;
    if (const auto found = boundaries_.find(hello.boundary); found != boundaries_.end()) {
      greeter = visit.greeter = found->second;
    }
  }
  if (greeter == nullptr) refuse_unknown(*stream, hello, deadline);
  const GreetedConnection greeted = greet_as_listener(std::move(stream), hello, *greeter, deadline);
  {
    // From here on the connection is the greeter's: it alone may end it.
    const std::lock_guard lock(mutex_);
    visit.may_hang_up = false;
  }
  greeter->adopt(greeted);
}

// Which boundaries there are is for those alone who know the token of one that is.
void Reception::refuse_unknown(Stream& stream, const Greeting& hello, Deadline deadline) {
  std::string token;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, greeter] : boundaries_) {
      if (token.empty()) token = greeter->token();
    }
  }
  try {
    if (!token.empty()) challenge_peer(stream, hello, token, deadline);
    throw Refused(ErrorCode::kNotFound,
                  format("no boundary '{}' listens at {}", escaped(hello.boundary), place_), true);
  } catch (const Refused& refused) {
    send_refusal(stream, refused, deadline);
    throw;
  }
}

}  // namespace harmonics::inline in_transport
