// harmonics server: runs until Ctrl-C. Tasks and workers go on without it.
#include <harmonics/server/server.h>

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <optional>

#include <harmonics/base/error.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/server/certificates.h>

#include "access.h"
#include "signals.h"
#include "subcommands.h"

namespace harmonics {
namespace {

constexpr std::chrono::milliseconds kLookPeriod(100);

ServerSettings settings_of(const ServerCommand& command) {
  ServerSettings settings;
  settings.state_dir = state_folder(command.state_dir);
  settings.store = command.store;
  settings.new_store = command.new_store;
  settings.policy = command.policy;
  settings.policy_host = program_folder() / "harmonics-cluster";
  settings.host = command.host;
  settings.port = static_cast<std::uint16_t>(command.port);
  settings.tls = tls_files(command.tls, "server");
  settings.insecure = command.insecure;
  settings.tokens_file = command.tokens_file;
  if (settings.tokens_file.empty() && !command.tls.empty()) {
    settings.tokens_file = command.tls / "tokens";
  }
  if (command.http_port >= 0) settings.http_port = static_cast<std::uint16_t>(command.http_port);
  settings.rate = static_cast<std::uint64_t>(command.rate);
  const auto lease = std::chrono::seconds(command.lease_s);
  // Six heartbeats in a lease; a tenth of it for clocks that run apart.
  settings.reactor.lease = lease;
  settings.reactor.heartbeat = Nanoseconds(lease) / 6;
  settings.reactor.drift = Nanoseconds(lease) / 10;
  settings.reactor.stop_grace = std::min(settings.reactor.stop_grace, Nanoseconds(lease) / 4);
  return settings;
}

}  // namespace

int server(const ServerCommand& command) {
  if (!command.init.empty()) {
    make_certificates(command.init, command.init_hosts);
    write_text(Stream::kOutput,
               format("made certificates and tokens in '{}': start the server with --tls {}, and "
                      "copy ca.pem, worker.* to workers and ca.pem, client.*, one token to users\n",
                      command.init.string(), command.init.string()));
    return kExitDone;
  }
  if (!command.tls.empty() && ::access((command.tls / "server.pem").c_str(), F_OK) != 0) {
    fail(ErrorCode::kNotFound,
         "there are no certificates in '{}': make them with 'harmonics server --init {}'",
         command.tls.string(), command.tls.string());
  }
  // gRPC would explain a taken port once more, in its own words. Not in a worker: its tasks inherit
  // what it has, and may speak gRPC themselves.
  ::setenv("GRPC_VERBOSITY", "NONE", /*replace=*/0);
  std::atomic<bool> signalled{false};
  const SignalWatch watch([&] { signalled = true; });
  ServerSettings settings = settings_of(command);
  bool told = false;
  settings.on_standby = [&] {
    if (!told) write_text(Stream::kOutput, "another server leads: waiting to take over\n");
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
    text += format("metrics on http://{}:{}/metrics\n", command.host, server.http_port());
  }
  write_text(Stream::kOutput, text);
  while (!signalled) {
    const std::string failure = server.wait_for_failure(kLookPeriod);
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

}  // namespace harmonics
