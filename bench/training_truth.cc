// What a plan says of learning beside what the runtime does: the time of a batch in each order of
// the micro-batches, where stages bind and where the link does, and the memory of each stage.
//
// Time: two parts on two sides of a cable with a rate (network namespaces and tc), whose layers
// take a known time each way, so that a busy machine does not show: they are measured by the
// profiler like any other, and the cable by the profiler's own measurement. Memory: the stages of a
// network with large activations, and of one with large weights, each in a process of its own; what
// the process grew by (VmHWM) beside what the plan says. A ratio is how far off the plan is: at
// most 10 % of a time, 20 % of memory, on a calm machine (or with real-time priority on a busy
// one).
// `--time-only` and `--memory-only` leave out the other.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include <harmonics/base/clock.h>
#include <harmonics/base/error.h>
#include <harmonics/data/batch_producer.h>
#include <harmonics/data/memory_producer.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/layer_type.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/units.h>
#include <harmonics/place/profile.h>
#include <harmonics/place/profile_bandwidth.h>
#include <harmonics/plan/request.h>
#include <harmonics/plan/training.h>
#include <harmonics/runtime/torch_layer.h>
#include <harmonics/schedule/cycle_runtime.h>
#include <harmonics/schedule/remote_scheduler.h>

#include "pieces/cable.h"
#include "pieces/made_rows.h"
#include "pieces/process_memory.h"
#include "rounds.h"

namespace {

using namespace harmonics;

constexpr std::uint16_t kMeetingPort = 9000;
constexpr std::uint16_t kBandwidthPort = 9001;
constexpr double kTimeBar = 0.1, kMemoryBar = 0.2;

void nap(double ms) { std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms)); }

/// How long a layer takes each way.
struct Naps {
  double forward_ms, backward_ms;

  at::Tensor pass(const LayerCall& call) const {
    nap(forward_ms);
    at::Tensor output = call.inputs[0] * call.parameters[0];
    if (!output.requires_grad()) return output;
    output.register_hook([back = backward_ms](const at::Tensor& gradient) {
      nap(back);
      return gradient;
    });
    return output;
  }
};

LayerShape shape_of_nap(const LayerQuery& query) {
  LayerShape shape;
  shape.output = query.inputs[0];
  shape.parameters = {{"factor", {1}, Init::kConstant, 1.0}};
  shape.flops = 1;
  return shape;
}

void register_nap() {
  register_layer_type({.name = "nap",
                       .attributes = {{"forward_ms", 1.0}, {"backward_ms", 1.0}},
                       .min_inputs = 1,
                       .max_inputs = 1,
                       .infer = shape_of_nap});
  register_torch_layer("nap", [](const LayerQuery& query) {
    const Naps naps{query.number("forward_ms"), query.number("backward_ms")};
    return [naps](const LayerCall& call) { return naps.pass(call); };
  });
}

/// What is learnt, and over which link.
struct Case {
  const char* name;
  int width;  ///< Numbers of a sample that cross.
  double forward_ms, backward_ms;
  double megabits;
};

constexpr std::int64_t kRows = 8;  ///< Of a micro-batch.

HarmonicGraph napping(const Case& one) {
  std::string text = format("producer x {{{}}}; producer y {{1}};\n", one.width);
  std::string cycle = "x";
  for (int i = 1; i <= 6; ++i) {
    text += format("layer nap{} nap(forward_ms={}, backward_ms={});\n", i, one.forward_ms,
                   one.backward_ms);
    cycle += format(" -> nap{}", i);
  }
  return parse_harp(text + "layer head linear(1);\ncycle { " + cycle +
                    " -> head; head <-(mse)- y; }");
}

/// The profile and two hosts at that bandwidth, as the planner has them.
PlanProblem problem_of(const HarmonicGraph& graph, double mbps, int in_flight) {
  ProfileOptions options;
  options.mode = ProfileMode::kTraining;
  options.batch_size = kRows;
  options.threads = 1;
  options.training = {.optimizer_slots = 1, .in_flight = in_flight};
  const GraphProfile profile = profile_graph(graph, options, SteadyClock());
  PlanInputs inputs;
  inputs.models["net"] = profile.model();
  inputs.types["host"] = {.bandwidth_mbps = mbps, .memory_mb = 1e6};
  inputs.types["host"].models["net"] = {profile.times()};
  inputs.hosts["host"] = {"a", "b"};
  return make_problem(inputs, {.model = "net", .batch_size = kRows});
}

RuntimeOptions one_thread(int micro_batches) {
  RuntimeOptions options;
  options.threads = 1;
  options.micro_batches = micro_batches;
  options.optimizer = {OptimizerKind::kSgd, 1e-12, 0.9};  // what is learnt does not matter
  return options;
}

RemoteScheduler make_part(const HarmonicGraph& part, const RemoteBinding& place,
                          PipelineOrder order, int micro_batches) {
  std::vector<RemoteBinding> entering, leaving;
  const auto meet = [&](const std::string& name, std::vector<RemoteBinding>& ends) {
    if (!is_boundary_name(name)) return;
    ends.push_back(place);
    ends.back().name = name;
  };
  for (const ProducerNode& node : part.producers()) meet(node.name, entering);
  for (const ConsumerNode& node : part.consumers()) meet(node.name, leaving);
  RemoteOptions options;
  options.runtime = one_thread(micro_batches);
  options.pipeline.order = order;
  options.transport.run = place.name;
  return RemoteScheduler(part, entering, leaving, {}, options);
}

NamedTensors rows_of(const HarmonicGraph& part, std::int64_t rows) {
  NamedTensors all;
  for (const ProducerNode& node : part.producers()) {
    if (!is_boundary_name(node.name)) all[node.name] = bench::made_rows(node, rows, 2);
  }
  return all;
}

void bind_rows(const NamedTensors& rows, RemoteScheduler& scheduler) {
  for (const auto& [name, tensor] : rows) {
    scheduler.bindProducer(name, std::make_shared<BatchProducer>(
                                     std::make_shared<MemoryProducer>(tensor), tensor.shape()[0]));
  }
}

/// Runs both sides of the cable; what they threw is an Error.
template <typename Work>
void on_both_sides(const bench::Cable& cable, Work work) {
  std::string errors[2];
  std::vector<std::thread> sides;
  for (const int side : {0, 1}) {
    sides.emplace_back([&, side] {
      try {
        cable.enter(side);
        work(side);
      } catch (const std::exception& error) {
        errors[side] = error.what();
      }
    });
  }
  for (std::thread& side : sides) side.join();
  if (errors[0].empty() && errors[1].empty()) return;
  fail(ErrorCode::kAborted, "a side of the cable failed: '{}', '{}'", errors[0], errors[1]);
}

double measured_mbps(const bench::Cable& cable) {
  double mbps = 0;
  on_both_sides(cable, [&](int side) {
    const HostPort there{bench::Cable::address(1), kBandwidthPort};
    if (side == 1) return BandwidthServer(there).serve_one();
    nap(500);  // the other side listens by then
    mbps = measure_bandwidth_mbps(there, SteadyClock());
  });
  return mbps;
}

/// Seconds of a step, the median of some.
double step_time(const bench::Cable& cable, const std::vector<HarmonicGraph>& parts,
                 PipelineOrder order, int micro_batches, int steps) {
  double seconds = 0;
  on_both_sides(cable, [&](int side) {
    const RemoteBinding place{format("truth.{}", ::getpid()), bench::Cable::address(1),
                              kMeetingPort};
    const HarmonicGraph& part = parts[static_cast<std::size_t>(side)];
    RemoteScheduler scheduler = make_part(part, place, order, micro_batches);
    bind_rows(rows_of(part, kRows * micro_batches), scheduler);
    std::vector<double> times;
    scheduler.step();
    for (int i = 0; i < steps; ++i) {
      times.push_back(bench::measured([&] { scheduler.step(); }).wall);
    }
    if (side == 0) seconds = bench::median(times);
  });
  return seconds;
}

/// The ratio of the row is how far off the plan is, as a share of what was measured.
bool within(const std::string& name, double measured, double told, double bar, const char* unit) {
  return bench::row(name, format("{:.4g} {}", told, unit),
                    format("measured {:.4g} {}", measured, unit), std::abs(told / measured - 1),
                    format("<= {:g}", bar));
}

bool compare_times(const Case& one, int micro_batches, int steps) {
  const bench::Cable cable(one.megabits);
  const HarmonicGraph graph = napping(one);
  const std::vector<HarmonicGraph> parts = cut_graph(graph, std::vector<std::size_t>{0, 3});
  const PlanProblem problem = problem_of(graph, measured_mbps(cable), 4);
  bool good = true;
  for (const char* order_name : {"1f1b", "gpipe", "sequential"}) {
    const TrainingWish wish{pipeline_order_from_name(order_name),
                            static_cast<std::uint32_t>(micro_batches)};
    const Placement halves = {{0, 3, 0, 1}, {3, problem.layers(), 0, 1}};
    const double told = plan_training(problem, {}, halves, wish).batch_s;
    const double took = step_time(cable, parts, wish.order, micro_batches, steps);
    good &=
        within(format("{}, {}, {} micro-batches: predicted", one.name, order_name, micro_batches),
               1e3 * took, 1e3 * told, kTimeBar, "ms");
  }
  return good;
}

// What a stage of a network holds.

/// Layers of one kind, and how large they are.
struct Network {
  const char* name;
  std::string layer;
  std::string shape;  ///< Of what enters.
  /// The same in small.
  std::string small_layer, small_shape;
};

constexpr int kDeep = 6;

HarmonicGraph stack(const Network& network, int layers) {
  std::string text = format("producer x {{{}}}; producer y {{1}};\n", network.shape);
  std::string cycle = "x";
  for (int i = 1; i <= layers; ++i) {
    text += format("layer deep{} {};\n", i, network.layer);
    cycle += format(" -(relu)-> deep{}", i);
  }
  return parse_harp(text + "layer flat flatten;\nlayer head linear(1);\ncycle { " + cycle +
                    " -> flat -> head; head <-(mse)- y; }");
}

/// The program itself is not what is measured: what it loads for a layer of each kind comes before.
void warm_up(const Network& network) {
  const Network small{network.name, network.small_layer, network.small_shape, {}, {}};
  CycleRuntime runtime(stack(small, 2), one_thread(1));
  for (const auto& [name, rows] : rows_of(runtime.graph(), kRows)) {
    runtime.bindProducer(
        name, std::make_shared<BatchProducer>(std::make_shared<MemoryProducer>(rows), kRows));
  }
  for (int i = 0; i < 2; ++i) runtime.step();
}

/// In a child: learns some steps as that part; the megabytes that it grew by go into the pipe.
void learn_part(const Network& network, const HarmonicGraph& part, const RemoteBinding& place,
                const TrainingWish& wish, int pipe) {
  const auto micro_batches = static_cast<int>(wish.micro_batches);
  const NamedTensors rows = rows_of(part, kRows * micro_batches);
  warm_up(network);
  const double before = bench::memory_of_this("VmRSS");
  RemoteScheduler scheduler = make_part(part, place, wish.order, micro_batches);
  bind_rows(rows, scheduler);
  for (int i = 0; i < 3; ++i) scheduler.step();
  const double grew = (bench::memory_of_this("VmHWM") - before) / kBytesPerMegabyte;
  if (::write(pipe, &grew, sizeof grew) != sizeof grew) ::_exit(1);
}

/// Megabytes of both stages, which run at the same time.
std::vector<double> held_megabytes(const Network& network, const std::vector<HarmonicGraph>& parts,
                                   const TrainingWish& wish) {
  const RemoteBinding place{format("held.{}", ::getpid()), "127.0.0.1", 1,
                            RemoteTransport::SharedMemory};
  std::vector<int> pipes;
  std::vector<pid_t> children;
  std::fflush(stdout);
  for (const HarmonicGraph& part : parts) {
    int ends[2];
    if (::pipe(ends) != 0) fail(ErrorCode::kUnavailable, "there is no pipe for a stage");
    const pid_t child = ::fork();
    if (child == 0) {
      learn_part(network, part, place, wish, ends[1]);
      ::_exit(0);
    }
    ::close(ends[1]);
    pipes.push_back(ends[0]);
    children.push_back(child);
  }
  std::vector<double> grew(parts.size());
  bool good = true;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    int status = 0;
    good = ::read(pipes[k], &grew[k], sizeof grew[k]) == sizeof grew[k] && good;
    good = ::waitpid(children[k], &status, 0) == children[k] && status == 0 && good;
    ::close(pipes[k]);
  }
  if (!good) fail(ErrorCode::kAborted, "a stage whose memory was measured failed");
  return grew;
}

/// What the stages of a network held in an order; children are made before libtorch has threads.
struct Held {
  const Network& network;
  std::string order;
  TrainingWish wish;
  std::vector<double> megabytes;
};

std::vector<Held> measure_memory(const std::vector<Network>& networks) {
  std::vector<Held> held;
  for (const Network& network : networks) {
    const std::vector<HarmonicGraph> parts =
        cut_graph(stack(network, kDeep), std::vector<std::size_t>{0, kDeep / 2});
    for (const char* order : {"1f1b", "gpipe"}) {
      const TrainingWish wish{pipeline_order_from_name(order), 8};
      held.push_back({network, order, wish, held_megabytes(network, parts, wish)});
    }
  }
  return held;
}

bool compare_memory(const Held& held) {
  const PlanProblem problem = problem_of(stack(held.network, kDeep), 1000, 4);
  const Placement halves = {{0, kDeep / 2, 0, 1}, {kDeep / 2, problem.layers(), 0, 1}};
  const PlannedTraining told = plan_training(problem, {}, halves, held.wish);
  bool good = true;
  for (std::size_t k = 0; k < held.megabytes.size(); ++k) {
    good &= within(
        format("{}, {}, stage {}: memory predicted", held.network.name, held.order, k + 1),
        held.megabytes[k], told.stages[k].memory_bytes / kBytesPerMegabyte, kMemoryBar, "MB");
  }
  return good;
}

bool compare_all_times(bool short_run) {
  if (!bench::Cable(100).is_laid()) {
    std::printf("a cable needs network namespaces and tc, which are not permitted here\n");
    return true;
  }
  bool good = true;
  for (const Case& one :
       {Case{"stages bind", 1000, 6, 12, 500}, Case{"the link binds", 40'000, 1, 2, 200},
        Case{"both matter", 16'000, 4, 8, 200}}) {
    good &= compare_times(one, short_run ? 4 : 12, short_run ? 1 : 5);
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  const bool short_run = bench::has_flag(argc, argv, "--short");
  const bool check = bench::has_flag(argc, argv, "--check");
  register_nap();
  std::printf("name | ours | reference | ratio | bar\n");
  const std::vector<Network> networks = {
      {"large activations",
       short_run ? "conv2d(8, kernel=3, padding=1)" : "conv2d(32, kernel=3, padding=1)",
       short_run ? "8, 32, 32" : "32, 64, 64", "conv2d(4, kernel=3, padding=1)", "4, 4, 4"},
      {"large weights", short_run ? "linear(512)" : "linear(2048)", short_run ? "512" : "2048",
       "linear(4)", "4"},
      {"attention", "attention(heads=8)", short_run ? "32, 64" : "192, 256", "attention(heads=2)",
       "4, 4"}};
  bool good = true;
  if (!bench::has_flag(argc, argv, "--time-only")) {
    for (const Held& held : measure_memory(networks)) good &= compare_memory(held);
  }
  if (!bench::has_flag(argc, argv, "--memory-only")) good &= compare_all_times(short_run);
  return check && !good ? 1 : 0;
}
