// The page: a cluster in a browser, and what it is made of as JSON (private to server).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <harmonics/rpc/tls.h>

#include "server_loop.h"

namespace harmonics::inline in_server {

/// Where it is served, and to whom.
struct PageTerms {
  std::string host;
  std::uint16_t port = 0;  ///< 0 picks one.
  std::optional<TlsFiles> tls;
  /// The highest priority that a task of a user without the role admin may have.
  std::int32_t max_priority = 0;
  /// /metrics and /status ask nobody who they are.
  bool open_counts = false;
};

/// Serves from construction on, over HTTPS where there is TLS; `loop` must outlive it. The files of
/// the page itself need no token. /metrics and /status need one of the role view or admin, as
/// "Authorization: Bearer TOKEN" or by a session, unless `open_counts`. All else needs a session:
/// POST /api/login takes a token of the cluster and gives a cookie, and what changes something must
/// show the session's action token too. Rights are those of the token, as at the door for programs.
class HttpPage {
 public:
  HttpPage(const PageTerms& terms, ServerLoop& loop);
  ~HttpPage();
  HttpPage(const HttpPage&) = delete;
  HttpPage& operator=(const HttpPage&) = delete;
  [[nodiscard]] int port() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace harmonics::inline in_server
