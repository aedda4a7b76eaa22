// harmonics dispatch-sweep: rows per second over sub-batch sizes, the experiment that finds the
// size for a SimpleScheduler.
#include <algorithm>
#include <chrono>
#include <optional>

#include <harmonics/base/clock.h>
#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/base/random.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/dispatch/static_hybrid_scheduler.h>
#include <harmonics/dispatch/torch_work.h>
#include <harmonics/options/command_line.h>
#include <harmonics/options/graph_argument.h>

#include "subcommands.h"

namespace harmonics::inline in_torch_program {
namespace {

/// The batch that is measured; sizes beyond it are measured with one sub-batch.
constexpr std::size_t kMaxSweepBytes = std::size_t{1} << 30;
/// The smallest sub-batch that comes this close to the best is recommended.
constexpr double kNearlyBest = 0.97;

struct SweepPoint {
  std::int64_t size = 0;
  double rows_per_second = 0;
};

// Numbers between 0 and 1 for floating inputs, zeros for others.
Tensor made_rows(const TensorSpec& row, std::int64_t rows, const std::string& name) {
  Shape shape = row.shape;
  shape.insert(shape.begin(), rows);
  Tensor tensor = Tensor::zeros(std::move(shape), row.dtype);
  if (row.dtype != DType::kFloat32) return tensor;
  Random random(1, name);
  for (float& value : tensor.mutable_values<float>()) value = random.uniform();
  return tensor;
}

// Inputs of a model and its functions, whichever kind it is.
struct SweepModel {
  std::vector<std::pair<std::string, TensorSpec>> inputs;
  std::optional<RuntimeModel> graph;
  std::optional<ScriptModel> script;

  [[nodiscard]] TensorMap rows(std::int64_t count) const {
    TensorMap tensors;
    for (const auto& [name, row] : inputs) tensors.emplace(name, made_rows(row, count, name));
    return tensors;
  }
  [[nodiscard]] std::size_t row_bytes() const {
    std::size_t bytes = 1;
    for (const auto& [name, row] : inputs) {
      bytes += static_cast<std::size_t>(byte_count(row));
    }
    return bytes;
  }
};

SweepModel open_model(const DispatchSweepCommand& command) {
  SweepModel model;
  if (command.model.extension() == ".pt") {
    ScriptModel script{.file = command.model};
    for (const SweepInput& input : command.inputs) {
      model.inputs.emplace_back(input.name, TensorSpec{input.shape, DType::kFloat32});
      script.inputs.push_back(input.name);
    }
    if (model.inputs.empty()) {
      fail(ErrorCode::kInvalidArgument,
           "{}: a TorchScript module does not say what it takes: give --input NAME=3x224x224 for "
           "each argument",
           command.model.string());
    }
    model.script = std::move(script);
    return model;
  }
  GraphArgument argument = open_graph_argument(command.model);
  for (const ProducerNode& producer : argument.graph.producers()) {
    const bool target = std::ranges::any_of(
        argument.graph.taps(), [&](const TrainingTap& tap) { return tap.target == producer.name; });
    if (!target) model.inputs.emplace_back(producer.name, argument.graph.spec(producer.name));
  }
  model.graph = RuntimeModel{.graph = std::move(argument.graph)};
  return model;
}

// Runs the batch again and again until the time is over, the first time without counting.
template <typename Dispatcher>
double measured_rate(Dispatcher& dispatcher, TensorMapLoader& loader, double seconds) {
  const SteadyClock clock;
  (void)dispatcher.run(loader);
  const Nanoseconds start = clock.now();
  double rows = 0;
  double taken = 0;
  do {
    loader.rewind();
    (void)dispatcher.run(loader);
    rows += static_cast<double>(loader.size());
    taken = in_seconds(clock.now() - start);
  } while (taken < seconds);
  return rows / taken;
}

SweepPoint measure(const SweepModel& model, const DispatchSweepCommand& command,
                   std::int64_t size) {
  const auto batch = static_cast<std::size_t>(size);
  const DispatchOptions options{.lanes = static_cast<int>(command.lanes)};
  const std::size_t sub_batches =
      std::clamp<std::size_t>(kMaxSweepBytes / (model.row_bytes() * batch), 1, 8);
  TensorMapLoader loader(model.rows(static_cast<std::int64_t>(sub_batches * batch)));
  const double seconds = static_cast<double>(command.milliseconds) / 1e3;
  SimpleScheduler scheduler(command.device, batch, 4 * batch);
  if (model.script) {
    TorchDispatcher dispatcher(scheduler, script_functions(*model.script), options);
    return {size, measured_rate(dispatcher, loader, seconds)};
  }
  ValueDispatcher dispatcher(scheduler, runtime_functions(*model.graph), options);
  return {size, measured_rate(dispatcher, loader, seconds)};
}

std::string report(const DispatchSweepCommand& command, const std::vector<SweepPoint>& points) {
  const SweepPoint best = *std::ranges::max_element(points, {}, &SweepPoint::rows_per_second);
  const SweepPoint enough = *std::ranges::find_if(points, [&](const SweepPoint& point) {
    return point.rows_per_second >= kNearlyBest * best.rows_per_second;
  });
  if (command.output == OutputStyle::kJson) {
    Json all = Json::array();
    for (const SweepPoint& point : points) {
      Json one = Json::object();
      one.set("sub_batch", point.size);
      one.set("rows_per_second", point.rows_per_second);
      all.push(std::move(one));
    }
    Json result = Json::object();
    result.set("device", command.device);
    result.set("sizes", std::move(all));
    result.set("best", best.size);
    result.set("smallest_within_3_percent", enough.size);
    return result.dump() + "\n";
  }
  if (command.output == OutputStyle::kQuiet) return format("{}\n", enough.size);
  Table table{.columns = {{"sub-batch", Align::kRight}, {"rows/s", Align::kRight}, {""}},
              .rows = {}};
  for (const SweepPoint& point : points) {
    table.rows.push_back({with_thousands(point.size), as_rate(point.rows_per_second),
                          point.size == best.size     ? "best"
                          : point.size == enough.size ? "within 3 % of the best"
                                                      : ""});
  }
  return table.text(wants_colour(TextStream::kOutput));
}

}  // namespace

int dispatch_sweep(const DispatchSweepCommand& command) {
  const SweepModel model = open_model(command);
  std::vector<std::int64_t> sizes = command.sizes;
  if (sizes.empty()) {
    for (std::int64_t size = 1; size <= 4096; size *= 2) sizes.push_back(size);
  }
  std::ranges::sort(sizes);
  std::vector<SweepPoint> points;
  for (const std::int64_t size : sizes) {
    try {
      points.push_back(measure(model, command, size));
    } catch (const Error& error) {
      // Larger sizes will not fit either; what was measured counts.
      if (error.code() != ErrorCode::kResourceExhausted || points.empty()) throw;
      write_text(TextStream::kError,
                 format("harmonics: {} rows do not fit '{}'\n", size, command.device));
      break;
    }
    if (is_terminal(TextStream::kError)) {
      write_text(TextStream::kError,
                 format("\rmeasured {} of {} sizes", points.size(), sizes.size()));
    }
  }
  if (is_terminal(TextStream::kError)) write_text(TextStream::kError, "\n");
  write_text(TextStream::kOutput, report(command, points));
  return kExitDone;
}

}  // namespace harmonics::inline in_torch_program
