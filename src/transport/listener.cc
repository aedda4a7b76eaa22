#include "listener.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <harmonics/base/log.h>

namespace harmonics {
namespace {

// The listeners of this process by the text of their address.
struct Registry {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Listener>> listeners;
};

Registry& registry() {
  static Registry all;
  return all;
}

// How long to leave a socket alone that cannot be accepted because descriptors ran out.
constexpr auto kOutOfDescriptorsPause = std::chrono::milliseconds(100);

}  // namespace

// One connection on its way through the greeting.
struct Listener::Visit {
  Descriptor handle;  // a second descriptor of the connection, to end the visit early
  std::string peer;
  Greeter* greeter = nullptr;  // set while it is in use
  bool done = false;
  std::thread thread;
};

std::shared_ptr<Listener> Listener::open(const SocketAddress& address, const TlsOptions& tls,
                                         Nanoseconds handshake_timeout) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.listeners, [](const auto& entry) { return entry.second.expired(); });
  if (const auto found = all.listeners.find(address.text()); found != all.listeners.end()) {
    if (std::shared_ptr<Listener> listener = found->second.lock()) {
      if (listener->tls_ != tls) {
        fail(ErrorCode::kInvalidArgument,
             "boundaries that share {} must have the same TLS options; give one another port",
             address.text());
      }
      return listener;
    }
  }
  std::optional<Descriptor> socket = listen_on(address);
  if (!socket) return nullptr;
  std::shared_ptr<Listener> listener(new Listener(std::move(*socket), tls, handshake_timeout));
  all.listeners[listener->address().text()] = listener;
  return listener;
}

Listener::Listener(Descriptor socket, const TlsOptions& tls, Nanoseconds handshake_timeout)
    : socket_(std::move(socket)),
      address_(bound_address(socket_)),
      tls_(tls),
      context_(tls.enabled() ? std::make_unique<TlsContext>(tls, TlsContext::Side::kListening)
                             : nullptr),
      handshake_timeout_(handshake_timeout) {
  thread_ = std::thread([this] { accept_all(); });
}

Listener::~Listener() {
  stop_.signal();
  thread_.join();
  std::unique_lock lock(mutex_);
  for (const auto& visit : visits_) {
    if (visit->handle.valid()) ::shutdown(visit->handle.get(), SHUT_RDWR);
  }
  left_.wait(lock, [&] { return std::ranges::all_of(visits_, &Visit::done); });
  lock.unlock();
  for (const auto& visit : visits_) visit->thread.join();
}

bool Listener::add(const std::string& boundary, Greeter& greeter) {
  const std::lock_guard lock(mutex_);
  return boundaries_.emplace(boundary, &greeter).second;
}

void Listener::remove(const std::string& boundary) {
  std::unique_lock lock(mutex_);
  const auto found = boundaries_.find(boundary);
  if (found == boundaries_.end()) return;
  const Greeter* greeter = found->second;
  boundaries_.erase(found);
  for (const auto& visit : visits_) {
    if (visit->greeter == greeter && visit->handle.valid()) {
      ::shutdown(visit->handle.get(), SHUT_RDWR);
    }
  }
  left_.wait(lock, [&] {
    return std::ranges::none_of(visits_, [&](const auto& v) { return v->greeter == greeter; });
  });
}

void Listener::accept_all() {
  for (;;) {
    pollfd watched[2] = {{socket_.get(), POLLIN, 0}, {stop_.fd(), POLLIN, 0}};
    if (::poll(watched, 2, -1) < 0 && errno != EINTR) return;
    if (watched[1].revents != 0) return;
    std::string peer;
    Descriptor socket = accept_from(socket_, peer);
    if (socket.valid()) {
      admit(std::move(socket), std::move(peer));
    } else if (errno == EMFILE || errno == ENFILE) {
      log_warn("transport", "{}: no descriptors left to accept a connection", address_.text());
      pollfd stop = {stop_.fd(), POLLIN, 0};
      if (::poll(&stop, 1, static_cast<int>(kOutOfDescriptorsPause.count())) > 0) return;
    }
  }
}

void Listener::admit(Descriptor socket, std::string peer) {
  reap();
  Descriptor handle(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  const std::lock_guard lock(mutex_);
  if (visits_.size() >= kMaxGreetings || !handle.valid()) {
    log_warn("transport", "{}: {} was turned away, {} others have not finished their greeting",
             address_.text(), peer, visits_.size());
    return;
  }
  auto visit = std::make_unique<Visit>();
  visit->handle = std::move(handle);
  visit->peer = std::move(peer);
  Visit& started = *visit;
  visits_.push_back(std::move(visit));
  started.thread = std::thread(
      [this, &started, taken = std::move(socket)]() mutable { greet(started, std::move(taken)); });
}

void Listener::reap() {
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

void Listener::greet(Visit& visit, Descriptor socket) {
  try {
    greet_stream(visit, std::move(socket));
  } catch (const Error& error) {
    log_warn("transport", "{}: connection from {} refused: {}", address_.text(), visit.peer,
             error.what());
  }
  const std::lock_guard lock(mutex_);
  visit.handle = Descriptor();
  visit.greeter = nullptr;
  visit.done = true;
  left_.notify_all();
}

void Listener::greet_stream(Visit& visit, Descriptor socket) {
  const Deadline deadline = deadline_in(handshake_timeout_);
  StreamPtr stream = context_ ? context_->wrap(std::move(socket), visit.peer, deadline, nullptr)
                              : make_plain_stream(std::move(socket), visit.peer);
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
                          format("no boundary '{}' listens at {}", hello.boundary, address_.text()),
                          true);
    send_refusal(*stream, refused, deadline);
    throw refused;
  }
  const GreetedLink greeted = greet_as_listener(std::move(stream), hello, *greeter, deadline);
  {
    // From here on the connection is the greeter's: it alone may end it.
    const std::lock_guard lock(mutex_);
    visit.handle = Descriptor();
  }
  greeter->adopt(greeted);
}

}  // namespace harmonics
