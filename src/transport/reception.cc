#include "reception.h"

#include <algorithm>
#include <thread>
#include <utility>

#include <harmonics/base/log.h>

namespace harmonics {

// One connection on its way through the greeting.
struct Reception::Visit {
  Visitor visitor;
  bool may_hang_up = true;     // until the connection belongs to a greeter
  Greeter* greeter = nullptr;  // set while it is in use
  bool done = false;
  std::thread thread;
};

Reception::Reception(std::string place, Nanoseconds handshake_timeout)
    : place_(std::move(place)), handshake_timeout_(handshake_timeout) {}

Reception::~Reception() { close(); }

void Reception::close() {
  {
    std::unique_lock lock(mutex_);
    closed_ = true;
    for (const auto& visit : visits_) {
      if (visit->may_hang_up) visit->visitor.hang_up();
    }
    left_.wait(lock, [&] { return std::ranges::all_of(visits_, &Visit::done); });
  }
  reap();
}

bool Reception::add(const std::string& boundary, Greeter& greeter) {
  const std::lock_guard lock(mutex_);
  return boundaries_.emplace(boundary, &greeter).second;
}

void Reception::remove(const std::string& boundary) {
  std::unique_lock lock(mutex_);
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
  reap();
  const std::lock_guard lock(mutex_);
  if (closed_) return false;
  if (visits_.size() >= kMaxGreetings) {
    log_warn("transport", "{}: {} was turned away, {} others have not finished their greeting",
             place_, visitor.peer, visits_.size());
    return false;
  }
  visits_.push_back(std::make_unique<Visit>());
  Visit& visit = *visits_.back();
  visit.visitor = std::move(visitor);
  visit.thread = std::thread([this, &visit] { greet(visit); });
  return true;
}

void Reception::reap() {
  std::vector<std::unique_ptr<Visit>> gone;
  {
    const std::lock_guard lock(mutex_);
    for (auto& visit : visits_) {
      if (visit->done) gone.push_back(std::move(visit));
    }
    std::erase(visits_, nullptr);
  }
  for (const auto& visit : gone) visit->thread.join();
}

void Reception::greet(Visit& visit) {
  try {
    greet_stream(visit);
  } catch (const Error& error) {
    log_warn("transport", "{}: connection from {} refused: {}", place_, visit.visitor.peer,
             error.what());
  }
  const std::lock_guard lock(mutex_);
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
    if (const auto found = boundaries_.find(hello.boundary); found != boundaries_.end()) {
      greeter = visit.greeter = found->second;
    }
  }
  if (greeter == nullptr) {
    const Refused refused(ErrorCode::kNotFound,
                          format("no boundary '{}' listens at {}", hello.boundary, place_), true);
    send_refusal(*stream, refused, deadline);
    throw refused;
  }
  const GreetedLink greeted = greet_as_listener(std::move(stream), hello, *greeter, deadline);
  {
    // From here on the connection is the greeter's: it alone may end it.
    const std::lock_guard lock(mutex_);
    visit.may_hang_up = false;
  }
  greeter->adopt(greeted);
}

}  // namespace harmonics
