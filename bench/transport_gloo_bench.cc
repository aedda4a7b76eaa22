// Throughput and CPU seconds per GB of TCP and of shared memory over send and receive of libtorch's
// Gloo process group. The bar is about fresh tensors, which is what our receiver gives; a program
// that needs no message after the next one can reuse one tensor with Gloo, which is shown as well.
#include "reference/gloo_pair.h"

#include <cstdio>
#include <string>
#include <string_view>

#include "transport_rounds.h"

namespace {

using namespace bench;

constexpr std::size_t kBytes = std::size_t{64} << 20;

struct Scene {
  std::string name;
  int count;  // messages in a round
  int rounds;
  bool fresh;
  std::string bar;
};

bool rows(Ends& ends, const Scene& scene) {
  reference::GlooPair gloo(kBytes);
  const Message message = message_of(kBytes);
  const Rounds result = alternate(
      scene.rounds, [&] { stream_ours(ends, message, scene.count); },
      [&] { gloo.stream(scene.count, scene.fresh); });
  const double gigabytes = 1e-9 * static_cast<double>(kBytes) * scene.count;
  const auto speed = [&](const std::vector<double>& wall) {
    return format("{:.2f} GB/s", gigabytes / median(wall));
  };
  const auto cost = [&](const std::vector<double>& cpu) {
    return format("{:.2f} s/GB", median(cpu) / gigabytes);
  };
  const bool good = print_row(scene.name + ", throughput", speed(result.our_wall),
                              speed(result.their_wall), 1 / median(result.wall_ratio), scene.bar);
  (void)print_row(scene.name + ", CPU", cost(result.our_cpu), cost(result.their_cpu),
                  median(result.cpu_ratio), "");
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  const bool short_run = bench::has_flag(argc, argv, "--short");
  const bool check = bench::has_flag(argc, argv, "--check");
  const int count = short_run ? 2 : 12;
  const int rounds = short_run ? 1 : 9;
  std::printf("name | ours | reference | ratio | bar\n");
  Ends tcp = network_ends(RemoteTransport::TCP);
  bool good = rows(tcp, {"TCP over Gloo, 64 MB", count, rounds, true, ">= 1.5"});
  good &= rows(tcp, {"TCP over Gloo into one tensor, 64 MB", count, rounds, false, ""});
  Ends shm = shm_ends();
  good &= rows(shm, {"shared memory over Gloo, 64 MB", count, rounds, true, ">= 5"});
  good &= rows(shm, {"shared memory over Gloo into one tensor, 64 MB", count, rounds, false, ""});
  return check && !good ? 1 : 0;
}
