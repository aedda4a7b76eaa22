#include "http_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include <harmonics/base/error.h>

#include "wire/oip_json.h"

namespace harmonics::inline in_serve {
namespace {

// How long whoever was answered last may go on talking.
constexpr std::chrono::seconds kParting(2);

const char* phrase_of(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 303: return "See Other";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 409: return "Conflict";
    case 411: return "Length Required";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    default: return "Service Unavailable";
  }
}

}  // namespace

std::string http_text(const HttpReply& reply, bool with_body, bool keep_alive) {
  std::string text =
      format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nConnection: {}\r\n", reply.status,
             phrase_of(reply.status), reply.type, keep_alive ? "keep-alive" : "close");
  if (!reply.stream) text += format("Content-Length: {}\r\n", reply.body.size());
  for (const auto& [name, value] : reply.headers) text += format("{}: {}\r\n", name, value);
  text += "\r\n";
  if (with_body) text += reply.body;
  return text;
}

HttpConnection::HttpConnection(Descriptor socket, std::uint64_t number,
                               const ServingDoor::Terms& terms, const TlsIdentity* identity)
    : socket_(std::move(socket)), number_(number), terms_(terms), parser_(terms.max_body) {
  // Who connects and says nothing has no longer than one who says it slowly.
  until_ = Steady::now() + terms_.patience;
  if (identity != nullptr) tls_ = std::make_unique<TlsFilter>(*identity);
}

HttpConnection::~HttpConnection() {
  if (stream_) stream_->close();
  if (left_) *left_ = true;
}

short HttpConnection::wanted_events() const {
  if (state_ == State::kAnswering) return POLLRDHUP;  // all that it can say is that it is gone
  return state_ == State::kWriting || sent_ < outgoing_.size() ? POLLOUT : POLLIN;
}

HttpConnection::Steady::time_point HttpConnection::patience_for(std::size_t bytes) const {
  return Steady::now() + terms_.patience + std::chrono::seconds(bytes / ServingDoor::kSlowestBytes);
}

void HttpConnection::move(short events, std::size_t room) {
  try {
    if ((events & POLLOUT) != 0) flush();
    pump();
    if (state_ == State::kAnswering) {
      if ((events & (POLLRDHUP | POLLHUP | POLLERR)) != 0) close();
      return;
    }
    if ((events & (POLLIN | POLLHUP | POLLERR)) == 0) return;
    if (state_ == State::kReading) read(room);
    if (state_ == State::kParting || state_ == State::kStreaming) drop();
  } catch (const Error&) {
    close();  // no TLS, or none any more: there is nobody to tell
  }
}

// A socket that is closed with bytes unread resets the connection, and the answer with it.
void HttpConnection::drop() {
  std::array<char, 65536> bytes;
  const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) close();
}

void HttpConnection::read(std::size_t room) {
  std::array<char, 65536> bytes;
  const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return close();
  const std::string_view came(bytes.data(), static_cast<std::size_t>(got));
  if (tls_) {
    const std::string plain = tls_->read(came);
    outgoing_ += tls_->take_wire();
    if (!plain.empty()) {
      begin_request();
      parser_.feed(plain);
    }
    flush();
  } else {
    begin_request();
    parser_.feed(came);
  }
  if (state_ == State::kReading) look(room);
}

void HttpConnection::begin_request() {
  if (in_request_) return;
  in_request_ = true;
  until_ = patience_for(0);
}

void HttpConnection::look(std::size_t room) {
  switch (parser_.stage()) {
    case HttpParser::Stage::kHead: return;
    case HttpParser::Stage::kBroken: return refuse(parser_.status(), parser_.problem());
    case HttpParser::Stage::kBody:
      if (held_ == 0 && parser_.body_bytes() > room) {
        return refuse(503, "too many requests are being received: try again later");
      }
      if (held_ == 0) until_ = patience_for(parser_.body_bytes());
      held_ = parser_.body_bytes();
      if (parser_.take_expectation()) send("HTTP/1.1 100 Continue\r\n\r\n");
      return;
    case HttpParser::Stage::kWhole:
      held_ = parser_.body_bytes();
      state_ = State::kAnswering;
      until_ = Steady::time_point::max();
      has_query_ = true;
  }
}

HttpQuery HttpConnection::take_query() {
  has_query_ = false;
  HttpQuery query = parser_.take();
  left_ = std::make_shared<std::atomic<bool>>(false);
  query.left = left_;
  keep_alive_ = query.keep_alive;
  is_head_ = query.method == "HEAD";
  return query;
}

void HttpConnection::refuse(int status, const std::string& why) {
  HttpReply reply{status, "application/json", error_json(why), {}};
  if (status == 503) reply.headers.emplace_back("Retry-After", "1");
  answer(reply, true);
}

void HttpConnection::answer(const HttpReply& reply, bool ends) {
  if (ends || reply.stream) keep_alive_ = false;
  stream_ = reply.stream;
  left_.reset();
  if (stream_ && is_head_) stream_->close();
  state_ = State::kWriting;
  held_ = 0;
  until_ = patience_for(reply.body.size());
  try {
    send(http_text(reply, !is_head_, keep_alive_));
  } catch (const Error&) {
    close();
  }
}

void HttpConnection::send(const std::string& plain) {
  if (tls_) {
    tls_->write(plain);
    outgoing_ += tls_->take_wire();
  } else {
    outgoing_ += plain;
  }
  flush();
}

void HttpConnection::flush() {
  while (sent_ < outgoing_.size()) {
    const ssize_t sent =
        ::send(socket_.get(), outgoing_.data() + sent_, outgoing_.size() - sent_, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return;
    if (sent < 0) return close();
    sent_ += static_cast<std::size_t>(sent);
  }
  outgoing_ = {};
  sent_ = 0;
  if (state_ == State::kWriting && stream_) state_ = State::kStreaming;
  if (state_ == State::kStreaming) until_ = Steady::time_point::max();
  if (state_ != State::kWriting) return;
  if (!keep_alive_) return part();
  state_ = State::kReading;
  in_request_ = !parser_.is_fresh();
  until_ = in_request_ ? patience_for(0) : Steady::now() + ServingDoor::kIdlePatience;
  look(ServingDoor::kMaxHeldBytes);  // what came behind the last request
}

void HttpConnection::part() {
  ::shutdown(socket_.get(), SHUT_WR);
  state_ = State::kParting;
  until_ = Steady::now() + kParting;
}

// The next pieces go out when the last are: until then they wait in the stream, which has a
// ceiling. Nobody rings when the last one has gone, so the end is looked for here.
void HttpConnection::pump() {
  while (state_ == State::kStreaming && sent_ == outgoing_.size()) {
    const std::string piece = stream_->take();
    if (piece.empty()) {
      if (stream_->is_over()) part();
      return;
    }
    until_ = patience_for(piece.size());
    try {
      send(piece);
    } catch (const Error&) {
      close();
    }
  }
}

}  // namespace harmonics::inline in_serve
