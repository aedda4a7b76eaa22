// What a service counts, and its page for Prometheus.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include <harmonics/base/clock.h>

namespace harmonics::inline in_serve {

/// Upper bounds of the classes of latency, in seconds; one more class has none.
inline constexpr std::array<double, 14> kLatencyBounds = {
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0};

/// Counters since the service began, and how it is now. A value.
struct ServiceFigures {
  std::int64_t answered = 0;
  /// No room, or not ready.
  std::int64_t refused = 0;
  /// The deadline passed first.
  std::int64_t expired = 0;
  /// The stream broke too often.
  std::int64_t failed = 0;
  std::int64_t rows = 0;
  /// Batches with requests, and the rows that filled them up.
  std::int64_t batches = 0;
  std::int64_t filling_rows = 0;
  /// How often the stream broke.
  std::int64_t breaks = 0;
  /// From submitting to answering, of those answered.
  std::array<std::int64_t, kLatencyBounds.size() + 1> latencies{};
  double latency_sum_s = 0;
  // Now.
  std::int64_t waiting_rows = 0;
  std::int64_t in_flight = 0;
  bool ready = false;

  void note_latency(Nanoseconds time);
};

/// The text of /metrics, every line of it for this model.
[[nodiscard]] std::string figures_text(const std::string& model, const ServiceFigures& figures);

}  // namespace harmonics::inline in_serve
