#include "listener.h"

#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <thread>
#include <utility>

#include <harmonics/base/log.h>

#include "tcp/tls.h"

namespace harmonics::inline in_transport {
namespace {

// The listeners of this process by kind and address.
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

// Accepts on a thread of its own.
class SocketListener final : public Listener {
 public:
  SocketListener(Descriptor socket, const TransportOptions& options)
      : Listener(bound_address(socket), options.tls, options.handshake_timeout),
        socket_(std::move(socket)),
        context_(options.tls.enabled()
                     ? std::make_unique<TlsContext>(options.tls, TlsContext::Side::kListening)
                     : nullptr),
        thread_([this] { accept_all(); }) {}

  ~SocketListener() override {
    stop_.signal();
    thread_.join();
    reception().close();
  }

 private:
  void accept_all() {
    for (;;) {
      pollfd watched[2] = {{socket_.get(), POLLIN, 0}, {stop_.fd(), POLLIN, 0}};
      if (::poll(watched, 2, -1) < 0 && errno != EINTR) return;
      if (watched[1].revents != 0) return;
      std::string peer;
      Descriptor socket = accept_from(socket_, peer);
      if (socket) {
        admit(std::move(socket), std::move(peer));
      } else if (errno == EMFILE || errno == ENFILE) {
        log_warn("transport", "{}: no descriptors left to accept a connection", address().text());
        pollfd stop = {stop_.fd(), POLLIN, 0};
        if (::poll(&stop, 1, static_cast<int>(kOutOfDescriptorsPause.count())) > 0) return;
      }
    }
  }

  void admit(Descriptor socket, std::string peer) {
    // A second descriptor of the connection, to end the visit early.
    auto handle = std::make_shared<Descriptor>(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
    if (!*handle) return;
    auto taken = std::make_shared<Descriptor>(std::move(socket));
    Visitor visitor;
    visitor.open = [this, taken, peer](Deadline deadline) {
      return context_ ? context_->wrap(std::move(*taken), peer, deadline, nullptr)
                      : make_plain_stream(std::move(*taken), peer);
    };
    visitor.hang_up = [handle] { ::shutdown(handle->get(), SHUT_RDWR); };
    visitor.peer = std::move(peer);
    (void)reception().admit(std::move(visitor));
  }

  const Descriptor socket_;
  const std::unique_ptr<TlsContext> context_;
  WakeEvent stop_;
  std::thread thread_;
};

}  // namespace

ListenerPtr shared_listener(std::string_view kind, const SocketAddress& address,
                            const TlsOptions& tls, const std::function<ListenerPtr()>& make) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.listeners, [](const auto& entry) { return entry.second.expired(); });
  const auto key = [kind](const SocketAddress& at) { return format("{} {}", kind, at.text()); };
  if (const auto found = all.listeners.find(key(address)); found != all.listeners.end()) {
    if (ListenerPtr listener = found->second.lock()) {
      if (listener->tls() != tls) {
        fail(ErrorCode::kInvalidArgument,
             "boundaries that share {} must have the same TLS options; give one another port",
             address.text());
      }
      return listener;
    }
  }
  ListenerPtr listener = make();
  if (listener) all.listeners[key(listener->address())] = listener;
  return listener;
}

ListenerPtr open_socket_listener(const SocketAddress& address, const TransportOptions& options) {
  return shared_listener("socket", address, options.tls, [&]() -> ListenerPtr {
    std::optional<Descriptor> socket = listen_on(address);
    if (!socket) return nullptr;
    return std::make_shared<SocketListener>(std::move(*socket), options);
  });
}

}  // namespace harmonics::inline in_transport
