// Dispatcher: a Python function over several unlike devices.
#include <chrono>
#include <memory>

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <harmonics/base/error.h>
#include <harmonics/dispatch/adaptive_scheduler.h>
#include <harmonics/dispatch/work_dispatcher.h>

#include "core.h"

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

/// Devices, and what was learned about them.
class Dispatcher {
 public:
  Dispatcher(std::vector<std::string> devices, const nb::dict& options)
      : scheduler_(config_of(std::move(devices), options)),
        trace_(std::make_shared<DispatchTrace>()) {}

  /// What `function(begin, end, device)` gave for the sub-batches of 0..rows, in order, with the
  /// row that each begins at. `progress(done, rows)` may answer False to end it.
  nb::list map(const nb::object& function, std::size_t rows, const nb::object& progress,
               double timeout_s) {
    using Work = WorkDispatcher<Slice, Held>;
    Work::Functions functions;
    functions.run = [&](Slice&& slice, const WorkDevice& device) {
      const nb::gil_scoped_acquire held;
      return Held(nb::make_tuple(slice.start, function(slice.start, slice.stop, device.name)));
    };
    DispatchOptions options;
    options.trace = trace_;
    RunOptions run;
    run.timeout = std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(timeout_s));
    run.progress = [&](const DispatchProgress& now) { return tell(progress, now); };
    std::vector<Held> parts;
    {
      const nb::gil_scoped_release released;
      Work work(scheduler_, std::move(functions), options);
      SliceGenerator slices(0, rows);
      parts = work.run(slices, run);
    }
    nb::list made;
    for (const Held& part : parts) made.append(part.get());
    return made;
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
    for (const auto& [name, value] : options) {
      const std::string key = nb::cast<std::string>(name);
      if (key == "model") {
        config.model = nb::cast<std::string>(value);
      } else if (key == "rates_file") {
        config.rates_file = nb::cast<std::filesystem::path>(value);
      } else if (key == "first_batches") {
        config.first_batches = nb::cast<std::vector<std::size_t>>(value);
      } else if (key == "repeat_late") {
        config.repeat_late = nb::cast<bool>(value);
      } else {
        fail(ErrorCode::kInvalidArgument,
             "a dispatcher has no option '{}'; there are model, rates_file, first_batches and "
             "repeat_late",
             key);
      }
    }
    return config;
  }

  static bool tell(const nb::object& progress, const DispatchProgress& now) {
    const nb::gil_scoped_acquire held;
    if (progress.is_none()) return true;
    const nb::object answer = progress(now.done_rows, now.total_rows);
    return !nb::isinstance<nb::bool_>(answer) || nb::cast<bool>(answer);
  }

  AdaptiveScheduler scheduler_;
  std::shared_ptr<DispatchTrace> trace_;
};

}  // namespace

void bind_dispatch(nb::module_& module) {
  nb::class_<Dispatcher>(module, "_Dispatcher")
      .def(nb::init<std::vector<std::string>, const nb::dict&>(), "devices"_a, "options"_a)
      .def("map", &Dispatcher::map, "function"_a, "rows"_a, "progress"_a.none(), "timeout_s"_a)
      .def("knowledge", &Dispatcher::knowledge)
      .def("trace_json", &Dispatcher::trace_json)
      .def("trace_svg", &Dispatcher::trace_svg);
}

}  // namespace harmonics::python
