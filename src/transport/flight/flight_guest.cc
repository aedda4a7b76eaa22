#include "flight_guest.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <utility>

#include <harmonics/base/log.h>

#include "flight_tensor.h"
#include "session/session_transport.h"
#include "tcp/stream_connection.h"

namespace harmonics::inline in_transport {
namespace {

namespace flight = arrow::flight;

// How often a wait for the boundary looks whether the guest is still there.
constexpr Nanoseconds kTick = std::chrono::milliseconds(100);
// How long a guest that leaves in peace waits for the boundary to have everything.
constexpr Nanoseconds kCloseTime = std::chrono::minutes(1);
// How long the boundary that a guest asks for may take to appear.
constexpr Nanoseconds kMeetTime = std::chrono::seconds(10);

// A connection to the reception of this process.
StreamPtr knock(Reception& reception, const std::string& peer) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) {
    fail_errno(errno, "no socket pair for a Flight client");
  }
  auto inside = std::make_shared<Descriptor>(ends[0]);
  Descriptor outside(ends[1]);
  auto handle = std::make_shared<Descriptor>(::fcntl(ends[0], F_DUPFD_CLOEXEC, 0));
  Visitor visitor;
  visitor.peer = peer;
  visitor.open = [inside, peer](Deadline) { return make_plain_stream(std::move(*inside), peer); };
  visitor.hang_up = [handle] { ::shutdown(handle->get(), SHUT_RDWR); };
  if (!reception.admit(std::move(visitor))) {
    fail(ErrorCode::kUnavailable, "too many greetings at once; try again");
  }
  return make_plain_stream(std::move(outside), "this boundary");
}

class Guest {
 public:
  Guest(Reception& reception, const GuestWish& wish)
      : context_(wish.context),
        transport_(binding_of(wish), options_of(wish), route_to(reception, wish.peer)) {
    (void)transport_.start();
  }

  arrow::Status serve(flight::FlightMessageReader& reader, flight::FlightMessageWriter& writer) {
    arrow::Status status;
    std::thread writing([&] { write_all(writer); });
    bool in_peace = false;
    try {
      in_peace = read_all(reader);
    } catch (const Error& error) {
      status = arrow::Status::Invalid(error.what());
    }
    gone_ = true;
    writing.join();
    if (!in_peace) return status;
    try {
      transport_.close(deadline_in(kCloseTime));
    } catch (const Error& error) {
      status = arrow::Status::IOError(error.what());
    }
    return status;
  }

 private:
  static RemoteBinding binding_of(const GuestWish& wish) {
    RemoteBinding binding{wish.boundary, "localhost", 0, RemoteTransport::Flight};
    binding.listen = false;
    check_binding(binding);
    return binding;
  }
  static TransportOptions options_of(const GuestWish& wish) {
    TransportOptions options;
    options.run = wish.run;
    options.token = wish.token;
    return options;
  }
  static Route route_to(Reception& reception, const std::string& peer) {
    Route route;
    route.connect = [&reception, peer](Deadline, const WakeEvent&) {
      return knock(reception, peer);
    };
    route.make_connection = [](StreamPtr stream, const Agreement& agreement, Deadline) {
      return make_stream_connection(std::move(stream), DecoderLimits{agreement.max_message_size()});
    };
    return route;
  }

  // True when the guest ended in peace.
  bool read_all(flight::FlightMessageReader& reader) {
    for (std::uint64_t number = 0;; ++number) {
      arrow::Result<flight::FlightStreamChunk> chunk = reader.Next();
      if (!chunk.ok()) return false;
      // The end of the writes, or of the guest: Flight reads both alike.
      if (!chunk->data && !chunk->app_metadata) return !context_.is_cancelled();
      const std::string metadata = chunk->app_metadata ? chunk->app_metadata->ToString() : "";
      send(message_from_arrow(chunk->data.get(), metadata, number, kDefaultMaxMessageSize));
    }
  }

  void send(const Message& message) {
    const Deadline meet = deadline_in(kMeetTime);
    for (;;) {
      try {
        transport_.send(message, deadline_in(kTick));
        return;
      } catch (const Error& error) {
        const bool met = transport_.stats().messages_sent > 0;
        const bool late = !met && std::chrono::steady_clock::now() > meet;
        if (error.code() != ErrorCode::kDeadlineExceeded || late || refused_) throw;
      }
    }
  }

  void write_all(flight::FlightMessageWriter& writer) {
    try {
      while (!gone_) {
        std::optional<Message> message;
        try {
          message = transport_.receive(deadline_in(kTick));
        } catch (const Error& error) {
          if (error.code() == ErrorCode::kDeadlineExceeded) continue;
          throw;
        }
        if (!message) break;
        if (!write(writer, *message).ok()) return;
      }
      if (!gone_) say(writer, "kind=end");
    } catch (const Error& error) {
      refused_ = true;
      if (gone_) return;
      log_warn("transport", "a Flight client gets no more of its boundary: {}", error.what());
      say(writer, format("kind=abandon {}", error.what()));
    }
  }

  static void say(flight::FlightMessageWriter& writer, const std::string& text) {
    // A guest that is gone does not hear it.
    (void)writer.WriteMetadata(arrow::Buffer::FromString(text));
  }

  arrow::Status write(flight::FlightMessageWriter& writer, const Message& message) {
    const ArrowMessage out = arrow_message(message);
    if (!out.batch) return writer.WriteMetadata(arrow::Buffer::FromString(out.metadata));
    if (!schema_) {
      schema_ = out.batch->schema();
      ARROW_RETURN_NOT_OK(writer.Begin(schema_));
    }
    if (!out.batch->schema()->Equals(*schema_)) {
      fail(ErrorCode::kFailedPrecondition,
           "a Flight stream has one schema: the boundary sent {} after {}",
           out.batch->schema()->field(0)->type()->ToString(),
           schema_->field(0)->type()->ToString());
    }
    return writer.WriteWithMetadata(*out.batch, arrow::Buffer::FromString(out.metadata));
  }

  const flight::ServerCallContext& context_;
  std::atomic<bool> gone_ = false;
  std::atomic<bool> refused_ = false;
  std::shared_ptr<arrow::Schema> schema_;
  SessionTransport transport_;
};

}  // namespace

arrow::Status serve_guest(Reception& reception, const GuestWish& wish,
                          flight::FlightMessageReader& reader,
                          flight::FlightMessageWriter& writer) {
  try {
    return Guest(reception, wish).serve(reader, writer);
  } catch (const Error& error) {
    return arrow::Status::Invalid(error.what());
  }
}

}  // namespace harmonics::inline in_transport
