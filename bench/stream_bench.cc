// Inference as a stream through two and three processes, one thread each: ViT-Base, 64 batches.
//
// Against what its stages need by themselves: all processes compute their stage over the same
// batches at the same time, without each other, so that what processes cost each other on this
// machine is in the bound; a pipeline of N batches can do no better than N times its slowest stage
// and once the others. And against a loop as one would write it by hand for speed: the same stages,
// a blocking socket between them, no frames to speak of, no credits, nothing that survives.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/random.h>
#include <harmonics/data/batch_producer.h>
#include <harmonics/data/memory_producer.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/schedule/remote_scheduler.h>

#include "pieces/made_rows.h"
#include "pieces/meeting.h"
#include "reference/raw_tcp.h"
#include "rounds.h"

namespace {

using namespace harmonics;

/// What is streamed.
struct Load {
  HarmonicGraph graph;
  std::int64_t batches = 0;
  int rounds = 0;
};

Load load_of(bool short_run) {
  if (short_run) return {zoo_graph("transformer-small"), 4, 1};
  return {zoo_graph("vit-base"), 64, 4};
}

RuntimeOptions one_thread() {
  RuntimeOptions options;
  options.threads = 1;
  return options;
}

/// The sockets of the loop by hand: to the part before and to the part behind.
struct RawEnds {
  std::optional<reference::RawTcp> before;
  std::optional<reference::RawTcp> behind;
};

/// What each process has: its part of the network, in a scheduler and bare.
class Side {
 public:
  Side(const HarmonicGraph& part, const Load& load, const RemoteBinding& place, RawEnds raw)
      : load_(load),
        graph_(part),
        stage_(graph_, one_thread()),
        scheduler_(bench::meeting_part(graph_, place, one_thread())),
        raw_(std::move(raw)) {
    use_compute_threads(1);
    for (const ProducerNode& node : graph_.producers()) {
      if (is_boundary_name(node.name)) {
        entering_.push_back(node);
        made_.emplace(node.name, bench::made_rows(node, 1, 2));
      } else if (is_used(node.name)) {
        data_.emplace(node.name, bench::made_rows(node, load.batches, 2));
      }
    }
    for (const ConsumerNode& node : graph_.consumers()) {
      if (is_boundary_name(node.name)) leaving_.push_back(node.name);
    }
  }

  void stream() {
    NamedProducers producers;
    for (const auto& [name, rows] : data_) {
      producers.emplace(name,
                        std::make_shared<BatchProducer>(std::make_shared<MemoryProducer>(rows), 1));
    }
    static_cast<void>(scheduler_.stream(producers, {}));
  }

  /// The loop by hand.
  void by_hand() {
    for (std::int64_t i = 0; i < load_.batches; ++i) {
      NamedTensors inputs = own_rows(i);
      for (const ProducerNode& node : entering_) inputs.emplace(node.name, received(node));
      const NamedTensors outputs = stage_->infer(inputs);
      for (const std::string& name : leaving_) raw_.behind->send(outputs.at(name).bytes());
    }
  }

  /// The stage alone, on tensors of the right shape.
  void alone() {
    for (std::int64_t i = 0; i < load_.batches; ++i) {
      NamedTensors inputs = own_rows(i);
      inputs.insert(made_.begin(), made_.end());
      static_cast<void>(stage_->infer(inputs));
    }
  }

 private:
  [[nodiscard]] bool is_used(const std::string& producer) const {
    for (const LayerNode& layer : graph_.layers()) {
      if (std::ranges::find(layer.inputs, producer) != layer.inputs.end()) return true;
    }
    return false;
  }

  [[nodiscard]] NamedTensors own_rows(std::int64_t batch) const {
    NamedTensors rows;
    for (const auto& [name, all] : data_) rows.emplace(name, all.slice(batch, batch + 1));
    return rows;
  }

  [[nodiscard]] Tensor received(const ProducerNode& node) {
    Shape shape = *node.shape;
    shape.insert(shape.begin(), 1);
    Tensor tensor = Tensor::empty(shape, node.dtype);
    buffer_.resize(tensor.byte_size() + sizeof(std::uint32_t));
    const std::size_t size = raw_.before->receive(buffer_);
    std::memcpy(tensor.mutable_bytes().data(), buffer_.data(), size);
    return tensor;
  }

  const Load& load_;
  const HarmonicGraph graph_;
  Stage stage_;
  RemoteScheduler scheduler_;
  RawEnds raw_;
  NamedTensors data_;
  NamedTensors made_;
  std::vector<ProducerNode> entering_;
  std::vector<std::string> leaving_;
  std::vector<std::byte> buffer_;
};

void obey(Side& side, char order) {
  if (order == 's') side.stream();
  if (order == 'h') side.by_hand();
  if (order == 'a') side.alone();
}

/// Another process: does what it is told, a letter each, and says what it cost.
int serve(int socket, Side side) {
  char order = 0;
  while (::read(socket, &order, 1) == 1) {
    const bench::Cost cost = bench::measured([&] { obey(side, order); });
    if (::write(socket, &cost, sizeof cost) != sizeof cost) break;
  }
  return 0;
}

/// What the processes cost, this one first, and the seconds until all were done.
struct Together {
  std::vector<bench::Cost> parts;
  double all = 0;

  [[nodiscard]] double cpu() const {
    double sum = 0;
    for (const bench::Cost& one : parts) sum += one.cpu;
    return sum;
  }
  /// The least that a pipeline of so many batches could take with these stages.
  [[nodiscard]] double bound(double batches) const {
    double slowest = 0, sum = 0;
    for (const bench::Cost& one : parts) {
      slowest = std::max(slowest, one.wall);
      sum += one.wall;
    }
    return slowest + (sum - slowest) / batches;
  }
};

Together together(const std::vector<int>& sockets, Side& side, char order) {
  Together result;
  result.all = bench::measured([&] {
                 for (const int socket : sockets) {
                   if (::write(socket, &order, 1) != 1) {
                     fail(ErrorCode::kUnavailable, "another process is gone");
                   }
                 }
                 result.parts.push_back(bench::measured([&] { obey(side, order); }));
                 for (const int socket : sockets) {
                   bench::Cost other;
                   if (::read(socket, &other, sizeof other) != sizeof other) {
                     fail(ErrorCode::kUnavailable, "another process failed");
                   }
                   result.parts.push_back(other);
                 }
               }).wall;
  return result;
}

/// The parts behind the first, each a process. They end when their sockets close.
struct Others {
  std::vector<int> sockets;
  std::vector<pid_t> children;

  void end() {
    for (const int socket : sockets) ::close(socket);
    for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  }
};

Others start_others(const std::vector<HarmonicGraph>& parts, const Load& load,
                    const RemoteBinding& place, std::vector<RawEnds>& raw) {
  Others others;
  std::fflush(stdout);
  for (std::size_t part = 1; part < parts.size(); ++part) {
    int sockets[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
      fail(ErrorCode::kUnavailable, "there is no socket pair for another process");
    }
    const pid_t child = ::fork();
    if (child == 0) {
      for (const int socket : others.sockets) ::close(socket);
      ::close(sockets[0]);
      ::_exit(serve(sockets[1], Side(parts[part], load, place, std::move(raw[part]))));
    }
    ::close(sockets[1]);
    others.sockets.push_back(sockets[0]);
    others.children.push_back(child);
  }
  return others;
}

/// What the rounds came to.
struct Ratios {
  std::vector<double> of_bound, of_hand, of_cpu, rates, bounds, hands;

  void add(const Together& ours, const Together& stages, const Together& hand, double batches) {
    rates.push_back(batches / ours.all);
    bounds.push_back(batches / stages.bound(batches));
    hands.push_back(batches / hand.all);
    of_bound.push_back(stages.bound(batches) / ours.all);
    of_hand.push_back(hand.all / ours.all);
    of_cpu.push_back(ours.cpu() / hand.cpu());
  }
};

Ratios measure(const std::vector<int>& sockets, Side& side, const Load& load) {
  Ratios ratios;
  for (const char order : {'s', 'h', 'a'}) static_cast<void>(together(sockets, side, order));
  for (int i = 0; i < load.rounds; ++i) {
    // Who comes first takes turns: a machine that gets slower or faster favours nobody.
    Together ours, hand;
    if (i % 2 == 0) ours = together(sockets, side, 's');
    hand = together(sockets, side, 'h');
    if (i % 2 == 1) ours = together(sockets, side, 's');
    const Together stages = together(sockets, side, 'a');
    ratios.add(ours, stages, hand, static_cast<double>(load.batches));
    std::printf("round %d: stream %.2f s (%.2f s of CPU), by hand %.2f s (%.2f s), stages alone",
                i + 1, ours.all, ours.cpu(), hand.all, hand.cpu());
    for (const bench::Cost& one : stages.parts) std::printf(" %.2f", one.wall);
    std::printf(" s\n");
  }
  return ratios;
}

bool compare(std::size_t count, const RemoteBinding& place, const Load& load) {
  const std::vector<HarmonicGraph> parts = partition_graph(load.graph, count);
  std::vector<RawEnds> raw(count);
  for (std::size_t part = 0; part + 1 < count; ++part) {
    auto [behind, before] = reference::RawTcp::connect();
    raw[part].behind.emplace(std::move(behind));
    raw[part + 1].before.emplace(std::move(before));
  }
  Others others = start_others(parts, load, place, raw);
  Ratios ratios;
  {
    Side side(parts[0], load, place, std::move(raw[0]));
    ratios = measure(others.sockets, side, load);
  }
  others.end();
  const std::string ours = format("{:.2f} batches/s", bench::median(ratios.rates));
  const std::string title =
      format("{} in {} processes over shared memory", load.graph.name(), count);
  const bool near = bench::row(title + ", of its stages' bound", ours,
                               format("{:.2f} batches/s", bench::median(ratios.bounds)),
                               bench::median(ratios.of_bound), ">= 0.93");
  const bool fast = bench::row(title + ", to a loop by hand", ours,
                               format("{:.2f} batches/s", bench::median(ratios.hands)),
                               bench::median(ratios.of_hand), ">= 1.0");
  bench::row(title + ", CPU to that of the loop", ours, "its CPU", bench::median(ratios.of_cpu),
             "");
  return near && fast;
}

}  // namespace

int main(int argc, char** argv) {
  const bool short_run = bench::has_flag(argc, argv, "--short");
  const bool check = bench::has_flag(argc, argv, "--check");
  Load load = load_of(short_run);
  // A busy machine has no patience for all of them.
  if (argc > 2 && std::string_view(argv[1]) == "--batches") load.batches = std::atoll(argv[2]);
  std::printf("name | ours | reference | ratio | bar\n");
  bool good = true;
  for (const std::size_t count : {2, 3}) {
    const RemoteBinding place{format("stream.{}.{}", ::getpid(), count), "127.0.0.1", 1,
                              RemoteTransport::SharedMemory};
    good = compare(count, place, load) && good;
  }
  return check && !good ? 1 : 0;
}
