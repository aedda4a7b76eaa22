// Inference as a stream through two processes, one thread each: ViT-Base, 64 batches.
//
// Against what its stages need by themselves: both processes compute their stage over the same
// batches at the same time, without each other, so that what two processes cost each other on this
// machine is in the bound; a pipeline of N batches can do no better than N max(t0, t1) +
// min(t0, t1). And against a loop as one would write it by hand for speed: the same stages, a
// blocking socket between them, no frames to speak of, no credits, nothing that survives.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
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

#include "made_rows.h"
#include "meeting.h"
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
  return {zoo_graph("vit-base"), 64, 3};
}

RuntimeOptions one_thread() {
  RuntimeOptions options;
  options.threads = 1;
  return options;
}

/// What each of the two processes has: its part of the network, in a scheduler and bare.
class Side {
 public:
  Side(std::size_t part, const Load& load, const RemoteBinding& place, reference::RawTcp raw)
      : part_(part),
        load_(load),
        graph_(partition_graph(load.graph, 2).at(part)),
        stage_(graph_, one_thread()),
        scheduler_(bench::meeting_part(graph_, place, one_thread())),
        raw_(std::move(raw)) {
    use_compute_threads(1);
    for (const ProducerNode& node : graph_.producers()) {
      if (is_boundary_name(node.name)) {
        boundary_ = node;
      } else if (is_used(node.name)) {
        data_.emplace(node.name, bench::made_rows(node, load.batches, 2));
      }
    }
    for (const ConsumerNode& node : graph_.consumers()) {
      if (is_boundary_name(node.name)) leaving_ = node.name;
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
      if (part_ == 1) inputs.emplace(boundary_.name, received());
      const NamedTensors outputs = stage_->infer(inputs);
      if (part_ == 0) raw_.send(outputs.at(leaving_).bytes());
    }
  }

  /// The stage alone, on tensors of the right shape.
  void alone() {
    for (std::int64_t i = 0; i < load_.batches; ++i) {
      NamedTensors inputs = own_rows(i);
      if (part_ == 1) inputs.emplace(boundary_.name, bench::made_rows(boundary_, 1, 2));
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

  [[nodiscard]] Tensor received() {
    Shape shape = *boundary_.shape;
    shape.insert(shape.begin(), 1);
    Tensor tensor = Tensor::empty(shape, boundary_.dtype);
    buffer_.resize(tensor.byte_size() + sizeof(std::uint32_t));
    const std::size_t size = raw_.receive(buffer_);
    std::memcpy(tensor.mutable_bytes().data(), buffer_.data(), size);
    return tensor;
  }

  const std::size_t part_;
  const Load& load_;
  const HarmonicGraph graph_;
  Stage stage_;
  RemoteScheduler scheduler_;
  reference::RawTcp raw_;
  NamedTensors data_;
  ProducerNode boundary_;
  std::string leaving_;
  std::vector<std::byte> buffer_;
};

void obey(Side& side, char order) {
  if (order == 's') side.stream();
  if (order == 'h') side.by_hand();
  if (order == 'a') side.alone();
}

/// The second process: does what it is told, a letter each, and says how long it took.
int serve(int socket, Side side) {
  char order = 0;
  while (::read(socket, &order, 1) == 1) {
    const double seconds = bench::measured([&] { obey(side, order); }).wall;
    if (::write(socket, &seconds, sizeof seconds) != sizeof seconds) break;
  }
  return 0;
}

/// Seconds of this process, of the other one, and until both were done.
struct Both {
  double own = 0, other = 0, all = 0;
};

Both together(int socket, Side& side, char order) {
  Both both;
  both.all = bench::measured([&] {
               if (::write(socket, &order, 1) != 1) {
                 fail(ErrorCode::kUnavailable, "the second process is gone");
               }
               both.own = bench::measured([&] { obey(side, order); }).wall;
               if (::read(socket, &both.other, sizeof both.other) != sizeof both.other) {
                 fail(ErrorCode::kUnavailable, "the second process failed");
               }
             }).wall;
  return both;
}

bool compare(const char* name, const RemoteBinding& place, const Load& load) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    fail(ErrorCode::kUnavailable, "there is no socket pair for the second process");
  }
  auto [first, second] = reference::RawTcp::connect();
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(sockets[0]);
    ::_exit(serve(sockets[1], Side(1, load, place, std::move(second))));
  }
  ::close(sockets[1]);
  std::vector<double> of_bound, of_hand, rates, bounds, hands;
  {
    Side side(0, load, place, std::move(first));
    for (const char order : {'s', 'h', 'a'}) static_cast<void>(together(sockets[0], side, order));
    const auto count = static_cast<double>(load.batches);
    for (int i = 0; i < load.rounds; ++i) {
      const double ours = together(sockets[0], side, 's').all;
      const Both stages = together(sockets[0], side, 'a');
      const double hand = together(sockets[0], side, 'h').all;
      const double bound =
          std::max(stages.own, stages.other) + std::min(stages.own, stages.other) / count;
      std::printf("round %d: stream %.2f s, stages alone %.2f and %.2f s, by hand %.2f s\n", i + 1,
                  ours, stages.own, stages.other, hand);
      rates.push_back(count / ours);
      bounds.push_back(count / bound);
      hands.push_back(count / hand);
      of_bound.push_back(bound / ours);
      of_hand.push_back(hand / ours);
    }
    ::close(sockets[0]);
  }
  ::waitpid(child, nullptr, 0);
  const std::string ours = format("{:.2f} batches/s", bench::median(rates));
  const std::string title = format("{} in two processes over {}", load.graph.name(), name);
  const bool near = bench::row(title + ", of its stages' bound", ours,
                               format("{:.2f} batches/s", bench::median(bounds)),
                               bench::median(of_bound), ">= 0.93");
  const bool fast = bench::row(title + ", to a loop by hand", ours,
                               format("{:.2f} batches/s", bench::median(hands)),
                               bench::median(of_hand), ">= 1.0");
  return near && fast;
}

}  // namespace

int main(int argc, char** argv) {
  const bool short_run = bench::has_flag(argc, argv, "--short");
  const bool check = bench::has_flag(argc, argv, "--check");
  Load load = load_of(short_run);
  // A busy machine has no patience for all of them.
  if (argc > 2 && std::string_view(argv[1]) == "--batches") load.batches = std::atoll(argv[2]);
  const RemoteBinding shm{format("stream.{}", ::getpid()), "127.0.0.1", 1,
                          RemoteTransport::SharedMemory};
  std::printf("name | ours | reference | ratio | bar\n");
  const bool good = compare("shared memory", shm, load);
  return check && !good ? 1 : 0;
}
