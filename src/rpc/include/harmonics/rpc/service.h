// The server's door: gRPC in front of whoever answers requests and holds sessions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/rpc/rights.h>
#include <harmonics/rpc/tls.h>
#include <harmonics/rpc/views.h>

namespace harmonics::inline in_rpc {

/// The longest message that either side of a cluster takes.
inline constexpr int kMaxClusterMessageBytes = 16 << 20;
/// Messages that wait for one slow worker; a session with more is closed.
inline constexpr std::size_t kMaxQueuedMessages = 200'000;
/// Clients that follow output through the server at one time.
inline constexpr int kMaxOutputReaders = 64;

/// The server's side of one connected worker. Any thread; never waits.
class SessionLine {
 public:
  virtual ~SessionLine() = default;
  /// From now on the connection is that session.
  virtual void open(Epoch epoch) = 0;
  virtual void send(const ServerMessage& message) = 0;
  /// Sends what is queued, then closes.
  virtual void close() = 0;
};

/// A line of progress; of no consequence, so it never becomes a fact.
struct ProgressLine {
  AttemptId id;
  std::string line;
};

/// Who stands behind the door. Called by gRPC's threads, must return at once; `reply` may be called
/// from any thread, exactly once.
class ClusterBackend {
 public:
  virtual ~ClusterBackend() = default;
  virtual void ask(ClientRequest request, std::function<void(ClientReply)> reply) = 0;
  /// A worker said hello on a new connection. `output_token` opens its logs.
  virtual void hello(RequestId connection, std::shared_ptr<SessionLine> line, HelloMessage hello,
                     std::string output_token) = 0;
  virtual void says(RequestId connection, std::vector<WorkerMessage> messages,
                    std::vector<ProgressLine> progress) = 0;
  /// The connection has ended; nothing more comes from it.
  virtual void gone(RequestId connection) = 0;
  /// Nothing: the token is unknown.
  virtual std::optional<Identity> identify(std::string_view token) = 0;
  /// Called for each request once its user is known (empty: an unknown token). A text refuses it:
  /// why, and what to do.
  virtual std::optional<std::string> refuse_rate(const std::string& user) = 0;
};

struct ServiceOptions {
  std::string address;  ///< "127.0.0.1:50051"; port 0 picks one.
  std::optional<TlsFiles> tls;
  /// The highest priority that a task of a user without the role admin may have.
  std::int32_t max_priority = 0;
  /// How many files this process may open. Nobody gets in when only the server's own are left.
  std::uint64_t descriptors = 1024;
  /// Workers at one time; 0: three quarters of the descriptors, so that clients still get in.
  std::uint64_t max_sessions = 0;
};

/// Listens from construction on. Not movable; `backend` must outlive it.
class ClusterService {
 public:
  /// Throws an Error (kUnavailable) when the address is taken.
  ClusterService(const ServiceOptions& options, ClusterBackend& backend);
  /// Cuts what is open and waits until no call is left.
  ~ClusterService();
  ClusterService(const ClusterService&) = delete;
  ClusterService& operator=(const ClusterService&) = delete;

  [[nodiscard]] int port() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace harmonics::inline in_rpc
