// Transports against a hand-written socket loop, and the bus on its own: throughput, round trips
// and CPU seconds per GB. Both ends run in this process; rounds of ours and of the reference
// alternate.
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <harmonics/transport/bus.h>

#if HARMONICS_HAS_GRPC
#include "reference/grpc_stream.h"
#endif
#include "reference/raw_tcp.h"
#include "transport_rounds.h"

namespace {

using namespace harmonics;
using namespace bench;

constexpr std::size_t kKilo = 1 << 10;
constexpr std::size_t kMega = 1 << 20;

struct RawLoop {
  explicit RawLoop(std::size_t bytes)
      : ends(reference::RawTcp::connect()), from(bytes), to(bytes + 64) {}

  void stream(int count) {
    std::thread sender([&] {
      for (int i = 0; i < count; ++i) ends.first.send(from);
    });
    for (int i = 0; i < count; ++i) ends.second.receive(to);
    sender.join();
  }
  void ping_pong(int count) {
    std::thread other([&] {
      std::vector<std::byte> mine(to.size());
      for (int i = 0; i < count; ++i) {
        ends.second.receive(mine);
        ends.second.send(from);
      }
    });
    for (int i = 0; i < count; ++i) {
      ends.first.send(from);
      ends.first.receive(to);
    }
    other.join();
  }

  std::pair<reference::RawTcp, reference::RawTcp> ends;
  Bytes from;
  std::vector<std::byte> to;
};

void ping_pong_ours(Ends& ends, std::size_t bytes, int count) {
  const Message message = message_of(bytes);
  std::thread other([&] {
    for (int i = 0; i < count; ++i) {
      (void)ends.second->receive(patient());
      ends.second->send(message, patient());
    }
  });
  for (int i = 0; i < count; ++i) {
    ends.first->send(message, patient());
    (void)ends.first->receive(patient());
  }
  other.join();
}

// One comparison: how much of what, and the bars.
struct Scene {
  std::string name;
  std::size_t bytes;
  int count;  // messages or round trips in a round
  int rounds;
  std::string speed_bar;
  std::string cpu_bar;
};

template <typename Reference = RawLoop>
bool stream_rows(Ends& ends, const Scene& scene) {
  Reference raw(scene.bytes);
  const Message message = message_of(scene.bytes);
  const Rounds result = alternate(
      scene.rounds, [&] { stream_ours(ends, message, scene.count); },
      [&] { raw.stream(scene.count); });
  const double gigabytes = 1e-9 * static_cast<double>(scene.bytes) * scene.count;
  const auto speed = [&](const std::vector<double>& wall) {
    return format("{:.2f} GB/s", gigabytes / median(wall));
  };
  const auto cost = [&](const std::vector<double>& cpu) {
    return format("{:.2f} s/GB", median(cpu) / gigabytes);
  };
  bool good = print_row(scene.name + ", throughput", speed(result.our_wall),
                        speed(result.their_wall), 1 / median(result.wall_ratio), scene.speed_bar);
  good &= print_row(scene.name + ", CPU", cost(result.our_cpu), cost(result.their_cpu),
                    median(result.cpu_ratio), scene.cpu_bar);
  return good;
}

bool round_trip_rows(Ends& ends, const Scene& scene) {
  RawLoop raw(scene.bytes);
  const Rounds result = alternate(
      scene.rounds, [&] { ping_pong_ours(ends, scene.bytes, scene.count); },
      [&] { raw.ping_pong(scene.count); });
  const auto each = [&](const std::vector<double>& total) {
    return format("{:.1f} us", 1e6 * median(total) / scene.count);
  };
  bool good = print_row(scene.name + ", round trip", each(result.our_wall), each(result.their_wall),
                        median(result.wall_ratio), scene.speed_bar);
  good &= print_row(scene.name + ", CPU of a round trip", each(result.our_cpu),
                    each(result.their_cpu), median(result.cpu_ratio), scene.cpu_bar);
  return good;
}

// --- the bus ---

double seconds_over_bus(const Ends& ends, const Message& message, int count) {
  return measured([&] {
           for (int i = 0; i < count; ++i) {
             ends.first->send(message, patient());
             (void)ends.second->receive(patient());
           }
         })
      .wall;
}

bool bus_rows(int count) {
  bool good = true;
  for (const std::size_t bytes : {kKilo, 64 * kMega}) {
    const Ends pair = make_bus("bench");
    const Message message = message_of(bytes);
    std::vector<double> each;
    for (int round = 0; round < 9; ++round) {
      each.push_back(1e6 * seconds_over_bus(pair, message, count) / count);
    }
    good &= print_row(format("bus, push + pop on one thread, {} KB", bytes / kKilo),
                      format("{:.2f} us", median(each)), "2 us", median(each) / 2, "<= 1");
  }
  Ends ends = make_bus("bench");
  std::vector<double> trips;
  for (int i = 0; i < 9; ++i) {
    trips.push_back(measured([&] { ping_pong_ours(ends, kKilo, count); }).wall / count / 2);
  }
  std::printf("bus between two threads: %.2f us one way (median of 9 rounds)\n",
              1e6 * median(trips));
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  const bool short_run = bench::has_flag(argc, argv, "--short");
  const bool check = bench::has_flag(argc, argv, "--check");
  const int rounds = short_run ? 1 : 9;
  const int scale = short_run ? 1 : 10;
  std::printf("name | ours | reference | ratio | bar\n");
  bool good = true;
  const int large = short_run ? 2 : 12;
  {
    Ends ends = network_ends(RemoteTransport::TCP);
    good &= round_trip_rows(ends, {"TCP, 1 KB", kKilo, 400 * scale, rounds, "<= 3", "<= 1.5"});
    good &= stream_rows(ends, {"TCP, 1 KB", kKilo, 5000 * scale, rounds, "", "<= 1.5"});
    good &= stream_rows(ends, {"TCP, 1 MB", kMega, 20 * scale, rounds, ">= 0.85", ""});
    good &= stream_rows(ends, {"TCP, 64 MB", 64 * kMega, large, rounds, ">= 0.85", ""});
  }
#if HARMONICS_HAS_GRPC
  {
    using reference::GrpcStream;
    Ends ends = network_ends(RemoteTransport::GRPC);
    good &= round_trip_rows(ends, {"gRPC against TCP, 1 KB", kKilo, 200 * scale, rounds, "", ""});
    good &= stream_rows<GrpcStream>(ends, {"gRPC, 1 KB", kKilo, 2000 * scale, rounds, "", ""});
    good &= stream_rows<GrpcStream>(ends, {"gRPC, 1 MB", kMega, 20 * scale, rounds, ">= 0.8", ""});
    good &= stream_rows<GrpcStream>(ends, {"gRPC, 64 MB", 64 * kMega, large, rounds, ">= 0.8", ""});
  }
#endif
  {
    Ends ends = shm_ends();
    good &= round_trip_rows(ends, {"shared memory, 1 KB", kKilo, 400 * scale, rounds, "", ""});
    good &= stream_rows(ends, {"shared memory, 1 MB", kMega, 20 * scale, rounds, "", ""});
    good &= stream_rows(ends, {"shared memory, 64 MB", 64 * kMega, large, rounds, "", ""});
  }
  good &= bus_rows(2000 * scale);
  return check && !good ? 1 : 0;
}
