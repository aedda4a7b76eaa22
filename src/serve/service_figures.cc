#include <harmonics/serve/service_figures.h>

#include <algorithm>

#include <harmonics/base/format.h>

namespace harmonics::inline in_serve {

void ServiceFigures::note_latency(Nanoseconds time) {
  const double seconds = in_seconds(time);
  const auto place = std::ranges::lower_bound(kLatencyBounds, seconds);
  ++latencies[static_cast<std::size_t>(place - kLatencyBounds.begin())];
  latency_sum_s += seconds;
}

std::string figures_text(const std::string& model, const ServiceFigures& figures) {
  std::string text;
  const auto head = [&](const char* name, const char* kind, const char* help) {
    text += format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, kind);
  };
  const auto single = [&](const char* name, const char* kind, const char* help, auto value) {
    head(name, kind, help);
    text += format("{}{{model=\"{}\"}} {}\n", name, model, value);
  };
  const char* const requests = "harmonics_serve_requests_total";
  head(requests, "counter", "Requests by what became of them.");
  const auto outcome = [&](const char* name, std::int64_t count) {
    text += format("{}{{model=\"{}\",outcome=\"{}\"}} {}\n", requests, model, name, count);
  };
  outcome("answered", figures.answered);
  outcome("refused", figures.refused);
  outcome("expired", figures.expired);
  outcome("failed", figures.failed);
  single("harmonics_serve_rows_total", "counter", "Rows of requests that were answered.",
         figures.rows);
  single("harmonics_serve_batches_total", "counter", "Batches with requests.", figures.batches);
  single("harmonics_serve_filling_rows_total", "counter", "Rows that filled batches up.",
         figures.filling_rows);
  single("harmonics_serve_breaks_total", "counter", "How often the stream broke.", figures.breaks);
  single("harmonics_serve_waiting_rows", "gauge", "Rows that wait for a batch.",
         figures.waiting_rows);
  single("harmonics_serve_in_flight", "gauge", "Batches under way.", figures.in_flight);
  single("harmonics_serve_ready", "gauge", "Whether requests are answered now.",
         figures.ready ? 1 : 0);
  const char* const latency = "harmonics_serve_latency_seconds";
  head(latency, "histogram", "From a request to its answer.");
  std::int64_t below = 0;
  for (std::size_t i = 0; i < figures.latencies.size(); ++i) {
    below += figures.latencies[i];
    const std::string bound =
        i < kLatencyBounds.size() ? format("{}", kLatencyBounds[i]) : std::string("+Inf");
    text += format("{}_bucket{{model=\"{}\",le=\"{}\"}} {}\n", latency, model, bound, below);
  }
  text += format("{}_sum{{model=\"{}\"}} {}\n", latency, model, figures.latency_sum_s);
  text += format("{}_count{{model=\"{}\"}} {}\n", latency, model, below);
  return text;
}

}  // namespace harmonics::inline in_serve
