#include <harmonics/place/profile.h>

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/units.h>
#include <harmonics/plan/problem.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/runtime/stage.h>
#include <harmonics/runtime/used_memory.h>

#include "profile_inputs.h"

namespace harmonics::inline in_place {
namespace {

PrecisionPolicy precision_of(const std::string& dtype) {
  if (dtype == "torch.float32") return PrecisionPolicy::kFull;
  if (dtype == "torch.bfloat16") return PrecisionPolicy::kBf16;
  if (dtype == "torch.float16") return PrecisionPolicy::kFp16;
  fail(ErrorCode::kInvalidArgument,
       "dtype '{}' cannot be measured: there are torch.float32, torch.bfloat16 and torch.float16",
       dtype);
}

RuntimeOptions runtime_options(const ProfileOptions& options) {
  RuntimeOptions runtime;
  runtime.threads = options.threads;
  runtime.precision = precision_of(options.dtype);
  runtime.backend = options.backend;
  runtime.device_index = options.device_index;
  runtime.strict = true;
  return runtime;
}

void check_range(std::string_view what, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return;
  fail(ErrorCode::kInvalidArgument, "profile: {} is {}, it must lie in {}..{}", what, value, least,
       most);
}

void check_options(const ProfileOptions& options) {
  check_range("batch size", options.batch_size, 1, kMaxProfileBatch);
  check_range("warm-up", options.warmup, 0, kMaxProfileRepeats);
  check_range("repeats", options.repeats, 1, kMaxProfileRepeats);
  check_range("optimiser slots", options.training.optimizer_slots, 0, kMaxOptimizerSlots);
  check_range("micro-batches in flight", options.training.in_flight, 1, kMaxInFlight);
}

void check_graph(const HarmonicGraph& graph, std::size_t units, ProfileMode mode) {
  if (units == 0) {
    fail(ErrorCode::kInvalidArgument, "graph '{}' has no layers to measure", graph.name());
  }
  if (units > kMaxPlanLayers) {
    fail(ErrorCode::kResourceExhausted,
         "graph '{}' has {} units, at most {} can be planned: group layers", graph.name(), units,
         kMaxPlanLayers);
  }
  if (mode == ProfileMode::kTraining && graph.taps().empty()) {
    fail(ErrorCode::kFailedPrecondition,
         "graph '{}' has no training tap, so there is no backward pass to measure: add a loss, or "
         "measure inference",
         graph.name());
  }
}

double median(const std::vector<double>& sorted) {
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/// What passes of a unit took.
struct PassTimes {
  std::vector<double> seconds{};   ///< Without what they waited for a core.
  std::vector<double> forwards{};  ///< Training: shares of the forward pass.
  double waited_s = 0;
  double passed_s = 0;

  [[nodiscard]] double waited() const { return passed_s > 0 ? waited_s / passed_s : 0; }
  void describe(UnitProfile& unit) {
    std::ranges::sort(seconds);
    unit.time_s = median(seconds);
    unit.waited = waited();
    const double middle = seconds[seconds.size() * 3 / 4] - seconds[seconds.size() / 4];
    if (unit.time_s > 0) unit.spread = middle / 2 / unit.time_s;
    if (forwards.empty()) return;
    std::ranges::sort(forwards);
    unit.forward_s = median(forwards) * unit.time_s;
  }
};

// Bytes that malloc has given out; libtorch's small CPU tensors come from there. Stays at 0 where
// another allocator has taken its place (sanitizers).
std::int64_t heap_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}

// Of the heap and of the blocks in which large tensors lie.
std::int64_t held_bytes() {
  return heap_bytes() + static_cast<std::int64_t>(used_pass_memory().now);
}

/// One unit with its weights, alone in memory.
class UnitMeasurement {
 public:
  UnitMeasurement(const HarmonicGraph& part, const ProfileOptions& options, const Clock& clock)
      : options_(options),
        clock_(clock),
        device_(resolve_device(options.backend, options.device_index, /*strict=*/true)),
        stage_(part, runtime_options(options)),
        inputs_(synthetic_inputs(part, options.batch_size, device_)) {
    if (options.mode == ProfileMode::kTraining) {
      gradients_ = synthetic_gradients(part, options.batch_size, device_);
    }
    memory_ = part_memory(part, options.mode, options.batch_size, options.training);
    // Draws the start values, with which no pass is to be charged.
    static_cast<void>(stage_->parameters());
  }

  PassTimes measure() {
    for (int i = 0; i < options_.warmup; ++i) pass();
    PassTimes times;
    for (int i = 0; i < options_.repeats; ++i) time_pass(times);
    for (int i = options_.repeats; i < kBusyFactor * options_.repeats; ++i) {
      if (times.waited() <= kBusyShare) break;
      time_pass(times);
    }
    return times;
  }

  /// In training what a micro-batch keeps and what its passes take for moments are measured:
  /// libtorch saves other things than the graph shows (attention weights, for instance). Of all
  /// micro-batches in flight the larger figure counts.
  UnitMemory memory() {
    if (options_.mode == ProfileMode::kInference || device_.kind != DeviceKind::kCpu)
      return memory_;
    TapReport report;
    static_cast<void>(used_pass_memory(/*forget_most=*/true));
    const std::int64_t before = held_bytes();
    const NamedTensors outputs = stage_->forward(micro_batch(), inputs_, report);
    const std::int64_t grown = held_bytes() - before;
    const std::size_t after = used_pass_memory().now;
    static_cast<void>(stage_->backward(micro_batch(), gradients_));
    UnitMemory memory = memory_;
    if (grown > 0) {
      memory.kept = grown;
      memory.scratch = static_cast<std::int64_t>(used_pass_memory().most - after) +
                       largest_parameter_bytes(stage_->graph());
    }
    stage_->reset();
    const std::int64_t kept =
        grown + entering_bytes(stage_->graph(), options_.mode) * options_.batch_size;
    memory.activations = std::max(memory.activations, kept * options_.training.in_flight);
    return memory;
  }

 private:
  void time_pass(PassTimes& times) {
    wait_for_device(device_);
    const bool knows = options_.waited && device_.kind == DeviceKind::kCpu;
    const Nanoseconds before = knows ? options_.waited() : Nanoseconds{};
    const Nanoseconds start = clock_.now();
    Nanoseconds turned = start;
    pass(&turned);
    wait_for_device(device_);
    const double passed_s = in_seconds(clock_.now() - start);
    if (options_.mode == ProfileMode::kTraining && passed_s > 0) {
      times.forwards.push_back(in_seconds(turned - start) / passed_s);
    }
    const Nanoseconds waited = knows ? options_.waited() - before : Nanoseconds{};
    const double waited_s = std::clamp(in_seconds(waited), 0.0, passed_s);
    times.seconds.push_back(passed_s - waited_s);
    times.waited_s += waited_s;
    times.passed_s += passed_s;
  }

  [[nodiscard]] MicroBatch micro_batch() const { return {0, 0, 0, options_.batch_size}; }

  // `turned` is when the backward pass began, where somebody asks.
  void pass(Nanoseconds* turned = nullptr) {
    if (options_.mode == ProfileMode::kInference) {
      static_cast<void>(stage_->infer(inputs_));
      return;
    }
    TapReport report;
    static_cast<void>(stage_->forward(micro_batch(), inputs_, report));
    if (turned != nullptr) {
      wait_for_device(device_);
      *turned = clock_.now();
    }
    static_cast<void>(stage_->backward(micro_batch(), gradients_));
  }

  const ProfileOptions& options_;
  const Clock& clock_;
  const Device device_;
  Stage stage_;
  NamedTensors inputs_;
  NamedTensors gradients_;
  UnitMemory memory_;
};

UnitProfile describe(const Unit& unit, const HarmonicGraph& part, ProfileMode mode) {
  UnitProfile profile;
  profile.name = unit.name;
  profile.parameters = unit.parameters;
  for (const std::string& name : entering_tensors(part, mode)) {
    profile.shapes_in.push_back(part.spec(name).shape);
  }
  // A tensor that several later units use leaves over several boundaries, but is one tensor.
  std::set<std::string_view> leaving;
  for (const ConsumerNode& node : part.consumers()) {
    if (leaving.insert(node.input).second) {
      profile.shapes_out.push_back(part.spec(node.input).shape);
    }
  }
  return profile;
}

}  // namespace

GraphProfile profile_graph(const HarmonicGraph& graph, const ProfileOptions& options,
                           const Clock& clock, const ProfileProgress& progress) {
  check_options(options);
  const std::vector<Unit> units = graph_units(graph);
  check_graph(graph, units.size(), options.mode);
  GraphProfile profile;
  profile.batch_size = options.batch_size;
  profile.dtype = options.dtype;
  profile.mode = options.mode;
  profile.parameters_in = input_elements(graph);
  profile.parameters_out = crossing_elements(graph);
  if (options.mode == ProfileMode::kTraining) profile.tied_out = tied_elements(graph);
  // No tie: no entry, in the file either.
  if (std::ranges::all_of(profile.tied_out, [](auto each) { return each == 0; })) {
    profile.tied_out.clear();
  }
  std::vector<std::size_t> first_layers;
  for (const Unit& unit : units) first_layers.push_back(unit.first_layer);
  const std::vector<HarmonicGraph> parts = cut_graph(graph, first_layers);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (progress) progress(i, parts.size(), units[i].name);
    UnitMeasurement measurement(parts[i], options, clock);
    UnitProfile unit = describe(units[i], parts[i], options.mode);
    measurement.measure().describe(unit);
    unit.memory = measurement.memory();
    profile.units.push_back(std::move(unit));
  }
  if (progress) progress(parts.size(), parts.size(), {});
  return profile;
}

}  // namespace harmonics::inline in_place
