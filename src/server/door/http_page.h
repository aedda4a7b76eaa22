// Metrics for Prometheus and a status for scripts, over plain HTTP (private to server).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server_loop.h"

namespace harmonics::inline in_server {

/// Serves /metrics and /status from construction on; `loop` must outlive it. What it shows needs no
/// token: counts, also by user and worker, and of pipelines that run their numbers; nothing else of
/// tasks, not even their names.
class HttpPage {
 public:
  HttpPage(const std::string& host, std::uint16_t port, ServerLoop& loop);
  ~HttpPage();
  HttpPage(const HttpPage&) = delete;
  HttpPage& operator=(const HttpPage&) = delete;
  [[nodiscard]] int port() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// The text of /status.
[[nodiscard]] std::string status_text(const ClusterStatus& status,
                                      const std::vector<TaskView>& pipelines);

}  // namespace harmonics::inline in_server
