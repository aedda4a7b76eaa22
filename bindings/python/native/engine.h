// Engine: a graph with its weights, ready to learn and to compute; Runtime of the Python package
// holds one.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <engine_settings.h>
#include <nanobind/nanobind.h>

#include <harmonics/schedule/learner.h>
#include <harmonics/settings/train_settings.h>

#include "data.h"
#include "model.h"

namespace harmonics::python {

/// What a fit is told besides its data; members are as in FitOptions.
struct FitWishes {
  std::int64_t epochs = 1;
  nanobind::object on_step = nanobind::none();
  nanobind::object on_epoch = nanobind::none();
  FitOptions options = {};
};

/// The losses of steps, at most kMaxLosses numbers of them: where there are more steps, neighbours
/// share a number, their mean.
class Losses {
 public:
  static constexpr std::size_t kMaxLosses = 65'536;

  void add(double loss);
  [[nodiscard]] const std::vector<double>& values() const { return values_; }
  /// Steps for which each number stands.
  [[nodiscard]] std::size_t stride() const { return stride_; }

 private:
  std::vector<double> values_;
  std::size_t stride_ = 1;
  double sum_ = 0;
  std::size_t waiting_ = 0;
};

/// How a fit went, and what it lost.
struct FitOutcome : FitReport {
  Losses losses;
};

/// One thread at a time. The learner is made when every shape is known: at once, or from the data
/// of the first call.
class Engine {
 public:
  /// `settings` is JSON with the keys of bindings/c/engine_settings.h.
  Engine(Model model, const std::string& settings);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Binds the data, where some is given, in place of what was bound before; with none at all that
  /// of the graph's file. Called with the GIL.
  void bind(const GivenData& given);
  FitOutcome fit(FitWishes wishes, const GivenData& evaluation);
  [[nodiscard]] StepReport step();
  [[nodiscard]] Evaluation evaluate(const GivenData& data);
  [[nodiscard]] nanobind::dict infer(const nanobind::dict& inputs);

  [[nodiscard]] Learner& learner();
  [[nodiscard]] const Model& model() const { return model_; }
  [[nodiscard]] TrainSettings& settings() { return train_; }

 private:
  void make_learner();
  void load_weights();
  void resolve(const std::map<std::string, TensorSpec>& specs);
  [[nodiscard]] GivenData data_of_file() const;
  void change(const NamedProducers& producers);
  void set_length(std::int64_t epochs);

  Model model_;
  border::EngineSettings settings_;
  TrainSettings train_;
  std::unique_ptr<Learner> learner_;
  std::map<std::string, std::shared_ptr<ChangingProducer>> bound_;
  NamedProducers test_;
  std::int64_t batches_per_epoch_ = 0;
};

}  // namespace harmonics::python
