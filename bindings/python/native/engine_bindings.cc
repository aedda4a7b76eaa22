// How Python sees an Engine and its reports.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <harmonics/base/error.h>
#include <harmonics/schedule/checkpoint.h>

#include "arrays.h"
#include "core.h"
#include "engine.h"
#include "options.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace harmonics::python {
namespace {

void bind_reports(nb::module_& module) {
  nb::class_<StepReport>(module, "StepReport", "One batch; steps and epochs count from 1.")
      .def_ro("step", &StepReport::step, "Number of the step since the run began.")
      .def_ro("epoch", &StepReport::epoch, "Number of the epoch.")
      .def_ro("batch", &StepReport::batch, "Batches of this epoch so far.")
      .def_ro("batches_in_epoch", &StepReport::batches_in_epoch,
              "Of all of them, where the data has a size.")
      .def_ro("samples", &StepReport::samples, "Rows of the batch.")
      .def_ro("loss", &StepReport::loss, "Mean over the rows; None when the graph only infers.")
      .def_ro("accuracy", &StepReport::accuracy,
              "Share of right predictions, where classes are judged.")
      .def_ro("learning_rate", &StepReport::learning_rate, "The rate of this step.")
      .def_ro("gradient_norm", &StepReport::gradient_norm,
              "Before clipping; 0 where clipping is off.")
      .def_ro("updated", &StepReport::updated,
              "False when an overflow of fp16 skipped the update.");
  nb::class_<Evaluation>(module, "Evaluation",
                         "What the losses say of data that is not learnt from.")
      .def_ro("samples", &Evaluation::samples, "Rows that were looked at.")
      .def_ro("loss", &Evaluation::loss, "Mean over the rows.")
      .def_ro("accuracy", &Evaluation::accuracy,
              "Share of right predictions, where classes are judged.");
  nb::class_<EpochReport>(module, "EpochReport", "One pass over the data.")
      .def_ro("epoch", &EpochReport::epoch, "Number of the epoch, from 1.")
      .def_ro("steps", &EpochReport::steps, "Steps in it.")
      .def_ro("samples", &EpochReport::samples, "Rows in it.")
      .def_ro("train_loss", &EpochReport::train_loss, "Mean over the rows.")
      .def_ro("train_accuracy", &EpochReport::train_accuracy, "Share of right predictions.")
      .def_ro("evaluation", &EpochReport::evaluation,
              "Of the data that is held back; None without any.");
  nb::class_<FitOutcome>(module, "FitReport", "How a fit went.")
      .def_ro("epochs", &FitReport::epochs, "Epochs since the run began.")
      .def_ro("steps", &FitReport::steps, "Steps since the run began.")
      .def_ro("last_epoch", &FitReport::last_epoch, "The last whole epoch.")
      .def_ro("stopped_early", &FitReport::stopped_early,
              "No better evaluation for `patience` epochs.")
      .def_ro("interrupted", &FitReport::interrupted, "A callback or a signal ended it.")
      .def_prop_ro(
          "losses", [](const FitOutcome& made) { return made.losses.values(); },
          "The loss of each step of this fit; of more than 65,536 steps the mean of two, four … "
          "neighbours each.")
      .def(
          "_repr_svg_",
          [](const FitOutcome& made) {
            return nb::module_::import_("harmonics.drawing")
                .attr("loss_svg")(made.losses.values(), "loss", made.losses.stride());
          },
          nb::sig("def _repr_svg_(self) -> str"), "The losses, for notebooks.");
}

// The same limits, in the same words, as those of the setting.
std::int64_t checked_epochs(std::int64_t epochs) {
  TrainSettings settings;
  try {
    find_train_setting_rule("epochs")->apply(settings, format("{}", epochs));
  } catch (const Error& error) {
    fail(error.code(), "epochs: {}", std::string_view(error.what()));
  }
  return settings.epochs;
}

FitWishes wishes_of(const nb::dict& given, TrainSettings& settings) {
  FitWishes wishes;
  wishes.epochs = settings.epochs;
  wishes.options.patience = static_cast<int>(settings.patience);
  for (const auto& [key, value] : given) {
    const std::string name = nb::cast<std::string>(key);
    if (value.is_none()) continue;
    if (name == "epochs") {
      wishes.epochs = checked_epochs(option<std::int64_t>(name, value));
    } else if (name == "on_step") {
      wishes.on_step = nb::borrow(value);
    } else if (name == "on_epoch") {
      wishes.on_epoch = nb::borrow(value);
    } else if (name == "checkpoint") {
      wishes.options.checkpoint = option<std::filesystem::path>(name, value);
    } else if (name == "checkpoint_every") {
      wishes.options.checkpoint_every = option<std::int64_t>(name, value);
    } else if (name == "metrics") {
      wishes.options.metrics = option<std::filesystem::path>(name, value);
    } else {
      fail(ErrorCode::kInvalidArgument,
           "fit has no option '{}'; there are epochs, on_step, on_epoch, checkpoint, "
           "checkpoint_every, metrics and progress",
           name);
    }
  }
  return wishes;
}

FitOutcome fit(Engine& engine, const nb::dict& data, const nb::dict& evaluation,
               const nb::dict& options) {
  engine.bind(given_data(engine.model().graph(), data));
  return engine.fit(wishes_of(options, engine.settings()),
                    given_data(engine.model().graph(), evaluation));
}

nb::dict parameters(Engine& engine, bool torch) {
  return arrays_of(engine.learner().parameters(), torch ? ArrayKind::kTorch : ArrayKind::kNumpy);
}

nb::dict progress(Engine& engine) {
  const TrainingProgress& now = engine.learner().progress();
  nb::dict made;
  made["epochs"] = now.epochs_done;
  made["batches"] = now.batches_in_epoch;
  return made;
}

}  // namespace

void bind_engine(nb::module_& module) {
  bind_reports(module);
  const auto released = nb::call_guard<nb::gil_scoped_release>();
  nb::class_<Engine>(module, "Engine")
      .def(nb::init<Model, const std::string&>(), "graph"_a, "settings"_a)
      .def_prop_ro("graph", &Engine::model)
      .def_prop_ro("epochs", [](Engine& engine) { return engine.settings().epochs; })
      .def(
          "bind",
          [](Engine& engine, const nb::dict& data) {
            engine.bind(given_data(engine.model().graph(), data));
          },
          "data"_a)
      .def("fit", &fit, "data"_a, "evaluation"_a, "options"_a)
      .def("step", &Engine::step)
      .def(
          "evaluate",
          [](Engine& engine, const nb::dict& data) {
            return engine.evaluate(given_data(engine.model().graph(), data));
          },
          "data"_a)
      .def("infer", &Engine::infer, "inputs"_a)
      .def("parameters", &parameters, "torch"_a)
      .def("progress", &progress)
      .def(
          "save",
          [](Engine& engine, const std::filesystem::path& path) {
            engine.learner().save_checkpoint(path);
          },
          "path"_a, released)
      .def(
          "load",
          [](Engine& engine, const std::filesystem::path& path) {
            engine.learner().load_checkpoint(path);
          },
          "path"_a, released)
      .def(
          "load_weights",
          [](Engine& engine, const std::filesystem::path& path) {
            engine.learner().load_weights(path);
          },
          "path"_a, released)
      .def(
          "digest", [](Engine& engine) { return engine.learner().weights_digest(); }, released)
      .def(
          "close", [](Engine& engine) { engine.learner().close(); }, released)
      .def("proof", [](Engine& engine) { return engine.learner().proof(); });
  module.def(
      "_checkpoint_weights",
      [](const std::filesystem::path& path) {
        return arrays_of(checkpoint_weights(path), ArrayKind::kNumpy);
      },
      "path"_a);
}

}  // namespace harmonics::python
