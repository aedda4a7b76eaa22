// The sum of 16 MB over two ranks, over TCP and shared memory, against all-reduce of libtorch's
// Gloo process group. Ours gives fresh tensors and leaves its inputs alone, Gloo sums in place.
// Both ranks are threads of this process.
#include "reference/gloo_pair.h"

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/schedule/reduction.h>

#include "transport_rounds.h"

namespace {

using namespace bench;
using harmonics::NamedTensors;
using harmonics::Reducer;
using harmonics::Reduction;
using harmonics::ReductionEnds;
using harmonics::ReductionOptions;

constexpr std::size_t kBytes = std::size_t{16} << 20;

/// Two ranks that were connected by these ends.
class Ranks {
 public:
  Ranks(Reduction order, Ends ends) {
    ReductionOptions options;
    options.order = order;
    ReductionEnds first{0, 2, {}}, second{1, 2, {}};
    first.peers.emplace(1, std::move(ends.first));
    second.peers.emplace(0, std::move(ends.second));
    reducers_.emplace_back(std::move(first), options);
    reducers_.emplace_back(std::move(second), options);
  }

  void sum(int count) {
    const NamedTensors values{{"values", message_of(kBytes).tensor}};
    const auto reduce = [&](Reducer& reducer) {
      for (int i = 0; i < count; ++i) {
        (void)reducer.sum(values, step_ + static_cast<std::uint64_t>(i));
      }
    };
    std::thread other([&] { reduce(reducers_[1]); });
    reduce(reducers_[0]);
    other.join();
    step_ += static_cast<std::uint64_t>(count);
  }

 private:
  std::vector<Reducer> reducers_;
  std::uint64_t step_ = 0;
};

bool rows(Ranks ranks, const std::string& name, bool short_run, const std::string& bar) {
  const int count = short_run ? 2 : 16;
  reference::GlooPair gloo(kBytes);
  const Rounds result = alternate(
      short_run ? 1 : 9, [&] { ranks.sum(count); }, [&] { gloo.sum(count); });
  const double gigabytes = 1e-9 * static_cast<double>(kBytes) * count;
  const auto speed = [&](const std::vector<double>& wall) {
    return format("{:.2f} GB/s", gigabytes / median(wall));
  };
  const auto cost = [&](const std::vector<double>& cpu) {
    return format("{:.2f} s/GB", median(cpu) / gigabytes);
  };
  (void)print_row(name + ", throughput", speed(result.our_wall), speed(result.their_wall),
                  1 / median(result.wall_ratio), "");
  return print_row(name + ", CPU", cost(result.our_cpu), cost(result.their_cpu),
                   median(result.cpu_ratio), bar);
}

}  // namespace

int main(int argc, char** argv) {
  const bool short_run = bench::has_flag(argc, argv, "--short");
  const bool check = bench::has_flag(argc, argv, "--check");
  std::printf("name | ours | reference | ratio | bar\n");
  bool good = true;
  for (const Reduction order : {Reduction::Ring, Reduction::Chain}) {
    const std::string name(reduction_name(order));
    good &= rows(Ranks(order, network_ends(RemoteTransport::TCP)), name + " over TCP, 16 MB",
                 short_run, "<= 1.6");
    good &=
        rows(Ranks(order, shm_ends()), name + " over shared memory, 16 MB", short_run, "<= 0.7");
  }
  return check && !good ? 1 : 0;
}
