#include "engine.h"

#include <algorithm>
#include <atomic>
#include <filesystem>

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/graph/partition.h>
#include <harmonics/schedule/cycle_runtime.h>
#include <harmonics/schedule/distributed_scheduler.h>

#include "arrays.h"

namespace nb = nanobind;

namespace harmonics::python {
namespace {

TrainSettings train_settings(const Model& model, const std::string& json) {
  TrainSettings made =
      model.file.empty() ? TrainSettings{} : merge_settings(model.document, model.file, {});
  const Json given = Json::parse(json, "settings");
  for (const auto& [key, value] : given.as_object()) {
    const TrainSettingRule* const rule = find_train_setting_rule(key);
    if (rule != nullptr) rule->apply(made, value.is_string() ? value.as_string() : value.dump());
  }
  return made;
}

// What a file says of its training, with what was given over it.
std::string merged_settings(const Model& model, const std::string& json) {
  Json all = Json::object();
  for (const Setting& setting : model.document.train.entries) all.set(setting.key, setting.value);
  const Json given = Json::parse(json, "settings");
  for (const auto& [key, value] : given.as_object()) all.set(key, value);
  return all.dump();
}

/// Lets Python see each step and epoch, and ends a fit when it says so or was interrupted.
class Listener {
 public:
  Listener(FitWishes& wishes, std::atomic<bool>& stop) : wishes_(wishes), stop_(stop) {}

  void step(const StepReport& report) {
    const nb::gil_scoped_acquire held;
    if (PyErr_CheckSignals() != 0) return keep_error();
    tell(wishes_.on_step, report);
  }
  void epoch(const EpochReport& report) {
    const nb::gil_scoped_acquire held;
    tell(wishes_.on_epoch, report);
  }
  /// Throws what Python threw.
  void finish() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  template <typename Report>
  void tell(const nb::object& listener, const Report& report) {
    if (listener.is_none()) return;
    try {
      const nb::object answer = listener(report);
      if (nb::isinstance<nb::bool_>(answer) && !nb::cast<bool>(answer)) stop_ = true;
    } catch (const nb::python_error&) {
      error_ = std::current_exception();
      stop_ = true;
    }
  }
  void keep_error() {
    error_ = std::make_exception_ptr(nb::python_error());
    stop_ = true;
  }

  FitWishes& wishes_;
  std::atomic<bool>& stop_;
  std::exception_ptr error_;
};

}  // namespace

Engine::Engine(Model model, const std::string& settings)
    : model_(std::move(model)),
      settings_(border::engine_settings(merged_settings(model_, settings))),
      train_(train_settings(model_, settings)) {
  if (train_.replicas != 1) {
    fail(ErrorCode::kUnimplemented,
         "replicas in one Python process are not there: train_distributed(…, replicas={}) starts "
         "them",
         train_.replicas);
  }
  RuntimeOptions& options = settings_.remote.runtime;
  options.data = {train_.batch_size, train_.test_split, train_.shuffle};
  // Weights of the model stay where they are until something is learnt.
  options.maps_weights = true;
  if (model_.graph().resolved()) make_learner();
}

// Threads of the learner may let go of arrays, for which they need the GIL.
Engine::~Engine() {
  const nb::gil_scoped_release released;
  learner_.reset();
  bound_.clear();
  test_.clear();
}

void Engine::make_learner() {
  const RuntimeOptions& options = settings_.remote.runtime;
  if (train_.parts == 1 && settings_.deploy.partitions.empty()) {
    learner_ = std::make_unique<CycleRuntime>(model_.graph(), options);
  } else {
    const std::size_t count = train_.parts > 1 ? static_cast<std::size_t>(train_.parts)
                                               : settings_.deploy.partitions.size();
    learner_ = std::make_unique<DistributedScheduler>(partition_graph(model_.graph(), count),
                                                      settings_.deploy, settings_.remote);
  }
  load_weights();
}

void Engine::load_weights() {
  if (!model_.weights.entries().empty()) {
    for (Stage& stage : learner_->trainer().row().stages()) {
      stage->load_parameters([&](const std::string& name) { return model_.weights.read(name); });
    }
  } else if (!model_.file.empty()) {
    const std::filesystem::path file = merge_weights(model_.document, model_.file, {});
    if (!file.empty()) learner_->load_weights(file);
  }
}

Learner& Engine::learner() {
  if (!learner_) {
    fail(ErrorCode::kFailedPrecondition,
         "producer '{}' has no shape yet: bind its data first, with fit or bind",
         model_.graph().unresolved().front());
  }
  return *learner_;
}

void Engine::resolve(const std::map<std::string, TensorSpec>& specs) {
  if (learner_) return;
  std::map<std::string, TensorSpec> open;
  for (const std::string& name : model_.graph().unresolved()) {
    const auto found = specs.find(name);
    if (found != specs.end()) open.insert(*found);
  }
  model_.document.graph = model_.graph().resolved_with(open);
  if (model_.graph().resolved()) make_learner();
}

GivenData Engine::data_of_file() const {
  GivenData data;
  if (model_.file.empty()) return data;
  const std::vector<SourceBinding> bindings = merge_bindings(model_.document, model_.file, {});
  data.rows = open_sources(model_.graph(), bindings);
  return data;
}

void Engine::bind(const GivenData& given) {
  const GivenData data = given.empty() && bound_.empty() ? data_of_file() : given;
  if (data.empty()) return;
  resolve(data.specs());
  TrainingData made =
      make_training_data(model_.graph(), with_checked_labels(model_.graph(), data.rows), train_);
  for (const auto& [name, producer] : data.fed) {
    made.train[name] = producer;
    made.batches_per_epoch = producer->size().value_or(0);
  }
  batches_per_epoch_ = made.batches_per_epoch;
  test_ = made.test;
  change(made.train);
}

void Engine::change(const NamedProducers& producers) {
  for (const auto& [name, producer] : producers) {
    const auto found = bound_.find(name);
    if (found != bound_.end()) {
      found->second->change(producer, name);
      continue;
    }
    const auto changing = std::make_shared<ChangingProducer>(producer);
    learner().bindProducer(name, changing);
    bound_.emplace(name, changing);
  }
}

// A cosine ends with the run, whose length the data says.
void Engine::set_length(std::int64_t epochs) {
  StageRow& row = learner().trainer().row();
  LearningSettings now = row.settings();
  if (now.schedule.kind != ScheduleKind::kCosine || now.schedule.total_steps != 0) return;
  now.schedule.total_steps = epochs * batches_per_epoch_;
  row.set_settings(now);
}

void Losses::add(double loss) {
  sum_ += loss;
  if (++waiting_ < stride_) return;
  values_.push_back(sum_ / static_cast<double>(stride_));
  sum_ = 0;
  waiting_ = 0;
  if (values_.size() < kMaxLosses) return;
  for (std::size_t i = 0; i < kMaxLosses / 2; ++i) {
    values_[i] = (values_[2 * i] + values_[2 * i + 1]) / 2;
  }
  values_.resize(kMaxLosses / 2);
  stride_ *= 2;
}

FitOutcome Engine::fit(FitWishes wishes, const GivenData& evaluation) {
  std::atomic<bool> stop = false;
  FitOptions& options = wishes.options;
  options.stop = &stop;
  options.evaluation = test_;
  if (!evaluation.empty()) {
    TrainSettings whole = train_;
    whole.test_split = 0;
    whole.shuffle = false;
    options.evaluation =
        make_training_data(model_.graph(), with_checked_labels(model_.graph(), evaluation.rows),
                           whole)
            .train;
    for (const auto& [name, producer] : evaluation.fed) options.evaluation[name] = producer;
  }
  Listener listener(wishes, stop);
  FitOutcome made;
  options.on_step = [&](const StepReport& report) {
    if (report.loss) made.losses.add(*report.loss);
    listener.step(report);
  };
  options.on_epoch = [&](const EpochReport& report) { listener.epoch(report); };
  set_length(wishes.epochs);
  {
    const nb::gil_scoped_release released;
    static_cast<FitReport&>(made) = learner().fit(wishes.epochs, options);
  }
  listener.finish();
  return made;
}

StepReport Engine::step() {
  const nb::gil_scoped_release released;
  return learner().step();
}

Evaluation Engine::evaluate(const GivenData& data) {
  resolve(data.specs());
  TrainSettings whole = train_;
  whole.test_split = 0;
  whole.shuffle = false;
  TrainingData made =
      make_training_data(model_.graph(), with_checked_labels(model_.graph(), data.rows), whole);
  for (const auto& [name, producer] : data.fed) made.train[name] = producer;
  const nb::gil_scoped_release released;
  return learner().evaluate(made.train);
}

nb::dict Engine::infer(const nb::dict& inputs) {
  NamedTensors named;
  ArrayKind kind = ArrayKind::kNumpy;
  for (const auto& [key, value] : inputs) {
    const std::string name = nb::cast<std::string>(key);
    const auto index = model_.graph().producer_index(name);
    const std::optional<DType> dtype =
        index ? std::optional(model_.graph().producers()[*index].dtype) : std::nullopt;
    named.emplace(name, tensor_of(value, "input '" + name + "'", dtype));
    if (kind_of(value) == ArrayKind::kTorch) kind = ArrayKind::kTorch;
  }
  if (!learner_) {
    std::map<std::string, TensorSpec> specs;
    for (const auto& [name, tensor] : named) {
      if (tensor.shape().empty()) continue;
      specs[name] = {Shape(tensor.shape().begin() + 1, tensor.shape().end()), tensor.dtype()};
    }
    resolve(specs);
  }
  NamedTensors outputs;
  {
    const nb::gil_scoped_release released;
    outputs = learner().infer(named);
  }
  return arrays_of(outputs, kind);
}

}  // namespace harmonics::python
