// What watching costs: a server with 1,000 workers that only pretend and 100,000 tasks, first
// without and then with ten watchers of the page. CPU seconds are those of this whole process, the
// pretending workers and the watchers included, so what is told of the server is an upper bound.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <thread>

#include <harmonics/base/descriptor.h>
#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/rpc/client.h>
#include <harmonics/rpc/worker_line.h>
#include <harmonics/server/server.h>
#include <harmonics/server/state_folder.h>

#include <temporary_folder_testing.h>

#include "rounds.h"

namespace {

using namespace harmonics;
using Clock = std::chrono::steady_clock;

constexpr int kWatchers = 10;
constexpr int kClients = 4;
constexpr double kMostMilliseconds = 100;  // of CPU a second, for each watcher
constexpr double kLeastSubmits = 0.95;

struct Scale {
  std::uint32_t workers;
  std::uint32_t tasks;
  std::chrono::milliseconds round;
  int rounds;
};
constexpr Scale kWhole = {1000, 100'000, std::chrono::seconds(5), 3};
constexpr Scale kShort = {50, 2'000, std::chrono::milliseconds(300), 1};

double cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// Says hello, beats, and says of every task that it runs.
class Pretender {
 public:
  Pretender(const ClientOptions& options, int number)
      : line_(options, "token", [this](LineEvent event) { hear(event); }) {
    HelloMessage hello;
    hello.spec.name = format("worker-{}", number);
    hello.spec.identity = format("identity-{}", number);
    hello.spec.address = "localhost:1";
    hello.spec.cpus = 16;
    hello.spec.memory_mb = 65536;
    for (int i = 0; i < 4; ++i) hello.spec.devices.push_back({std::to_string(i), "A100", 40960});
    line_.send(hello);
  }
  void beat() { line_.send(HeartbeatMessage{++beats_}); }

 private:
  void hear(const LineEvent& event) {
    const auto* says = std::get_if<LineSays>(&event);
    if (says == nullptr) return;
    for (const ServerMessage& message : says->messages) {
      if (const auto* start = std::get_if<StartMessage>(&message)) {
        line_.send(LaunchedMessage{start->id});
      }
    }
  }
  std::uint64_t beats_ = 0;
  WorkerLine line_;
};

Descriptor dialled(int port) {
  Descriptor made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(made.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    fail(ErrorCode::kUnavailable, "cannot reach the page");
  }
  return made;
}

void say(const Descriptor& socket, const std::string& text) {
  static_cast<void>(!::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL));
}

std::string login(int port, const std::string& token) {
  const Descriptor socket = dialled(port);
  const std::string body = Json().set("token", token).dump();
  say(socket, format("POST /api/login HTTP/1.1\r\nContent-Type: application/json\r\nConnection: "
                     "close\r\nContent-Length: {}\r\n\r\n{}",
                     body.size(), body));
  std::string heard;
  char bytes[4096];
  for (ssize_t got = 0; (got = ::recv(socket.get(), bytes, sizeof bytes, 0)) > 0;) {
    heard.append(bytes, static_cast<std::size_t>(got));
  }
  const std::size_t begin = heard.find("harmonics_session_");
  return heard.substr(begin, heard.find(';', begin) - begin);
}

/// Takes whatever is told, until it is closed.
class EventReader {
 public:
  EventReader(int port, const std::string& cookie) : socket_(dialled(port)) {
    say(socket_, "GET /api/events HTTP/1.1\r\nCookie: " + cookie + "\r\n\r\n");
    thread_ = std::thread([this] {
      char bytes[1 << 16];
      for (ssize_t got = 0; (got = ::recv(socket_.get(), bytes, sizeof bytes, 0)) > 0;) {
        bytes_ += static_cast<std::uint64_t>(got);
      }
    });
  }
  ~EventReader() {
    ::shutdown(socket_.get(), SHUT_RDWR);
    thread_.join();
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  Descriptor socket_;
  std::atomic<std::uint64_t> bytes_{0};
  std::thread thread_;
};

/// Submissions a second by a few clients; 0 clients: only waits.
double submit_for(const ClientOptions& options, std::chrono::milliseconds round, int clients) {
  std::atomic<std::uint64_t> count{0};
  std::vector<std::thread> threads;
  const auto end = Clock::now() + round;
  for (int i = 0; i < clients; ++i) {
    threads.emplace_back([&] {
      ClusterClient client(options);
      TaskSpec spec;
      spec.name = "one more";
      spec.command = {"true"};
      while (Clock::now() < end) {
        client.submit(spec);
        ++count;
      }
    });
  }
  for (std::thread& one : threads) one.join();
  std::this_thread::sleep_until(end);
  return static_cast<double>(count) / std::chrono::duration<double>(round).count();
}

/// Workers and tasks are there, as many of them active as there are devices.
void fill(const ClientOptions& options, const Scale& scale, std::list<Pretender>& workers) {
  ClusterClient client(options);
  for (std::uint32_t i = 1; i <= scale.workers; ++i) {
    workers.emplace_back(options, static_cast<int>(i));
  }
  while (client.status().workers_connected < scale.workers) std::this_thread::yield();
  TaskSpec many;
  many.name = "many";
  many.command = {"true"};
  many.array = scale.tasks;
  client.submit(many);
  while (client.status().active < 4 * scale.workers) std::this_thread::yield();
}

}  // namespace

int main(int argc, char** argv) {
  const bool short_run = bench::has_flag(argc, argv, "--short");
  const Scale& scale = short_run ? kShort : kWhole;
  const TemporaryFolder folder;
  ServerSettings settings;
  settings.state_dir = folder.path();
  settings.port = 0;
  settings.http_port = 0;
  settings.rate = 1'000'000;
  ClusterServer server(settings);
  ClientOptions options;
  options.server = format("localhost:{}", server.port());
  options.token = read_token_file(folder.path() / "token");
  std::list<Pretender> workers;
  fill(options, scale, workers);
  std::atomic<bool> over{false};
  std::thread heart([&] {
    while (!over) {
      for (Pretender& one : workers) {
        one.beat();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
  });
  const std::string cookie = login(server.http_port(), options.token);
  std::printf("name | ours | reference | ratio | bar\n");
  double quiet = 0;
  double watched = 0;
  double rate[2] = {0, 0};
  for (int round = 0; round < 2 * scale.rounds; ++round) {
    const int watchers = round % 2 == 0 ? 0 : kWatchers;
    std::list<EventReader> readers;
    for (int i = 0; i < watchers; ++i) readers.emplace_back(server.http_port(), cookie);
    static_cast<void>(submit_for(options, scale.round, 0));  // the snapshots are out
    const double before = cpu_seconds();
    static_cast<void>(submit_for(options, scale.round, 0));
    const double cpu =
        (cpu_seconds() - before) / std::chrono::duration<double>(scale.round).count();
    (watchers == 0 ? quiet : watched) += cpu / scale.rounds;
    rate[watchers == 0 ? 0 : 1] += submit_for(options, scale.round, kClients) / scale.rounds;
  }
  const double each = (watched - quiet) * 1e3 / kWatchers;
  const std::string size =
      format("{} workers, {} tasks, {} watchers", scale.workers, scale.tasks, kWatchers);
  const bool cheap =
      bench::row(size + ": CPU a second for each", format("{:.1f} ms", each),
                 format("{} ms", kMostMilliseconds), each / kMostMilliseconds, "<= 1");
  const bool fast = bench::row(size + ": submits a second", format("{:.0f}", rate[1]),
                               format("{:.0f} with none", rate[0]), rate[1] / rate[0],
                               format(">= {}", kLeastSubmits));
  over = true;
  heart.join();
  return bench::has_flag(argc, argv, "--check") && !(cheap && fast) ? 1 : 0;
}
