#include "http_door.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <list>
#include <thread>
#include <vector>

#include <harmonics/base/channel.h>
#include <harmonics/base/clock.h>
#include <harmonics/base/descriptor.h>
#include <harmonics/base/error.h>

namespace harmonics::inline in_server {
namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kBacklog = 64;

struct Connection {
  Descriptor socket;
  std::uint64_t number = 0;
  Steady::time_point until;
  std::string request{};
  std::string answer{};  ///< What is left of it.
  enum class State { kReading, kAnswering, kWriting, kOver } state = State::kReading;
};

struct Question {
  std::uint64_t number = 0;
  std::string method;
  std::string path;
};
struct Reply {
  std::uint64_t number = 0;
  std::string text;
};

const char* phrase(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 431: return "Request Header Fields Too Large";
    default: return "Service Unavailable";
  }
}

std::string text_of(const HttpAnswer& answer, bool with_body = true) {
  return format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
      answer.status, phrase(answer.status), answer.type, answer.body.size(),
      with_body ? answer.body : "");
}

/// "GET /metrics?x=1 HTTP/1.1": method and path; empty ones for what is no request.
Question question_of(std::uint64_t number, const std::string& request) {
  const std::string line = request.substr(0, request.find("\r\n"));
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == line.npos || last == first || line.compare(last + 1, 5, "HTTP/") != 0) {
    return {number, "", ""};
  }
  const std::string target = line.substr(first + 1, last - first - 1);
  return {number, line.substr(0, first), target.substr(0, target.find('?'))};
}

std::string answer_to(const Question& question, const HttpDoor::Pages& pages) {
  if (question.method.empty()) return text_of({400, "text/plain", "this is no HTTP request\n"});
  if (question.method != "GET" && question.method != "HEAD") {
    return text_of({405, "text/plain", "only GET and HEAD\n"});
  }
  std::optional<HttpAnswer> answer = pages(question.path);
  if (!answer) answer = HttpAnswer{404, "text/plain", "there is no such page\n"};
  return text_of(*answer, question.method == "GET");
}

Descriptor listening_socket(const std::string& host, std::uint16_t port, int& got) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> places(found, ::freeaddrinfo);
  for (const addrinfo* place = found; place != nullptr; place = place->ai_next) {
    Descriptor made(::socket(place->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int yes = 1;
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    if (made && ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        ::bind(made.get(), place->ai_addr, place->ai_addrlen) == 0 &&
        ::listen(made.get(), kBacklog) == 0 &&
        ::getsockname(made.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0) {
      got = ntohs(address.ss_family == AF_INET
                      ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                      : reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
      return made;
    }
  }
  return {};
}

}  // namespace

struct HttpDoor::Parts {
  Pages pages;
  milliseconds patience{};
  int port = 0;
  Descriptor listening;
  Descriptor wake;
  std::thread door;
  std::thread answerer;
  Channel<Question> questions{kMaxConnections};
  Channel<Reply> replies{kMaxConnections};

  // The door's thread's own.
  std::list<Connection> connections;  ///< The oldest first.
  std::uint64_t numbers = 0;

  void ring() const {
    const std::uint64_t one = 1;
    static_cast<void>(::write(wake.get(), &one, sizeof one));
  }

  void answer() {
    while (const auto question = questions.pop(Channel<Question>::kForever)) {
      std::string text;
      try {
        text = answer_to(*question, pages);
      } catch (const std::exception& error) {
        text = text_of({503, "text/plain", format("{}\n", error.what())});
      }
      if (!replies.push({question->number, std::move(text)})) return;
      ring();
    }
  }

  void begin_writing(Connection& connection, std::string text) {
    connection.answer = std::move(text);
    connection.until = Steady::now() + patience;
    connection.state = Connection::State::kWriting;
    write(connection);
  }

  void read(Connection& connection) {
    std::array<char, 2048> bytes;
    const ssize_t got = ::recv(connection.socket.get(), bytes.data(), bytes.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
      connection.state = Connection::State::kOver;
      return;
    }
    connection.request.append(bytes.data(), static_cast<std::size_t>(got));
    if (connection.request.find("\r\n\r\n") != std::string::npos) {
      connection.state = Connection::State::kAnswering;
      // There are no more questions than connections, so there is room for this one.
      questions.push(question_of(connection.number, connection.request));
    } else if (connection.request.size() > kMaxRequestBytes) {
      begin_writing(connection, text_of({431, "text/plain", "the request is too long\n"}));
    }
  }

  void write(Connection& connection) {
    const ssize_t sent = ::send(connection.socket.get(), connection.answer.data(),
                                connection.answer.size(), MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (sent < 0) {
      connection.state = Connection::State::kOver;
      return;
    }
    connection.answer.erase(0, static_cast<std::size_t>(sent));
    if (!connection.answer.empty()) return;
    ::shutdown(connection.socket.get(), SHUT_WR);
    connection.state = Connection::State::kOver;
  }

  void accept_one() {
    Descriptor made(::accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!made) return;
    if (connections.size() >= kMaxConnections) drop_oldest();
    if (connections.size() >= kMaxConnections) return;
    connections.push_back({std::move(made), ++numbers, Steady::now() + patience});
  }

  void drop_oldest() {
    for (auto one = connections.begin(); one != connections.end(); ++one) {
      if (one->state == Connection::State::kAnswering) continue;
      connections.erase(one);
      return;
    }
  }

  void take_replies() {
    std::uint64_t count = 0;
    static_cast<void>(::read(wake.get(), &count, sizeof count));
    while (auto reply = replies.pop(Nanoseconds(0))) {
      for (Connection& one : connections) {
        if (one.number == reply->number) begin_writing(one, std::move(reply->text));
      }
    }
  }

  void sweep() {
    const auto now = Steady::now();
    for (auto one = connections.begin(); one != connections.end();) {
      const bool waits = one->state != Connection::State::kAnswering;
      if (one->state != Connection::State::kOver && !(waits && one->until <= now)) {
        ++one;
        continue;
      }
      one = connections.erase(one);
    }
  }

  [[nodiscard]] int next_look() const {
    auto next = Steady::time_point::max();
    for (const Connection& one : connections) {
      if (one.state != Connection::State::kAnswering) next = std::min(next, one.until);
    }
    if (next == Steady::time_point::max()) return -1;
    const auto left = std::chrono::ceil<milliseconds>(next - Steady::now());
    return static_cast<int>(std::max(left, milliseconds(0)).count());
  }

  void run() {
    while (!questions.closed()) {
      std::vector<pollfd> watched = {{listening.get(), POLLIN, 0}, {wake.get(), POLLIN, 0}};
      std::vector<Connection*> whose;
      for (Connection& one : connections) {
        // One that waits for its answer is not looked at: it could only say that it is gone.
        const bool waits = one.state == Connection::State::kAnswering;
        const bool reads = one.state == Connection::State::kReading;
        watched.push_back(
            {waits ? -1 : one.socket.get(), static_cast<short>(reads ? POLLIN : POLLOUT), 0});
        whose.push_back(&one);
      }
      ::poll(watched.data(), watched.size(), next_look());
      for (std::size_t i = 0; i < whose.size(); ++i) {
        if (watched[i + 2].revents == 0) continue;
        if (whose[i]->state == Connection::State::kReading) read(*whose[i]);
        if (whose[i]->state == Connection::State::kWriting) write(*whose[i]);
      }
      if (watched[1].revents != 0) take_replies();
      if (watched[0].revents != 0) accept_one();
      sweep();
    }
  }
};

HttpDoor::HttpDoor(const std::string& host, std::uint16_t port, Pages pages, milliseconds patience)
    : parts_(std::make_unique<Parts>()) {
  parts_->pages = std::move(pages);
  parts_->patience = patience;
  parts_->wake.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  parts_->listening = listening_socket(host, port, parts_->port);
  if (!parts_->listening || !parts_->wake) {
    fail(ErrorCode::kUnavailable, "cannot serve HTTP on {}:{}: choose another --http", host, port);
  }
  parts_->answerer = std::thread([this] { parts_->answer(); });
  parts_->door = std::thread([this] { parts_->run(); });
}

HttpDoor::~HttpDoor() {
  parts_->questions.close();
  parts_->replies.close();
  parts_->ring();
  parts_->door.join();
  parts_->answerer.join();
}

int HttpDoor::port() const { return parts_->port; }

}  // namespace harmonics::inline in_server
