// Dispatcher: a Python function, a graph or a TorchScript module over several unlike devices.
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>

#include <nanobind/stl/unique_ptr.h>

#include <harmonics/base/error.h>
#include <harmonics/dispatch/adaptive_scheduler.h>
#include <harmonics/dispatch/torch_work.h>
#include <harmonics/dispatch/work_dispatcher.h>
#include <harmonics/settings/train_settings.h>

#include "arrays.h"
#include "core.h"
#include "model.h"
#include "options.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace harmonics::python {
namespace {

/// An object of Python that lanes may keep and drop without the GIL.
class Held {
 public:
  Held() = default;
  explicit Held(nb::object object) : object_(new nb::object(std::move(object)), &drop) {}
  [[nodiscard]] const nb::object& get() const { return *object_; }

 private:
  static void drop(nb::object* object) {
    if (!nb::is_alive()) return;
    const nb::gil_scoped_acquire held;
    delete object;
  }
  std::shared_ptr<nb::object> object_;
};

// Between two looks whether a signal has come.
constexpr std::chrono::milliseconds kSignalLook{50};
// Of a Python function a sub-batch costs more than of a native one: it waits for the GIL, which
// another thread may keep for some milliseconds. What such waits make of the measured latency must
// not lead to sub-batches that are gone in a moment.
constexpr double kEfficiency = 0.99;
constexpr std::chrono::milliseconds kLeastTime{50};

/// How a run is watched from Python.
struct Watch {
  nb::object progress;
  double timeout_s = 0;

  [[nodiscard]] RunOptions options() const {
    RunOptions run;
    run.timeout = std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(timeout_s));
    if (!progress.is_none()) {
      run.progress = [this](const DispatchProgress& now) { return tell(now); };
    }
    return run;
  }

 private:
  [[nodiscard]] bool tell(const DispatchProgress& now) const {
    const nb::gil_scoped_acquire held;
    const nb::object answer = progress(now.done_rows, now.total_rows);
    return !nb::isinstance<nb::bool_>(answer) || nb::cast<bool>(answer);
  }
};

/// Computes in a thread of its own while this one waits without the GIL. What a signal's handler
/// raises (Ctrl-C) ends the run once what is at work has finished, and goes on.
template <typename Result>
Result watched(const Watch& watch, const std::function<Result(RunOptions)>& compute) {
  std::stop_source stop;
  std::optional<nb::python_error> raised;
  std::optional<Result> result;
  {
    const nb::gil_scoped_release released;
    std::future<Result> under_way = std::async(std::launch::async, [&] {
      RunOptions run = watch.options();
      run.stop = stop.get_token();
      return compute(std::move(run));
    });
    while (under_way.wait_for(kSignalLook) != std::future_status::ready) {
      if (raised) continue;
      const nb::gil_scoped_acquire held;
      if (PyErr_CheckSignals() == 0) continue;
      raised.emplace();
      stop.request_stop();
    }
    try {
      result = under_way.get();
    } catch (...) {
      if (!raised) throw;
    }
  }
  if (raised) throw nb::python_error(*raised);
  return std::move(*result);
}

/// One run at a time: what is learned has one teacher.
class Turn {
 public:
  explicit Turn(std::atomic<bool>& taken) : taken_(taken) {
    if (taken.exchange(true)) {
      fail(ErrorCode::kFailedPrecondition,
           "a run of this dispatcher is still under way: wait for it, or make another dispatcher");
    }
  }
  ~Turn() { taken_ = false; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::atomic<bool>& taken_;
};

/// A model on every device of a dispatcher, which must outlive it.
class DispatchedModel {
 public:
  using Compute = std::function<TensorMap(TensorMapLoader&, RunOptions)>;

  DispatchedModel(Compute compute, std::atomic<bool>& taken, std::optional<HarmonicGraph> graph)
      : compute_(std::move(compute)), taken_(taken), graph_(std::move(graph)) {}

  /// Outputs by name, in the order of the rows.
  nb::dict run(const nb::dict& inputs, nb::object progress, double timeout_s) {
    const Turn turn(taken_);
    TensorMap tensors;
    ArrayKind kind = ArrayKind::kNumpy;
    for (const auto& [key, value] : inputs) {
      const std::string name = nb::cast<std::string>(key);
      tensors.emplace(name, tensor_of(value, "input '" + name + "'", dtype_of(name)));
      if (kind_of(value) == ArrayKind::kTorch) kind = ArrayKind::kTorch;
    }
    TensorMapLoader rows(std::move(tensors));
    const TensorMap outputs =
        watched<TensorMap>({std::move(progress), timeout_s},
                           [&](RunOptions run) { return compute_(rows, std::move(run)); });
    nb::dict made;
    for (const auto& [name, tensor] : outputs) made[name.c_str()] = array_of(tensor, kind);
    return made;
  }

 private:
  [[nodiscard]] std::optional<DType> dtype_of(const std::string& name) const {
    if (!graph_) return std::nullopt;
    if (const auto index = graph_->producer_index(name)) return graph_->producers()[*index].dtype;
    std::string known;
    for (const ProducerNode& one : graph_->producers()) {
      known += (known.empty() ? "" : ", ") + one.name;
    }
    fail(ErrorCode::kInvalidArgument, "graph '{}' has no producer '{}'; there are {}",
         graph_->name(), name, known);
  }

  Compute compute_;
  std::atomic<bool>& taken_;
  std::optional<HarmonicGraph> graph_;
};

/// Devices, and what was learned about them.
class Dispatcher {
 public:
  Dispatcher(std::vector<std::string> devices, const nb::dict& options)
      : scheduler_(config_of(std::move(devices), options)),
        trace_(std::make_shared<DispatchTrace>()) {}

  /// What `function(begin, end, device)` gave for the sub-batches of 0..rows, in order, with the
  /// row that each begins at. `progress(done, rows)` may answer False to end it.
  nb::list map(const nb::object& function, std::size_t rows, nb::object progress,
               double timeout_s) {
    const Turn turn(taken_);
    using Work = WorkDispatcher<Slice, Held>;
    Work::Functions functions;
    functions.run = [&](Slice&& slice, const WorkDevice& device) {
      const nb::gil_scoped_acquire held;
      return Held(nb::make_tuple(slice.start, function(slice.start, slice.stop, device.name)));
    };
    const std::vector<Held> parts =
        watched<std::vector<Held>>({std::move(progress), timeout_s}, [&](RunOptions run) {
          Work work(scheduler_, std::move(functions), {.trace = trace_});
          SliceGenerator slices(0, rows);
          return work.run(slices, std::move(run));
        });
    nb::list made;
    for (const Held& part : parts) made.append(part.get());
    return made;
  }

  /// A TorchScript file on every device.
  std::unique_ptr<DispatchedModel> script(const std::filesystem::path& file,
                                          std::vector<std::string> inputs,
                                          std::vector<std::string> outputs) {
    return loaded<TorchDispatcher>(script_functions({file, std::move(inputs), std::move(outputs)}),
                                   std::nullopt);
  }
  /// A graph on every device: with the weights of `file`, else those that its own file names.
  std::unique_ptr<DispatchedModel> graph(const Model& model, const std::filesystem::path& file) {
    RuntimeModel runtime{.graph = model.graph(), .weights = file};
    if (file.empty() && !model.file.empty()) {
      runtime.weights = merge_weights(model.document, model.file, {});
    }
    return loaded<ValueDispatcher>(runtime_functions(std::move(runtime)), model.graph());
  }

  [[nodiscard]] nb::list knowledge() const {
    nb::list made;
    for (const DeviceKnowledge& one : scheduler_.knowledge()) {
      nb::dict device;
      device["device"] = one.device;
      device["known"] = one.known;
      device["latency_s"] = one.latency_s;
      device["rows_per_second"] = one.rows_per_second;
      device["best_batch"] = one.best_batch;
      made.append(device);
    }
    return made;
  }
  [[nodiscard]] std::string trace_json() const { return trace_->json(); }
  [[nodiscard]] std::string trace_svg() const {
    return dispatch_trace_svg({trace_->lanes().begin(), trace_->lanes().end()});
  }

 private:
  static AdaptiveConfig config_of(std::vector<std::string> devices, const nb::dict& options) {
    AdaptiveConfig config;
    config.devices = std::move(devices);
    config.efficiency = kEfficiency;
    config.least_time = kLeastTime;
    for (const auto& [name, value] : options) {
      const std::string key = nb::cast<std::string>(name);
      if (key == "model") {
        config.model = option<std::string>(key, value);
      } else if (key == "rates_file") {
        config.rates_file = option<std::filesystem::path>(key, value);
      } else if (key == "first_batches") {
        config.first_batches = option<std::vector<std::size_t>>(key, value);
      } else if (key == "repeat_late") {
        config.repeat_late = option<bool>(key, value);
      } else if (key == "efficiency") {
        config.efficiency = option<double>(key, value);
      } else {
        fail(ErrorCode::kInvalidArgument,
             "a dispatcher has no option '{}'; there are model, rates_file, first_batches, "
             "efficiency and repeat_late",
             key);
      }
    }
    return config;
  }

  template <typename Work>
  std::unique_ptr<DispatchedModel> loaded(typename Work::Functions functions,
                                          std::optional<HarmonicGraph> graph) {
    const Turn turn(taken_);
    const nb::gil_scoped_release released;  // every device reads its weights
    DispatchOptions options;
    options.trace = trace_;
    const auto work = std::make_shared<Work>(scheduler_, std::move(functions), options);
    return std::make_unique<DispatchedModel>(
        [work](TensorMapLoader& rows, RunOptions run) { return work->run(rows, std::move(run)); },
        taken_, std::move(graph));
  }

  AdaptiveScheduler scheduler_;
  std::shared_ptr<DispatchTrace> trace_;
  std::atomic<bool> taken_ = false;
};

}  // namespace

void bind_dispatch(nb::module_& module) {
  nb::class_<DispatchedModel>(module, "_DispatchedModel")
      .def("run", &DispatchedModel::run, "inputs"_a, "progress"_a.none(), "timeout_s"_a);
  nb::class_<Dispatcher>(module, "_Dispatcher")
      .def(nb::init<std::vector<std::string>, const nb::dict&>(), "devices"_a, "options"_a)
      .def("map", &Dispatcher::map, "function"_a, "rows"_a, "progress"_a.none(), "timeout_s"_a)
      .def("script", &Dispatcher::script, "file"_a, "inputs"_a, "outputs"_a, nb::keep_alive<0, 1>())
      .def("graph", &Dispatcher::graph, "model"_a, "file"_a, nb::keep_alive<0, 1>())
      .def("knowledge", &Dispatcher::knowledge)
      .def("trace_json", &Dispatcher::trace_json)
      .def("trace_svg", &Dispatcher::trace_svg);
}

}  // namespace harmonics::python
