// Speed-up of a pipeline of two processes, one thread each, over one process with one thread and
// the same micro-batches: MLP 784-1024x7-10, batch 2,048 in 8 micro-batches.
//
// The bound is what a pipeline of these two stages can reach, 8(t0 + t1) / (8 max(t0, t1) +
// min(t0, t1)), on a machine where two processes that have nothing to do with each other reach
// `speed-up / 2` of twice the work. Every term is measured in the same rounds.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <string_view>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/random.h>
#include <harmonics/data/batch_producer.h>
#include <harmonics/data/memory_producer.h>
#include <harmonics/graph/partition.h>
#include <harmonics/schedule/cycle_runtime.h>
#include <harmonics/schedule/remote_scheduler.h>

#include "pieces/meeting.h"
#include "pieces/mlp_graph.h"
#include "rounds.h"

namespace {

using namespace harmonics;

constexpr int kMicroBatches = 8;

RuntimeOptions one_thread() {
  RuntimeOptions options;
  options.threads = 1;
  options.micro_batches = kMicroBatches;
  options.optimizer = {OptimizerKind::kSgd, 0.01, 0.9};
  return options;
}

/// One batch of noise and classes.
NamedTensors noise(std::int64_t batch) {
  Tensor image = Tensor::empty({batch, 784}), label = Tensor::empty({batch}, DType::kInt64);
  Random random(1, "pipeline");
  for (float& value : image.mutable_values<float>()) value = random.normal();
  for (auto& value : label.mutable_values<std::int64_t>()) value = random.below(10);
  return {{"image", image}, {"label", label}};
}

void bind_data(const HarmonicGraph& graph, const NamedTensors& data, auto& scheduler) {
  for (const ProducerNode& node : graph.producers()) {
    if (is_boundary_name(node.name)) continue;
    const Tensor& rows = data.at(node.name);
    scheduler.bindProducer(node.name, std::make_shared<BatchProducer>(
                                          std::make_shared<MemoryProducer>(rows), rows.shape()[0]));
  }
}

/// What each of the two processes has: the whole network, and one part of it.
class Side {
 public:
  Side(std::size_t part, std::int64_t batch, const RemoteBinding& place)
      : data_(noise(batch)),
        whole_(bench::mlp_graph(), one_thread()),
        half_(bench::meeting_part(partition_graph(bench::mlp_graph(), 2).at(part), place,
                                  one_thread())) {
    bind_data(bench::mlp_graph(), data_, whole_);
    bind_data(half_.graph(), data_, half_);
  }

  void whole_step() { whole_.step(); }
  void half_step() { half_.step(); }

 private:
  NamedTensors data_;
  CycleRuntime whole_;
  RemoteScheduler half_;
};

/// Seconds that each stage works per micro-batch, its share of the update included.
std::pair<double, double> stage_times(StageRow& row, const NamedTensors& data, std::uint64_t step) {
  const SlicedBatch batch = slice_batch(data, batch_rows(data), kMicroBatches, step);
  double spent[2] = {0, 0};
  const auto timed = [&](std::size_t stage, const std::function<void()>& work) {
    spent[stage] += bench::measured(work).wall;
  };
  std::vector<Stage>& stages = row.stages();
  for (std::size_t i = 0; i < batch.micro_batches.size(); ++i) {
    const MicroBatch& micro_batch = batch.micro_batches[i];
    NamedTensors sent, back;
    TapReport taps;
    for (const std::size_t s : {0, 1}) {
      timed(s, [&] {
        sent = stages[s]->forward(micro_batch,
                                  part_inputs(stages[s]->graph(), batch.slices[i], sent), taps);
      });
    }
    for (const std::size_t s : {1, 0}) {
      timed(s, [&] { back = stages[s]->backward(micro_batch, back); });
    }
  }
  for (const std::size_t s : {0, 1}) {
    timed(s, [&] { stages[s]->update({0.01, 1, static_cast<std::int64_t>(step)}); });
  }
  return {spent[0] / kMicroBatches, spent[1] / kMicroBatches};
}

/// The second process: does what it is told, a letter each, until the first one goes away.
int serve(int socket, std::int64_t batch, const RemoteBinding& place) {
  Side side(1, batch, place);
  char order = 0;
  while (::read(socket, &order, 1) == 1) {
    if (order == 'w') side.whole_step();
    if (order == 'h') side.half_step();
    if (::write(socket, &order, 1) != 1) break;
  }
  return 0;
}

struct Round {
  double alone = 0, together = 0, pipeline = 0, t0 = 0, t1 = 0;
  [[nodiscard]] double speed_up() const { return alone / pipeline; }
  /// Of two processes that do the whole work each.
  [[nodiscard]] double machine() const { return 2 * alone / together; }
  [[nodiscard]] double bound() const {
    const double m = kMicroBatches;
    return m * (t0 + t1) / (m * std::max(t0, t1) + std::min(t0, t1)) * machine() / 2;
  }
};

class Contest {
 public:
  Contest(int socket, std::int64_t batch, const RemoteBinding& place)
      : socket_(socket),
        side_(0, batch, place),
        data_(noise(batch)),
        row_(partition_graph(bench::mlp_graph(), 2), {one_thread(), one_thread()}) {
    round();  // the first one warms up
  }

  Round round() {
    Round made;
    made.alone = bench::measured([&] { side_.whole_step(); }).wall;
    made.pipeline = both('h', [&] { side_.half_step(); });
    made.together = both('w', [&] { side_.whole_step(); });
    std::tie(made.t0, made.t1) = stage_times(row_, data_, step_++);
    return made;
  }

 private:
  /// Seconds until both processes have done it.
  double both(char order, const std::function<void()>& own) {
    return bench::measured([&] {
             char answer = 0;
             if (::write(socket_, &order, 1) != 1)
               fail(ErrorCode::kUnavailable, "the second process is gone");
             own();
             if (::read(socket_, &answer, 1) != 1)
               fail(ErrorCode::kUnavailable, "the second process failed");
           })
        .wall;
  }

  const int socket_;
  Side side_;
  NamedTensors data_;
  StageRow row_;
  std::uint64_t step_ = 0;
};

bool compare(const char* name, const RemoteBinding& place, bool short_run) {
  const std::int64_t batch = short_run ? 256 : 2048;
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    fail(ErrorCode::kUnavailable, "there is no socket pair for the second process");
  }
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(sockets[0]);
    ::_exit(serve(sockets[1], batch, place));
  }
  ::close(sockets[1]);
  std::vector<double> fractions, speed_ups, bounds;
  {
    Contest contest(sockets[0], batch, place);
    for (int i = 0; i < (short_run ? 1 : 7); ++i) {
      const Round round = contest.round();
      std::printf(
          "round %d: one process %.1f ms, pipeline %.1f ms, two at once %.1f ms, "
          "stages %.2f and %.2f ms per micro-batch\n",
          i + 1, 1e3 * round.alone, 1e3 * round.pipeline, 1e3 * round.together, 1e3 * round.t0,
          1e3 * round.t1);
      speed_ups.push_back(round.speed_up());
      bounds.push_back(round.bound());
      fractions.push_back(round.speed_up() / round.bound());
    }
    ::close(sockets[0]);
  }
  ::waitpid(child, nullptr, 0);
  const double fraction = bench::median(fractions);
  std::printf("pipeline of two processes over %s | %.3fx | bound %.3fx | %.3f | >= 0.93\n", name,
              bench::median(speed_ups), bench::median(bounds), fraction);
  return fraction >= 0.93;
}

}  // namespace

int main(int argc, char** argv) {
  const bool short_run = bench::has_flag(argc, argv, "--short");
  const bool check = bench::has_flag(argc, argv, "--check");
  const RemoteBinding shm{format("pipeline.{}", ::getpid()), "127.0.0.1", 1,
                          RemoteTransport::SharedMemory};
  std::printf("name | ours | reference | ratio | bar\n");
  const bool good = compare("shared memory", shm, short_run);
  return check && !good ? 1 : 0;
}
