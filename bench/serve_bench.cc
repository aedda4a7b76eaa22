// A service under load: a network of seven hidden layers behind HTTP in this process, and clients
// that ask for one row each over loopback.
//
// First as many as it can answer: sixteen clients that ask again at once. Then requests that come
// at random moments (Poisson), seven tenths as many: p99 from the moment that each was due, beside
// the limit of the guide, --max-wait and four full batches. Then four times as many as it can
// answer: all are answered or refused, and memory stays where it was.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <harmonics/base/descriptor.h>
#include <harmonics/base/error.h>
#include <harmonics/base/random.h>
#include <harmonics/schedule/cycle_runtime.h>
#include <harmonics/serve/http_front.h>
#include <harmonics/serve/service_producers.h>

#include "pieces/made_rows.h"
#include "pieces/mlp_graph.h"
#include "rounds.h"

namespace {

using namespace harmonics;
using Steady = std::chrono::steady_clock;

constexpr std::int64_t kBatchRows = 8;
constexpr std::chrono::milliseconds kMaxWait(5);
constexpr int kClosedClients = 32;
constexpr int kOpenClients = 96;

HarmonicGraph served_graph() { return bench::mlp_layers().consumer("scores", "logits").build(); }

/// The service, its stream on a thread of its own, and its door.
class Served {
 public:
  Served()
      : graph_(served_graph()),
        runtime_(graph_, options()),
        service_(card(), terms(), clock_),
        stream_([this] { stream(); }),
        front_(
            std::make_unique<HttpFront>(service_, ListenAddress{"127.0.0.1", 0}, FrontAccess{})) {
    while (service_.state() != ServiceState::kReady) std::this_thread::yield();
  }
  ~Served() {
    service_.drain();
    stream_.join();
    front_.reset();
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  [[nodiscard]] std::uint16_t port() const { return front_->port(); }
  [[nodiscard]] ServiceFigures figures() const { return service_.figures(); }
  [[nodiscard]] std::vector<std::int64_t> sizes() const { return service_.batch_sizes(); }

 private:
  static RuntimeOptions options() {
    RuntimeOptions made;
    made.threads = 1;
    return made;
  }
  static ModelCard card() {
    return {"mlp", {{"image", {{784}}}}, {{"scores", {{10}}}}, {}, kBatchRows};
  }
  static ServingTerms terms() {
    ServingTerms made;
    made.max_wait = kMaxWait;
    made.queue_rows = 8 * kBatchRows;
    return made;
  }
  void stream() {
    StreamOptions how;
    how.on_batch = [this](const StreamedBatch& batch) {
      service_.deliver(batch.number, batch.outputs);
    };
    const std::vector<std::string> inputs = {"image"};
    static_cast<void>(runtime_.stream(service_producers(service_, inputs), {}, how));
  }

  const SteadyClock clock_;
  const HarmonicGraph graph_;
  CycleRuntime runtime_;
  InferenceService service_;
  std::thread stream_;
  std::unique_ptr<HttpFront> front_;
};

/// One connection; asks for one row.
class RowClient {
 public:
  explicit RowClient(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int yes = 1;
    ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      fail_errno(errno, "cannot connect to the service");
    }
    const std::string json =
        R"({"inputs":[{"name":"image","shape":[1,784],"datatype":"FP32",)"
        R"("parameters":{"binary_data_size":3136}}],"parameters":{"binary_data_output":true}})";
    const Tensor row = bench::made_rows(served_graph().producers()[0], 1, 1);
    request_ = format(
        "POST /v2/models/mlp/infer HTTP/1.1\r\nHost: x\r\nInference-Header-Content-Length: {}\r\n"
        "Content-Length: {}\r\n\r\n{}{}",
        json.size(), json.size() + row.byte_size(), json, text_of(row.bytes()));
  }

  /// The status of the answer; 0 when the connection broke.
  int ask() {
    std::size_t sent = 0;
    while (sent < request_.size()) {
      const ssize_t count =
          ::send(socket_.get(), request_.data() + sent, request_.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return 0;
      sent += static_cast<std::size_t>(count);
    }
    std::string answer;
    for (;;) {
      const std::size_t head = answer.find("\r\n\r\n");
      if (head != answer.npos) {
        const std::size_t length = std::stoul(answer.substr(answer.find("Content-Length: ") + 16));
        if (answer.size() >= head + 4 + length) return std::stoi(answer.substr(9, 3));
      }
      char bytes[4096];
      const ssize_t count = ::recv(socket_.get(), bytes, sizeof bytes, 0);
      if (count <= 0) return 0;
      answer.append(bytes, static_cast<std::size_t>(count));
    }
  }

 private:
  Descriptor socket_;
  std::string request_;
};

struct Tally {
  std::vector<double> latencies;  // of those answered
  std::int64_t refused = 0;
  double seconds = 0;
  [[nodiscard]] double p99() {
    std::sort(latencies.begin(), latencies.end());
    return latencies[latencies.size() * 99 / 100];
  }
};

/// Requests from several clients; request i is due at times[i] seconds, or, where there are none,
/// when a client is free, until `seconds` have passed.
class Load {
 public:
  Load(std::uint16_t port, const std::vector<double>& times, double seconds)
      : port_(port), times_(times), seconds_(seconds), begin_(Steady::now()) {}

  Tally run(int clients) {
    std::vector<std::jthread> threads;
    for (int i = 0; i < clients; ++i) threads.emplace_back([this] { ask_all(); });
    threads.clear();
    tally_.seconds = passed();
    return std::move(tally_);
  }

 private:
  [[nodiscard]] double passed() const {
    return std::chrono::duration<double>(Steady::now() - begin_).count();
  }
  // When request `number` is due, once it is; nothing when there are no more.
  std::optional<double> await(std::size_t number) {
    const double now = passed();
    if (times_.empty()) return now < seconds_ ? std::optional(now) : std::nullopt;
    if (number >= times_.size()) return std::nullopt;
    const auto due = begin_ + std::chrono::duration_cast<Steady::duration>(
                                  std::chrono::duration<double>(times_[number]));
    std::unique_lock lock(mutex_);
    never_.wait_until(lock, due, [] { return false; });
    return times_[number];
  }
  void ask_all() {
    RowClient client(port_);
    while (const std::optional<double> due = await(next_++)) {
      const int status = client.ask();
      const std::lock_guard lock(mutex_);
      if (status == 200) tally_.latencies.push_back(passed() - *due);
      if (status == 503) ++tally_.refused;
    }
  }

  const std::uint16_t port_;
  const std::vector<double>& times_;
  const double seconds_;
  const Steady::time_point begin_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;
  std::condition_variable never_;
  Tally tally_;
};

Tally load(std::uint16_t port, int clients, const std::vector<double>& times, double seconds) {
  return Load(port, times, seconds).run(clients);
}

std::vector<double> arrivals(double rate, double seconds) {
  std::vector<double> times;
  Random chance(5, "arrivals");
  for (double at = 0; at < seconds;) {
    at += -std::log(1.0 - static_cast<double>(chance.below(1'000'000)) / 1e6) / rate;
    times.push_back(at);
  }
  return times;
}

double resident_mb() {
  std::ifstream file("/proc/self/statm");
  double all = 0;
  double resident = 0;
  file >> all >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1e6;
}

// Seconds of a full batch without any service.
double batch_seconds() {
  RuntimeOptions options;
  options.threads = 1;
  CycleRuntime runtime(served_graph(), options);
  const NamedTensors batch = {
      {"image", bench::made_rows(served_graph().producers()[0], kBatchRows, 1)}};
  std::vector<double> times;
  for (int i = 0; i < 20; ++i) {
    times.push_back(bench::measured([&] { static_cast<void>(runtime.infer(batch)); }).wall);
  }
  return bench::median(times);
}

}  // namespace

int main(int argc, char** argv) {
  const bool short_run = bench::has_flag(argc, argv, "--short");
  const double seconds = short_run ? 0.5 : 10;
  const double batch = batch_seconds();
  Served served;
  std::string sizes;
  for (const std::int64_t size : served.sizes()) sizes += format(" {}", size);
  std::printf("batches of%s rows; a full one takes %.2f ms\n",
              sizes.empty() ? " one request's" : sizes.c_str(), batch * 1e3);
  static_cast<void>(load(served.port(), kClosedClients, {}, seconds / 4));  // warm
  const Tally full = load(served.port(), kClosedClients, {}, seconds);
  const double capacity = static_cast<double>(full.latencies.size()) / full.seconds;
  const double bound = static_cast<double>(kBatchRows) / batch;
  bool met = true;
  met &= bench::row("requests/s, 32 clients", format("{:.0f}", capacity),
                    format("{:.0f} (full batches alone)", bound), capacity / bound, "");
  Tally calm = load(served.port(), kOpenClients, arrivals(0.7 * capacity, seconds), 0);
  const double limit = in_seconds(kMaxWait) + 4 * batch;
  met &= bench::row("p99 at 0.7 of that, ms", format("{:.1f}", calm.p99() * 1e3),
                    format("{:.1f} (max-wait and four batches)", limit * 1e3), calm.p99() / limit,
                    "<= 1");
  static_cast<void>(load(served.port(), kOpenClients, arrivals(4 * capacity, seconds), 0));
  const double before = resident_mb();
  const std::vector<double> flood = arrivals(4 * capacity, 2 * seconds);
  const Tally over = load(served.port(), kOpenClients, flood, 0);
  const auto said = static_cast<double>(over.latencies.size()) + static_cast<double>(over.refused);
  met &= bench::row("four times as many: answered or refused (503)", format("{:.0f}", said),
                    format("{} asked, {} refused", flood.size(), over.refused),
                    said / static_cast<double>(flood.size()), ">= 1");
  met &= bench::row("resident MB after them", format("{:.1f}", resident_mb()),
                    format("{:.1f} before", before), resident_mb() / before, "<= 1.05");
  return met || !bench::has_flag(argc, argv, "--check") ? 0 : 1;
}
