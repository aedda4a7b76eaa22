// harmonics server: runs until Ctrl-C. Tasks and workers go on without it.
#include <harmonics/clients/access.h>
#include <harmonics/server/server.h>

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <optional>

#include <harmonics/base/error.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/programs/programs.h>
#include <harmonics/server/certificates.h>

#include "signals.h"
#include "subcommands.h"

namespace harmonics::inline in_cluster_program {
namespace {

constexpr std::chrono::milliseconds kFailurePeriod(100);

ServerSettings settings_of(const ServerCommand& command) {
  ServerSettings settings;
  settings.state_dir = state_folder(command.state_dir);
  settings.store = command.store;
  settings.new_store = command.new_store;
  settings.policy = command.policy;
  settings.policy_host = path_of(kClusterProgram);
  settings.host = command.host;
  settings.port = static_cast<std::uint16_t>(command.port);
  settings.tls = tls_files(command.tls, "server");
  settings.insecure = command.insecure;
  settings.tokens_file = command.tokens_file;
  if (settings.tokens_file.empty() && !command.tls.empty()) {
    settings.tokens_file = command.tls / "tokens";
  }
  if (command.http_port >= 0) settings.http_port = static_cast<std::uint16_t>(command.http_port);
  settings.metrics_open = command.metrics_open;
  settings.rate = static_cast<std::uint64_t>(command.rate);
  settings.max_priority = static_cast<std::int32_t>(command.max_priority);
  const auto lease = std::chrono::seconds(command.lease_s);
  // Six heartbeats in a lease; a tenth of it for clocks that run apart.
  settings.reactor.lease = lease;
  settings.reactor.hold = std::max<Nanoseconds>(lease, std::chrono::seconds(command.hold_s));
  settings.reactor.heartbeat = Nanoseconds(lease) / 6;
  settings.reactor.drift = Nanoseconds(lease) / 10;
  settings.reactor.stop_grace = std::min(settings.reactor.stop_grace, Nanoseconds(lease) / 4);
  return settings;
}

std::string at_port(const std::string& host, int port) {
  return host.find(':') == host.npos ? format("{}:{}", host, port) : format("[{}]:{}", host, port);
}

/// A name of this server that others can dial: what it listens on, unless that is every address.
std::string dialled(const ServerCommand& command, int port) {
  std::string host = command.host;
  if (host.starts_with("127.") || host == "::1") host = "localhost";
  if (host == "0.0.0.0" || host == "::") {
    std::array<char, 256> name{};
    host = ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
  }
  return at_port(host, port);
}

/// What to type next, word for word.
std::string next_steps(const ServerCommand& command, int port) {
  std::string flags = format("--scheduler {}", dialled(command, port));
  if (!command.tls.empty()) flags += format(" --tls {}", command.tls.string());
  if (command.tls.empty() && !command.state_dir.empty()) {
    flags += format(" --state-dir {}", command.state_dir.string());
  }
  return format(
      "add this machine to it:  harmonics worker {}\n"
      "hand in a task:          harmonics submit {} --gpus 0 --wait -- echo hello\n"
      "watch it:                harmonics monitor {}\n"
      "stop it:                 Ctrl-C; workers wait until it is back\n",
      flags, flags, flags);
}

int init(const ServerCommand& command) {
  const bool fresh = ::access((command.init / "ca.pem").c_str(), F_OK) != 0;
  const auto said =
      make_certificates(command.init, {command.init_hosts, command.init_users, command.revoked,
                                       static_cast<int>(command.init_days),
                                       static_cast<std::uint16_t>(command.port)});
  std::string text;
  if (fresh) {
    text = format(
        "made certificates and tokens in '{}', good until {}: start the server with --tls {}\n",
        command.init.string(), certificate_end(command.init / "server.pem"), command.init.string());
  }
  for (const std::string& line : said) text += line + "\n";
  write_text(TextStream::kOutput, text);
  return kExitDone;
}

}  // namespace

int server(const ServerCommand& command) {
  if (!command.init.empty()) return init(command);
  if (!command.revoked.empty() || !command.init_hosts.empty() || !command.init_users.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "--init-host, --init-user and --revoke need --init FOLDER, which holds the certificates");
  }
  ::umask(S_IRWXG | S_IRWXO);  // what it keeps is nobody else's business
  if (!command.tls.empty() && ::access((command.tls / "server.pem").c_str(), F_OK) != 0) {
    fail(ErrorCode::kNotFound,
         "there are no certificates in '{}': make them with 'harmonics server --init {}'",
         command.tls.string(), command.tls.string());
  }
  // gRPC would explain a taken port once more, in its own words. Not in a worker: its tasks inherit
  // what it has, and may speak gRPC themselves.
  ::setenv("GRPC_VERBOSITY", "NONE", /*replace=*/0);
  std::atomic<bool> signalled{false};
  const SignalWatch watch([&](int) { signalled = true; });
  ServerSettings settings = settings_of(command);
  bool told = false;
  settings.on_standby = [&] {
    if (!told) write_text(TextStream::kOutput, "another server leads: waiting to take over\n");
    told = true;
    return !signalled.load();
  };
  std::optional<ClusterServer> running;
  try {
    running.emplace(std::move(settings));
  } catch (const Error& error) {
    if (signalled && error.code() == ErrorCode::kCancelled) return kExitDone;
    throw;
  }
  ClusterServer& server = *running;
  std::string text =
      format("listening on {}:{}, policy {}, state in '{}'\n", command.host, server.port(),
             command.policy, state_folder(command.state_dir).string());
  if (server.http_port() != 0) {
    const std::string place = format("{}://{}", command.tls.empty() ? "http" : "https",
                                     at_port(command.host, server.http_port()));
    text += format("the page is on {}/  (log in with the token in '{}')\nmetrics on {}/metrics{}\n",
                   place, (state_folder(command.state_dir) / "token").string(), place,
                   command.metrics_open ? "" : "  (with that token, or one of the role view)");
  }
  write_text(TextStream::kOutput, text + next_steps(command, server.port()));
  while (!signalled) {
    const std::string failure = server.wait_for_failure(kFailurePeriod);
    if (!failure.empty()) {
      fail(
          ErrorCode::kInternal,
          "the server stops, since it can no longer keep its promises: {}; nothing acknowledged is "
          "lost, start it again once the cause is gone",
          failure);
    }
  }
  return kExitDone;
}

}  // namespace harmonics::inline in_cluster_program
