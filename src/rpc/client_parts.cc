#include "client_parts.h"

#include <algorithm>
#include <utility>

#include "server_speech.h"

namespace harmonics::inline in_rpc {

using std::chrono::milliseconds;
using std::chrono::system_clock;

namespace {

/// Between two rounds over servers none of which answers.
constexpr milliseconds kRoundPause(100);
/// So often may a server that listens turn the first connection away before it is not waited for:
/// it may have come up between two looks.
constexpr int kRefusals = 5;
/// One that came up has so long to be tried again: gRPC waits up to a second between two tries.
constexpr milliseconds kLongestRetry(2500);
/// After so long without a connection it is said that one is waited for.
constexpr milliseconds kFirstTry(1000);

bool somebody_listens(const std::string& servers) {
  return std::ranges::any_of(server_addresses(servers), [](const std::string& address) {
    return speech_of(address, kRoundPause) != Speech::kNothing;
  });
}

void pause(grpc::Channel& channel, const std::function<bool()>& interrupted) {
  channel.WaitForStateChange(GRPC_CHANNEL_TRANSIENT_FAILURE, system_clock::now() + kRoundPause);
  check_interrupted(interrupted);
}

}  // namespace

bool ClusterClient::Parts::await_server() {
  std::unique_lock lock(meeting, std::defer_lock);
  while (!lock.try_lock_for(kInterruptPeriod)) check_interrupted(options.interrupted);
  if (!met && options.patience > milliseconds(0)) look_for_server();
  return std::exchange(met, true);
}

void ClusterClient::Parts::prepare_call() {
  if (await_server() && options.reconnect > milliseconds(0)) {
    static_cast<void>(reaches_server(system_clock::now() + options.reconnect));
  }
}

void ClusterClient::Parts::look_for_server() {
  const auto end = system_clock::now() + options.patience;
  int refusals = 0;
  auto retried_by = system_clock::now();
  while (refusals < kRefusals || system_clock::now() < retried_by) {
    for (const Server& server : servers) {
      const auto first_try = std::min(end, system_clock::now() + kFirstTry);
      if (connects(*server.channel, first_try, options.interrupted)) return;
    }
    if (system_clock::now() >= end) return;
    if (somebody_listens(options.server)) {
      ++refusals;
    } else {
      retried_by = system_clock::now() + kLongestRetry;
      if (options.on_wait) std::exchange(options.on_wait, nullptr)();
    }
    pause(*servers.front().channel, options.interrupted);
  }
}

wire::Cluster::Stub& ClusterClient::Parts::leader(system_clock::time_point deadline) {
  if (servers.size() > 1) static_cast<void>(reaches_server(deadline));
  return *servers[present.load() % servers.size()].stub;
}

bool ClusterClient::Parts::reaches_server(system_clock::time_point deadline) {
  for (std::size_t tries = 1;; ++tries) {
    const std::size_t at = present.load();
    const Server& server = servers[at % servers.size()];
    if (connects(*server.channel, deadline, options.interrupted)) return true;
    if (system_clock::now() >= deadline) return false;
    std::size_t expected = at;
    present.compare_exchange_strong(expected, at + 1);
    if (tries % servers.size() == 0) pause(*server.channel, options.interrupted);
  }
}

}  // namespace harmonics::inline in_rpc
