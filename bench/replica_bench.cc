// Speed-up of two replicas in two processes, one thread each, over one process with one thread: MLP
// 784-1024x7-10 (29 MB of gradients a step), batch 256, SGD with momentum.
//
// What two replicas can reach at best is what two processes reach that train half the batch each
// and never meet: the update of the weights is not shared out, and the two cores share caches and
// memory. To that comes the sum: where two processes have two cores, whoever carries and adds 29 MB
// each way computes nothing meanwhile. Both are measured by themselves in the same rounds, and so
// are CPU seconds, which a busy machine spoils less: the last row is the gain of half a batch and
// the sum, one after the other, in CPU seconds.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/data/batch_producer.h>
#include <harmonics/data/memory_producer.h>
#include <harmonics/schedule/cycle_runtime.h>
#include <harmonics/schedule/distributed_scheduler.h>

#include "pieces/made_rows.h"
#include "pieces/mlp_graph.h"
#include "rounds.h"

#include <port_testing.h>

namespace {

using namespace harmonics;

constexpr std::int64_t kBatch = 256;

RuntimeOptions one_thread() {
  RuntimeOptions options;
  options.threads = 1;
  options.optimizer = {OptimizerKind::kSgd, 0.01, 0.9};
  return options;
}

void bind_rows(Learner& learner, const HarmonicGraph& graph, std::int64_t rows) {
  for (const ProducerNode& node : graph.producers()) {
    learner.bindProducer(
        node.name, std::make_shared<BatchProducer>(
                       std::make_shared<MemoryProducer>(bench::made_rows(node, rows, 10)), rows));
  }
}

NamedTensors gradients_of(const HarmonicGraph& graph) {
  NamedTensors gradients;
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    for (const ParameterSpec& spec : graph.layer_shape(i).parameters) {
      gradients.emplace(graph.layers()[i].name + "." + spec.name, Tensor::zeros(spec.shape));
    }
  }
  return gradients;
}

/// What each of the two processes has: the whole batch by itself, half of it by itself, half of it
/// with the other, and the sum of as many numbers as there are gradients.
class Side {
 public:
  Side(std::size_t rank, const std::vector<RemoteBinding>& places)
      : whole_(bench::mlp_graph(), one_thread()),
        half_(bench::mlp_graph(), one_thread()),
        replica_({bench::mlp_graph()}, DeploymentDescriptor{}, one_thread()),
        gradients_(gradients_of(bench::mlp_graph())),
        reducer_(make_remote_ends(Reduction::Chain, rank, places, "sum alone"), {}) {
    bind_rows(whole_, bench::mlp_graph(), kBatch);
    bind_rows(half_, bench::mlp_graph(), kBatch / 2);
    bind_rows(replica_, bench::mlp_graph(), kBatch);
    for (const auto& [name, gradient] : gradients_) layout_.emplace_back(name, gradient.spec());
    replica_.join_replicas(make_remote_ends(Reduction::Chain, rank, places, "bench"));
  }

  void step(char what) {
    if (what == 'w') whole_.step();
    if (what == 'h') half_.step();
    if (what == 'r') replica_.step();
    if (what == 's') sum();
  }

 private:
  void sum() {
    reducer_.begin(layout_, sums_++, spare_);
    for (const auto& [name, gradient] : gradients_) reducer_.give(name, gradient);
    spare_ = reducer_.finish();
  }

  CycleRuntime whole_;
  CycleRuntime half_;
  DistributedScheduler replica_;
  NamedTensors gradients_, spare_;
  ReductionLayout layout_;
  Reducer reducer_;
  std::uint64_t sums_ = 0;
};

/// A letter says what to do, and how often.
struct Order {
  char what = 0;
  int steps = 0;
};

/// The second process: does what it is told until the first one goes away.
int serve(int socket, const std::vector<RemoteBinding>& places) {
  Side side(1, places);
  Order order;
  while (::read(socket, &order, sizeof order) == sizeof order) {
    const bench::Cost cost = bench::measured([&] {
      for (int i = 0; i < order.steps; ++i) side.step(order.what);
    });
    if (::write(socket, &cost.cpu, sizeof cost.cpu) != sizeof cost.cpu) break;
  }
  return 0;
}

class Contest {
 public:
  Contest(int socket, const std::vector<RemoteBinding>& places, int steps)
      : socket_(socket), steps_(steps), side_(0, places) {
    for (const char what : {'w', 'h', 'r', 's'}) static_cast<void>(both(what));  // warms up
  }

  /// Seconds of a step in this process alone.
  bench::Cost alone() {
    return per_step(bench::measured([&] { steps('w'); }));
  }
  /// Seconds until both processes have done it, and the CPU seconds of the busier one.
  bench::Cost both(char what) {
    double other = 0;
    bench::Cost cost = bench::measured([&] {
      const Order order{what, steps_};
      if (::write(socket_, &order, sizeof order) != sizeof order) gone();
      steps(what);
      if (::read(socket_, &other, sizeof other) != sizeof other) gone();
    });
    cost.cpu = std::max(cost.cpu, other);
    return per_step(cost);
  }

 private:
  [[noreturn]] static void gone() { fail(ErrorCode::kUnavailable, "the second process is gone"); }
  void steps(char what) {
    for (int i = 0; i < steps_; ++i) side_.step(what);
  }
  [[nodiscard]] bench::Cost per_step(bench::Cost cost) const {
    return {cost.wall / steps_, cost.cpu / steps_};
  }

  const int socket_;
  const int steps_;
  Side side_;
};

bool print_rows(const std::string& name, Contest& contest, int rounds, const std::string& bar) {
  std::vector<double> alone, together, gains, bounds;
  std::vector<double> alone_cpu, together_cpu, apart_cpu, sum_cpu, cpu_gains, cpu_bounds;
  for (int i = 0; i < rounds; ++i) {
    const bench::Cost one = contest.alone();
    const bench::Cost two = contest.both('r');
    const bench::Cost apart = contest.both('h');
    const bench::Cost sum = contest.both('s');
    alone.push_back(one.wall);
    together.push_back(two.wall);
    gains.push_back(one.wall / two.wall);
    alone_cpu.push_back(one.cpu);
    together_cpu.push_back(two.cpu);
    apart_cpu.push_back(apart.cpu);
    cpu_gains.push_back(one.cpu / two.cpu);
    bounds.push_back(one.wall / apart.wall);
    sum_cpu.push_back(sum.cpu);
    cpu_bounds.push_back(one.cpu / (apart.cpu + sum.cpu));
  }
  const auto milliseconds = [](const std::vector<double>& values) {
    return format("{:.1f} ms", 1e3 * bench::median(values));
  };
  const bool good = bench::row("two replicas over " + name, milliseconds(together),
                               milliseconds(alone), bench::median(gains), bar);
  bench::row("the same in CPU seconds of the busier one", milliseconds(together_cpu),
             milliseconds(alone_cpu), bench::median(cpu_gains), "");
  bench::row("two that never meet, half a batch each", milliseconds(apart_cpu) + " of CPU",
             milliseconds(alone), bench::median(bounds), "");
  bench::row("these and the sum by itself, " + milliseconds(sum_cpu) + " of CPU",
             milliseconds(apart_cpu), milliseconds(alone_cpu), bench::median(cpu_bounds), "");
  return good;
}

/// In a process of its own, so that each contest begins with nothing but itself.
bool apart(const std::function<bool()>& contest) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool good = contest();
    std::fflush(stdout);
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool compare(const std::string& name, const std::vector<RemoteBinding>& places, bool short_run,
             const std::string& bar) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    fail(ErrorCode::kUnavailable, "there is no socket pair for the second process");
  }
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(sockets[0]);
    ::_exit(serve(sockets[1], places));
  }
  ::close(sockets[1]);
  bool good = false;
  {
    Contest contest(sockets[0], places, short_run ? 1 : 8);
    good = print_rows(name, contest, short_run ? 1 : 9, bar);
    ::close(sockets[0]);
  }
  ::waitpid(child, nullptr, 0);
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  const bool short_run = bench::has_flag(argc, argv, "--short");
  const bool check = bench::has_flag(argc, argv, "--check");
  std::printf("name | ours | reference | ratio | bar\n");
  const auto places = [](RemoteTransport transport) {
    RemoteBinding place;
    place.name = format("replicas.{}", ::getpid());
    place.host = "127.0.0.1";
    place.port = reserved_port();
    place.transport = transport;
    return std::vector<RemoteBinding>(2, place);
  };
  bool good = apart([&] {
    return compare("shared memory", places(RemoteTransport::SharedMemory), short_run, ">= 1.6");
  });
  good &= apart([&] { return compare("TCP", places(RemoteTransport::TCP), short_run, ">= 1.5"); });
  return check && !good ? 1 : 0;
}
