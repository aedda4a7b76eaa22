#include "paced_backend.h"

#include <chrono>
#include <fstream>

#include <harmonics/base/environment.h>
#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/base/slowdown.h>

namespace harmonics::inline in_runtime {
namespace {

/// Appends lines to a file, if there is one.
class PassTrace {
 public:
  explicit PassTrace(const std::filesystem::path& path) {
    if (path.empty()) return;
    file_.open(path, std::ios::app);
    if (!file_) {
      fail(ErrorCode::kUnavailable, "the trace of passes '{}' cannot be written ({}, --trace)",
           path.string(), kPassTraceVariable);
    }
  }
  [[nodiscard]] bool wanted() const { return file_.is_open() && passes_ < kMaxTracedPasses; }
  void add(const char* pass, const MicroBatch& batch, double begin, double end) {
    Json json;
    json.set("pass", pass).set("step", batch.step).set("micro_batch", std::int64_t{batch.index});
    file_ << json.set("begin", begin).set("end", end).dump() << '\n' << std::flush;
    ++passes_;
  }

 private:
  std::ofstream file_;
  std::int64_t passes_ = 0;
};

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class PacedBackend final : public StageBackend {
 public:
  PacedBackend(std::unique_ptr<StageBackend> backend, double slowdown,
               const std::filesystem::path& trace)
      : backend_(std::move(backend)), slowdown_(slowdown), trace_(trace) {}

  const HarmonicGraph& graph() const override { return backend_->graph(); }
  std::string place() const override { return backend_->place(); }
  Device device() const override { return backend_->device(); }
  PrecisionPolicy precision() const override { return backend_->precision(); }
  std::vector<std::string> fallbacks() const override { return backend_->fallbacks(); }
  StageProver* prover() const override { return backend_->prover(); }

  NamedTensors infer(const NamedTensors& inputs) override {
    return traced([&] { return backend_->infer(inputs); });
  }
  NamedTensors evaluate(const NamedTensors& inputs, TapReport& report) override {
    return traced([&] { return backend_->evaluate(inputs, report); });
  }
  NamedTensors forward(const MicroBatch& batch, const NamedTensors& inputs,
                       TapReport& report) override {
    learns_ = true;
    const double begin = wall_seconds();
    NamedTensors outputs = paced([&] { return backend_->forward(batch, inputs, report); });
    if (trace_.wanted()) trace_.add("forward", batch, begin, wall_seconds());
    return outputs;
  }
  std::map<std::uint32_t, TapReport> late_taps() override { return backend_->late_taps(); }
  NamedTensors backward(const MicroBatch& batch, const NamedTensors& gradients,
                        double loss_scale) override {
    const double begin = wall_seconds();
    NamedTensors back = paced([&] { return backend_->backward(batch, gradients, loss_scale); });
    if (trace_.wanted()) trace_.add("backward", batch, begin, wall_seconds());
    return back;
  }

  std::map<std::string, double> gradient_square_sums() const override {
    return backend_->gradient_square_sums();
  }
  void update(const Update& update) override { backend_->update(update); }
  void reset() override { backend_->reset(); }
  std::string first_non_finite() override { return backend_->first_non_finite(); }
  std::vector<std::pair<std::string, Tensor>> layer_values(std::uint32_t micro_batch) override {
    return backend_->layer_values(micro_batch);
  }

  NamedTensors parameters() const override { return backend_->parameters(); }
  NamedTensors optimizer_state() const override { return backend_->optimizer_state(); }
  NamedTensors gradients() const override { return backend_->gradients(); }
  void set_parameters(const NamedTensors& values) override { backend_->set_parameters(values); }
  void load_parameters(const ParameterReader& read) override { backend_->load_parameters(read); }
  void set_optimizer_state(const NamedTensors& values, std::int64_t updates_made) override {
    backend_->set_optimizer_state(values, updates_made);
  }
  void set_learning(const OptimizerOptions& optimizer, std::uint64_t seed) override {
    backend_->set_learning(optimizer, seed);
  }
  void set_gradients(const NamedTensors& values) override { backend_->set_gradients(values); }
  void take_gradients(const NamedTensors& values) override { backend_->take_gradients(values); }
  void listen_for_gradients(std::uint32_t last_micro_batch, GradientListener listener) override {
    backend_->listen_for_gradients(last_micro_batch, std::move(listener));
  }
  NamedTensors buffers() const override { return backend_->buffers(); }
  void set_buffers(const NamedTensors& values) override { backend_->set_buffers(values); }

 private:
  // A batch that is only computed: they are counted here. Evaluations between the steps of a
  // training are no part of its pipeline.
  template <typename Work>
  NamedTensors traced(const Work& work) {
    const double begin = wall_seconds();
    NamedTensors outputs = paced(work);
    if (learns_) return outputs;
    if (trace_.wanted()) trace_.add("forward", {computed_, 0, 0, 0}, begin, wall_seconds());
    ++computed_;
    return outputs;
  }

  template <typename Work>
  NamedTensors paced(const Work& work) const {
    const SlowedWork slowed(slowdown_);
    return work();
  }

  const std::unique_ptr<StageBackend> backend_;
  const double slowdown_;
  PassTrace trace_;
  bool learns_ = false;
  std::uint64_t computed_ = 0;
};

}  // namespace

std::unique_ptr<StageBackend> make_paced_backend(std::unique_ptr<StageBackend> backend,
                                                 const std::filesystem::path& trace) {
  const double slowdown = slowdown_from_environment();
  const std::filesystem::path file =
      trace.empty() ? std::filesystem::path(environment_text(kPassTraceVariable)) : trace;
  if (slowdown == 1 && file.empty()) return backend;
  return std::make_unique<PacedBackend>(std::move(backend), slowdown, file);
}

}  // namespace harmonics::inline in_runtime
