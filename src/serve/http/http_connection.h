// One connection of a ServingDoor (private to serve).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include <harmonics/base/descriptor.h>
#include <harmonics/serve/http_door.h>

#include "http_parser.h"
#include "tls_filter.h"

namespace harmonics::inline in_serve {

/// The bytes of an answer.
[[nodiscard]] std::string http_text(const HttpReply& reply, bool with_body, bool keep_alive);

/// Reads requests and writes answers without ever waiting. The door's thread.
class HttpConnection {
 public:
  using Steady = std::chrono::steady_clock;
  /// Streaming: the head is out, and pieces of the body follow as they come. Parting: the last
  /// answer is out, and what still comes is dropped, so that it is not lost.
  enum class State { kReading, kAnswering, kWriting, kStreaming, kParting, kOver };

  HttpConnection(Descriptor socket, std::uint64_t number, const ServingDoor::Terms& terms,
                 const TlsIdentity* identity);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] std::uint64_t number() const { return number_; }
  [[nodiscard]] int socket() const { return socket_.get(); }
  [[nodiscard]] short wanted_events() const;
  /// When it is closed if nothing happens; far away while its answer is being made.
  [[nodiscard]] Steady::time_point until() const { return until_; }
  /// It has asked nothing, or its last answer is out.
  [[nodiscard]] bool is_idle() const {
    return state_ == State::kParting || (state_ == State::kReading && parser_.is_fresh());
  }
  /// What it may come to hold: the body of the request that it is sending.
  [[nodiscard]] std::size_t held_bytes() const { return held_; }

  /// The socket is ready. `room` is how many bytes of bodies may be held beyond what this one
  /// holds.
  void move(short events, std::size_t room);
  /// A whole request is there: it has to be taken, once.
  [[nodiscard]] bool has_query() const { return has_query_; }
  [[nodiscard]] HttpQuery take_query();
  void answer(const HttpReply& reply, bool ends);
  /// Sends what its stream has; nothing for a connection that has none.
  void pump();
  void close() { state_ = State::kOver; }

 private:
  void read(std::size_t room);
  void drop();
  void look(std::size_t room);
  void refuse(int status, const std::string& why);
  void send(const std::string& plain);
  void flush();
  void begin_request();
  void part();
  [[nodiscard]] Steady::time_point patience_for(std::size_t bytes) const;

  Descriptor socket_;
  const std::uint64_t number_;
  const ServingDoor::Terms& terms_;
  std::unique_ptr<TlsFilter> tls_;
  HttpParser parser_;
  State state_ = State::kReading;
  Steady::time_point until_;
  std::shared_ptr<HttpStream> stream_;
  std::string outgoing_;
  std::size_t sent_ = 0;
  std::size_t held_ = 0;
  std::shared_ptr<std::atomic<bool>> left_;  // of the request that is being answered
  bool in_request_ = false;
  bool has_query_ = false;
  bool keep_alive_ = true;
  bool is_head_ = false;
};

}  // namespace harmonics::inline in_serve
