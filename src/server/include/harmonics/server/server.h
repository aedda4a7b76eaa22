// The scheduler server: one loop that owns the cluster's state, a store before every promise, and
// the doors to it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <harmonics/cluster/reactor.h>
#include <harmonics/rpc/tls.h>

namespace harmonics::inline in_server {

/// Requests that one user may send in a second, unless told otherwise.
inline constexpr std::uint64_t kDefaultRate = 20'000;

struct ServerSettings {
  /// Made when absent (mode 700), locked while the server lives.
  std::filesystem::path state_dir;
  /// Empty: a SQLite file in `state_dir`; else what `open_store` takes.
  std::string store;
  /// The store may be empty although this state folder has served it before.
  bool new_store = false;
  /// A built-in policy, or the path of a policy library (see policy_process.h).
  std::string policy = "balanced";
  /// The program that a policy library runs in.
  std::filesystem::path policy_host;
  /// "127.0.0.1" unless told otherwise. An address that others can reach needs TLS or `insecure`.
  std::string host = "127.0.0.1";
  std::uint16_t port = 50051;  ///< 0 picks one.
  std::optional<TlsFiles> tls;
  bool insecure = false;
  /// Lines of "ROLES USER TOKEN" besides the token of `state_dir`; empty: none.
  std::filesystem::path tokens_file;
  /// Where metrics and status are served, on `host`; nothing: nowhere. 0 picks a port.
  std::optional<std::uint16_t> http_port;
  /// They ask for no token there.
  bool metrics_open = false;
  /// How long another server may take to let go of the store.
  Nanoseconds store_patience = std::chrono::seconds(10);
  /// Called about once a second while another server leads a store that several may share
  /// (PostgreSQL); false gives up (an Error, kCancelled). Nothing: waits for as long as it takes.
  std::function<bool()> on_standby{};
  std::uint64_t rate = kDefaultRate;
  /// The highest priority that a task of a user without the role admin may have.
  std::int32_t max_priority = 0;
  ServerOptions reactor;
};

/// Runs from construction until it is destroyed or fails. Any thread.
class ClusterServer {
 public:
  /// Throws an Error that says what to do: state folder in use, store broken, address taken.
  explicit ClusterServer(ServerSettings settings);
  /// Answers what is under way, then closes. Tasks go on; so do workers, which wait for a server.
  ~ClusterServer();
  ClusterServer(const ClusterServer&) = delete;
  ClusterServer& operator=(const ClusterServer&) = delete;

  [[nodiscard]] int port() const;
  /// 0 when there is none.
  [[nodiscard]] int http_port() const;
  /// Waits until the loop has failed (the store did) or `timeout` has passed; why it failed, or
  /// empty. A server that has failed acknowledges nothing more: end the process and start anew.
  [[nodiscard]] std::string wait_for_failure(Nanoseconds timeout);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace harmonics::inline in_server
