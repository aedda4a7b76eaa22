#include <harmonics/server/server.h>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>
#include <harmonics/server/policy_process.h>
#include <harmonics/server/state_folder.h>

#include "door/descriptors.h"
#include "page/http_page.h"
#include "server_loop.h"
#include "store_opening.h"

namespace harmonics::inline in_server {
namespace {

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

void check_exposure(const ServerSettings& settings) {
  if (is_loopback(settings.host) || settings.tls || settings.insecure) return;
  fail(
      ErrorCode::kFailedPrecondition,
      "refusing to listen on {} without TLS, since tokens would travel in the open: make "
      "certificates with 'harmonics server --init DIR' and start with --tls DIR, or say --insecure "
      "on a network that you trust",
      settings.host);
}

Tokens load_tokens(const ServerSettings& settings) {
  Tokens tokens(make_token_file(settings.state_dir), user_name());
  if (!settings.tokens_file.empty()) tokens.add_file(settings.tokens_file);
  return tokens;
}

std::string address_of(const std::string& host, std::uint16_t port) {
  const bool bare_v6 = host.find(':') != host.npos && !host.starts_with('[');
  return bare_v6 ? format("[{}]:{}", host, port) : format("{}:{}", host, port);
}

}  // namespace

struct ClusterServer::Parts {
  std::unique_ptr<FolderLock> lock;
  std::unique_ptr<ServerLoop> loop;
  std::unique_ptr<ClusterService> service;
  std::unique_ptr<HttpPage> http;
};

ClusterServer::ClusterServer(ServerSettings settings) : parts_(std::make_unique<Parts>()) {
  check_exposure(settings);
  auto policy = open_policy(settings.policy,
                            settings.policy_host);  // a wrong name is said before anything is made
  make_state_folder(settings.state_dir);
  parts_->lock = std::make_unique<FolderLock>(settings.state_dir, "server");
  parts_->loop = std::make_unique<ServerLoop>(
      open_led_store(settings), load_tokens(settings),
      ServerLoop::Options{settings.policy, settings.reactor, settings.rate,
                          settings.state_dir / "pipelines", settings.tls.has_value()},
      std::move(policy));
  mark_store(settings, parts_->loop->term());
  parts_->service = std::make_unique<ClusterService>(
      ServiceOptions{address_of(settings.host, settings.port), settings.tls, settings.max_priority,
                     raise_descriptor_limit()},
      *parts_->loop);
  if (settings.http_port) {
    parts_->http =
        std::make_unique<HttpPage>(PageTerms{settings.host, *settings.http_port, settings.tls,
                                             settings.max_priority, settings.metrics_open},
                                   *parts_->loop);
  }
}

ClusterServer::~ClusterServer() {
  parts_->loop->stop();  // what it still has to answer, the page passes on
  parts_->http.reset();
  parts_->service.reset();
}

int ClusterServer::port() const { return parts_->service->port(); }

int ClusterServer::http_port() const { return parts_->http ? parts_->http->port() : 0; }

std::string ClusterServer::wait_for_failure(Nanoseconds timeout) {
  return parts_->loop->wait_for_failure(timeout);
}

}  // namespace harmonics::inline in_server
