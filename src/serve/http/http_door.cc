#include <harmonics/serve/http_door.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>

#include <harmonics/base/channel.h>
#include <harmonics/base/error.h>
#include <harmonics/base/log.h>

#include "http_connection.h"
#include "listening.h"
#include "wire/oip_json.h"

namespace harmonics::inline in_serve {
namespace {

using Steady = HttpConnection::Steady;
using std::chrono::milliseconds;

constexpr int kHandlers = 2;
// After a failure to accept that only time can mend.
constexpr milliseconds kAcceptPause(100);

/// Answers on their way to the door's thread. Outlives the door while somebody may still answer.
class Mailbox {
 public:
  Mailbox() : bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!bell_) fail_errno(errno, "cannot make an event descriptor");
  }
  void put(std::uint64_t number, HttpReply reply) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return;
      letters_.emplace_back(number, std::move(reply));
    }
    ring();
  }
  void ring() const {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(bell_.get(), &one, sizeof one));
  }
  [[nodiscard]] std::vector<std::pair<std::uint64_t, HttpReply>> take() {
    std::uint64_t count = 0;
    static_cast<void>(!::read(bell_.get(), &count, sizeof count));
    const std::lock_guard lock(mutex_);
    return std::exchange(letters_, {});
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    letters_.clear();
  }
  [[nodiscard]] int bell() const { return bell_.get(); }

 private:
  const Descriptor bell_;
  std::mutex mutex_;
  bool closed_ = false;
  std::vector<std::pair<std::uint64_t, HttpReply>> letters_;  // at most one for a connection
};

}  // namespace

struct ServingDoor::Parts {
  Parts(Terms wanted, Handler handle)
      : terms(std::move(wanted)),
        handler(std::move(handle)),
        identity(terms.access.has_tls() ? std::make_unique<TlsIdentity>(terms.access) : nullptr),
        listening(open_listening(terms.address)) {}

  const Terms terms;
  const Handler handler;
  const std::unique_ptr<TlsIdentity> identity;
  const Listening listening;
  const std::shared_ptr<Mailbox> mailbox = std::make_shared<Mailbox>();
  // A connection has one thing to do at a time, and an answer may have to be made besides.
  Channel<std::function<void()>> work{2 * kMaxConnections};
  std::vector<std::thread> handlers;
  std::thread door;

  std::mutex mutex;
  std::condition_variable changed;
  bool finishing = false;
  bool over = false;
  std::size_t busy = 0;  // connections that wait for an answer or take it

  // The door's thread's own.
  std::list<HttpConnection> connections;  // the oldest first
  std::uint64_t numbers = 0;
  std::size_t held = 0;
  Steady::time_point accept_from{};

  void run();
  void accept_all();
  [[nodiscard]] bool make_room();
  void give(HttpConnection& connection);
  void take_answers();
  void sweep();
  [[nodiscard]] bool note_busy();
  [[nodiscard]] int next_look() const;
  void move_all(const std::vector<pollfd>& watched);
};

void ServingDoor::Parts::accept_all() {
  for (;;) {
    Descriptor made(
        ::accept4(listening.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!made) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        log_warn("serve", "no connection can be accepted: too many files are open");
        accept_from = Steady::now() + kAcceptPause;
      }
      if (errno == ECONNABORTED || errno == EINTR) continue;
      return;
    }
    if (connections.size() >= kMaxConnections && !make_room()) continue;  // closed at once
    const int yes = 1;  // answers are written whole: none waits for another
    ::setsockopt(made.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    connections.emplace_back(std::move(made), ++numbers, terms, identity.get());
  }
}

// The oldest that asks nothing goes; false: all are busy.
bool ServingDoor::Parts::make_room() {
  const auto idle =
      std::ranges::find_if(connections, [](const HttpConnection& one) { return one.is_idle(); });
  if (idle == connections.end()) return false;
  connections.erase(idle);
  return true;
}

void ServingDoor::Parts::give(HttpConnection& connection) {
  const std::uint64_t number = connection.number();
  auto query = std::make_shared<HttpQuery>(connection.take_query());
  work.push([this, number, query] {
    const auto answer = [box = mailbox, number](HttpReply reply) {
      box->put(number, std::move(reply));
    };
    try {
      handler(std::move(*query), answer);
    } catch (const std::exception& error) {
      answer({500, "application/json", error_json(error.what()), {}});
    }
  });
}

void ServingDoor::Parts::take_answers() {
  bool ends = false;
  {
    const std::lock_guard lock(mutex);
    ends = finishing;
  }
  for (auto& [number, reply] : mailbox->take()) {
    const auto whose = std::ranges::find(connections, number, &HttpConnection::number);
    if (whose == connections.end()) {
      if (reply.stream) reply.stream->close();
      continue;
    }
    whose->answer(reply, ends);
    if (reply.stream) reply.stream->attach([box = mailbox] { box->ring(); });
  }
  for (HttpConnection& one : connections) one.pump();
}

// Who waits for what in this moment; false: the door is closed.
bool ServingDoor::Parts::note_busy() {
  const std::lock_guard lock(mutex);
  busy = static_cast<std::size_t>(std::ranges::count_if(connections, [](const auto& one) {
    return one.state() == HttpConnection::State::kAnswering ||
           one.state() == HttpConnection::State::kWriting;
  }));
  changed.notify_all();
  return !over;
}

void ServingDoor::Parts::sweep() {
  const auto now = Steady::now();
  held = 0;
  for (auto one = connections.begin(); one != connections.end();) {
    if (one->state() == HttpConnection::State::kOver || one->until() <= now) {
      one = connections.erase(one);
      continue;
    }
    held += one->held_bytes();
    ++one;
  }
}

int ServingDoor::Parts::next_look() const {
  const auto now = Steady::now();
  auto next = Steady::time_point::max();
  for (const HttpConnection& one : connections) next = std::min(next, one.until());
  if (accept_from > now) next = std::min(next, accept_from);
  if (next == Steady::time_point::max()) return -1;
  const auto left = std::chrono::ceil<milliseconds>(next - now);
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

void ServingDoor::Parts::move_all(const std::vector<pollfd>& watched) {
  std::size_t at = 2;
  for (HttpConnection& one : connections) {
    if (at == watched.size()) break;  // came since
    const short events = watched[at++].revents;
    if (events == 0) continue;
    const std::size_t before = one.held_bytes();
    const std::size_t others = held - std::min(held, before);
    one.move(events, kMaxHeldBytes - std::min(kMaxHeldBytes, others));
    held = others + one.held_bytes();
  }
}

void ServingDoor::Parts::run() {
  while (note_busy()) {
    bool lets_in = false;
    {
      const std::lock_guard lock(mutex);
      lets_in = !finishing && Steady::now() >= accept_from;
    }
    std::vector<pollfd> watched = {{lets_in ? listening.socket.get() : -1, POLLIN, 0},
                                   {mailbox->bell(), POLLIN, 0}};
    for (const HttpConnection& one : connections) {
      watched.push_back({one.socket(), one.wanted_events(), 0});
    }
    ::poll(watched.data(), watched.size(), next_look());
    move_all(watched);
    if (watched[1].revents != 0) take_answers();
    if (watched[0].revents != 0) accept_all();
    for (HttpConnection& one : connections) {
      if (one.has_query()) give(one);
    }
    sweep();
  }
}

ServingDoor::ServingDoor(Terms terms, Handler handler)
    : parts_(std::make_unique<Parts>(std::move(terms), std::move(handler))) {
  for (int i = 0; i < kHandlers; ++i) {
    parts_->handlers.emplace_back([this] {
      while (const auto next = parts_->work.pop(Channel<std::function<void()>>::kForever))
        (*next)();
    });
  }
  parts_->door = std::thread([this] { parts_->run(); });
}

ServingDoor::~ServingDoor() {
  {
    const std::lock_guard lock(parts_->mutex);
    parts_->over = true;
  }
  parts_->mailbox->ring();
  parts_->door.join();
  parts_->work.close();
  for (std::thread& one : parts_->handlers) one.join();
  parts_->mailbox->close();
}

std::uint16_t ServingDoor::port() const { return parts_->listening.port; }

void ServingDoor::finish(milliseconds patience) {
  std::unique_lock lock(parts_->mutex);
  parts_->finishing = true;
  parts_->busy = 1;  // until the door has looked
  parts_->mailbox->ring();
  parts_->changed.wait_for(lock, patience, [&] { return parts_->busy == 0; });
}

void ServingDoor::later(std::function<void()> work) { parts_->work.push(std::move(work)); }

}  // namespace harmonics::inline in_serve
