// What the server tells Prometheus (private to server).
#pragma once

#include <string>
#include <vector>

#include <harmonics/rpc/views.h>

#include "server_loop.h"

namespace harmonics::inline in_server {

/// Users and workers that have lines of their own, the busiest; the others share one.
inline constexpr std::size_t kMaxMetricLabels = 100;

/// What a page of metrics is made of.
struct MetricsView {
  ClusterStatus status;
  std::vector<WorkerView> workers;
  std::vector<UserView> users;
};

/// The text of /metrics.
[[nodiscard]] std::string metrics_text(const MetricsView& view, const LoopCounters& counters,
                                       const TaskTimes& times);

/// `text` as the value of a label, between double quotes.
[[nodiscard]] std::string label_text(std::string_view text);

}  // namespace harmonics::inline in_server
