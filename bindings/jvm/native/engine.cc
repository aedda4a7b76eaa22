#include <atomic>
#include <filesystem>

#include <harmonics/base/json.h>
#include <harmonics/schedule/cycle_runtime.h>
#include <harmonics/schedule/distributed_scheduler.h>
#include <harmonics/schedule/remote_scheduler.h>

#include "border.h"
#include "settings.h"
#include "watched_end.h"

using namespace harmonics;
using namespace harmonics::border;

/// What the runtime and the two schedulers can do alike.
struct hm_engine {
  virtual ~hm_engine() = default;
  virtual void bind_producer(const std::string& name, const ProducerPtr& producer) = 0;
  virtual void bind_consumer(const std::string& name, const ConsumerPtr& consumer) = 0;
  virtual void bind_end(const std::string& boundary, bool entering, TransportPtr end) = 0;
  virtual void join_replicas(ReductionEnds ends, const ReductionOptions& options) = 0;
  virtual StepReport step() = 0;
  virtual FitReport fit(std::int64_t epochs, const FitOptions& options) = 0;
  virtual NamedTensors infer(const NamedTensors& inputs) = 0;
  virtual void save(const std::string& path) const = 0;
  virtual void load(const std::string& path) = 0;
  virtual bool resume(const std::string& path) = 0;
  virtual void load_weights(const std::string& path) = 0;
  virtual NamedTensors parameters() const = 0;
  virtual const TrainingProgress& progress() const = 0;
  virtual void seal() = 0;
  virtual std::string proof() const = 0;

  const std::shared_ptr<EndWatch> watch = std::make_shared<EndWatch>();
  /// Numbers of the first and the last step of the fit at hand; 0 before.
  std::atomic<std::int64_t> first_step = 0;
  std::atomic<std::int64_t> last_step = 0;
};

namespace {

[[noreturn]] void only_distributed(const std::string& what) {
  fail(ErrorCode::kUnimplemented, "'{}': only a DistributedScheduler takes ends", what);
}

template <typename Runtime>
struct EngineOf final : hm_engine {
  template <typename... Arguments>
  explicit EngineOf(Arguments&&... arguments) : runtime(std::forward<Arguments>(arguments)...) {}

  void bind_producer(const std::string& name, const ProducerPtr& producer) override {
    runtime.bindProducer(name, producer);
  }
  void bind_consumer(const std::string& name, const ConsumerPtr& consumer) override {
    runtime.bindConsumer(name, consumer);
  }
  void bind_end(const std::string& boundary, bool entering, TransportPtr end) override {
    if constexpr (std::is_same_v<Runtime, DistributedScheduler>) {
      if (entering) {
        runtime.bindProducer(boundary, std::move(end));
      } else {
        runtime.bindConsumer(boundary, std::move(end));
      }
    } else {
      only_distributed(boundary);
    }
  }
  void join_replicas(ReductionEnds ends, const ReductionOptions& options) override {
    if constexpr (std::is_same_v<Runtime, DistributedScheduler>) {
      runtime.join_replicas(std::move(ends), options);
    } else {
      only_distributed("replicas");
    }
  }
  StepReport step() override { return runtime.step(); }
  FitReport fit(std::int64_t epochs, const FitOptions& options) override {
    return runtime.fit(epochs, options);
  }
  NamedTensors infer(const NamedTensors& inputs) override { return runtime.infer(inputs); }
  void save(const std::string& path) const override { runtime.save_checkpoint(path); }
  void load(const std::string& path) override { runtime.load_checkpoint(path); }
  bool resume(const std::string& path) override {
    if constexpr (std::is_same_v<Runtime, CycleRuntime>) {
      if (!std::filesystem::exists(path)) return false;
      runtime.load_checkpoint(path);
      return true;
    } else {
      return runtime.resume(path);
    }
  }
  void load_weights(const std::string& path) override { runtime.load_weights(path); }
  NamedTensors parameters() const override { return runtime.parameters(); }
  const TrainingProgress& progress() const override { return runtime.progress(); }
  void seal() override { runtime.close(); }
  std::string proof() const override { return runtime.proof(); }

  Runtime runtime;
};

std::string step_json(const StepReport& report) {
  Json json;
  json.set("step", report.step).set("epoch", report.epoch).set("samples", report.samples);
  if (report.loss) json.set("loss", *report.loss);
  if (report.accuracy) json.set("accuracy", *report.accuracy);
  json.set("learning_rate", report.learning_rate).set("updated", report.updated);
  return json.dump();
}

std::string fit_json(const FitReport& report) {
  Json json;
  json.set("epochs", report.epochs).set("steps", report.steps);
  json.set("samples", report.last_epoch.samples);
  if (report.last_epoch.train_loss) json.set("train_loss", *report.last_epoch.train_loss);
  if (report.last_epoch.train_accuracy) {
    json.set("train_accuracy", *report.last_epoch.train_accuracy);
  }
  json.set("interrupted", report.interrupted);
  return json.dump();
}

FitOptions fit_options(const char* text) {
  FitOptions options;
  if (text == nullptr || *text == '\0') return options;
  const Json json = Json::parse(text, "options of fit");
  for (const auto& [key, value] : json.as_object()) {
    if (key == "checkpoint") {
      options.checkpoint = value.as_string();
    } else if (key == "checkpoint_every") {
      options.checkpoint_every = value.as_integer();
    } else if (key == "metrics") {
      options.metrics = value.as_string();
    } else {
      fail(ErrorCode::kInvalidArgument,
           "fit: there is no option '{}'; there are checkpoint, checkpoint_every and metrics", key);
    }
  }
  return options;
}

std::vector<RemoteBinding> bindings(const char* const* urls, size_t count) {
  std::vector<RemoteBinding> made;
  for (size_t i = 0; i < count; ++i) made.push_back(parse_binding(text_of(urls[i], "urls")));
  return made;
}

EngineSettings settings_of(const char* text) {
  return engine_settings(text == nullptr ? std::string_view() : text);
}

}  // namespace

extern "C" {

int hm_runtime_new(const hm_graph* graph, const char* settings, hm_engine** out) {
  return guarded([&] {
    object_of(out, "out") = new EngineOf<CycleRuntime>(object_of(graph, "graph").graph,
                                                       settings_of(settings).remote.runtime);
  });
}

int hm_distributed_new(const hm_graph* const* parts, size_t count, const char* settings,
                       hm_engine** out) {
  return guarded([&] {
    std::vector<HarmonicGraph> graphs;
    for (size_t i = 0; i < count; ++i) graphs.push_back(object_of(parts[i], "parts").graph);
    const EngineSettings made = settings_of(settings);
    object_of(out, "out") = new EngineOf<DistributedScheduler>(graphs, made.deploy, made.remote);
  });
}

int hm_remote_new(const hm_graph* part, const hm_endpoints* endpoints, const char* settings,
                  hm_engine** out) {
  return guarded([&] {
    const EngineSettings made = settings_of(settings);
    const hm_endpoints& ends = object_of(endpoints, "endpoints");
    object_of(out, "out") = new EngineOf<RemoteScheduler>(
        object_of(part, "part").graph, bindings(ends.producers, ends.producer_count),
        bindings(ends.consumers, ends.consumer_count), made.deploy, made.remote);
  });
}

int hm_engine_bind_producer(hm_engine* engine, const char* name, const hm_producer* producer) {
  return guarded([&] {
    object_of(engine, "engine")
        .bind_producer(std::string(text_of(name, "name")),
                       object_of(producer, "producer").producer);
  });
}

int hm_engine_bind_consumer(hm_engine* engine, const char* name, const hm_consumer* consumer) {
  return guarded([&] {
    object_of(engine, "engine")
        .bind_consumer(std::string(text_of(name, "name")),
                       object_of(consumer, "consumer").consumer);
  });
}

int hm_engine_bind_end(hm_engine* engine, const char* boundary, int entering, hm_end* end) {
  return guarded([&] {
    const std::unique_ptr<hm_end> owned(end);
    hm_engine& to = object_of(engine, "engine");
    hm_end& given = object_of(end, "end");
    to.bind_end(std::string(text_of(boundary, "boundary")), entering != 0,
                watched(std::move(given.transport), given.kind, to.watch));
  });
}

int hm_engine_join_replicas(hm_engine* engine, const hm_replicas* replicas) {
  return guarded([&] {
    const hm_replicas& given = object_of(replicas, "replicas");
    hm_engine& to = object_of(engine, "engine");
    ReductionEnds ends = reduction_ends(given, to.watch);
    ReductionOptions options;
    options.order = reduction_from_name(text_of(given.order, "order"));
    to.join_replicas(std::move(ends), options);
  });
}

int hm_engine_step(hm_engine* engine, char** report) {
  return guarded([&] {
    object_of(report, "report") = copy_text(step_json(object_of(engine, "engine").step()));
  });
}

int hm_engine_fit(hm_engine* engine, const hm_fit* fit, char** report) {
  return guarded([&] {
    const hm_fit& asked = object_of(fit, "fit");
    FitOptions options = fit_options(asked.options);
    hm_engine& to = object_of(engine, "engine");
    std::atomic<bool> stop = false;
    options.stop = &stop;
    options.on_step = [&](const StepReport& step) {
      if (to.first_step == 0) to.first_step = step.step;
      to.last_step = step.step;
      if (to.watch->stopped()) stop = true;
      if (asked.on_step == nullptr) return;
      if (asked.on_step(asked.context, step_json(step).c_str()) != 0) stop = true;
    };
    const FitReport done = to.fit(asked.epochs, options);
    object_of(report, "report") = copy_text(fit_json(done));
  });
}

int hm_engine_infer(hm_engine* engine, const hm_tensor* inputs, size_t count, hm_tensors** out) {
  return guarded([&] {
    const NamedTensors named = adopt(inputs, count);
    object_of(out, "out") = new hm_tensors(object_of(engine, "engine").infer(named));
  });
}

int hm_engine_save(const hm_engine* engine, const char* path) {
  return guarded([&] { object_of(engine, "engine").save(std::string(text_of(path, "path"))); });
}

int hm_engine_load(hm_engine* engine, const char* path) {
  return guarded([&] { object_of(engine, "engine").load(std::string(text_of(path, "path"))); });
}

int hm_engine_resume(hm_engine* engine, const char* path, int* resumed) {
  return guarded([&] {
    object_of(resumed, "resumed") =
        object_of(engine, "engine").resume(std::string(text_of(path, "path"))) ? 1 : 0;
  });
}

int hm_engine_load_weights(hm_engine* engine, const char* path) {
  return guarded(
      [&] { object_of(engine, "engine").load_weights(std::string(text_of(path, "path"))); });
}

int hm_engine_parameters(const hm_engine* engine, hm_tensors** out) {
  return guarded([&] {
    NamedTensors copies;
    for (const auto& [name, tensor] : object_of(engine, "engine").parameters()) {
      copies[name] = concat_rows(std::vector<Tensor>{tensor.reshaped({1, tensor.size()})})
                         .reshaped(tensor.shape());
    }
    object_of(out, "out") = new hm_tensors(std::move(copies));
  });
}

int hm_engine_digest(const hm_engine* engine, char** digest) {
  return guarded([&] {
    object_of(digest, "digest") =
        copy_text(weights_digest(object_of(engine, "engine").parameters()));
  });
}

int hm_engine_progress(const hm_engine* engine, char** json) {
  return guarded([&] {
    const TrainingProgress& progress = object_of(engine, "engine").progress();
    Json text;
    text.set("epochs", progress.epochs_done).set("batches", progress.batches_in_epoch);
    object_of(json, "json") = copy_text(text.dump());
  });
}

int hm_engine_stop(hm_engine* engine) {
  return guarded([&] { object_of(engine, "engine").watch->stop(); });
}

int hm_engine_steps(const hm_engine* engine, int64_t* first, int64_t* last) {
  return guarded([&] {
    object_of(first, "first") = object_of(engine, "engine").first_step;
    object_of(last, "last") = object_of(engine, "engine").last_step;
  });
}

int hm_engine_traffic(const hm_engine* engine, char** json) {
  return guarded(
      [&] { object_of(json, "json") = copy_text(object_of(engine, "engine").watch->traffic()); });
}

int hm_engine_seal(hm_engine* engine) {
  return guarded([&] { object_of(engine, "engine").seal(); });
}

int hm_engine_proof(const hm_engine* engine, char** lines) {
  return guarded(
      [&] { object_of(lines, "lines") = copy_text(object_of(engine, "engine").proof()); });
}

void hm_engine_free(hm_engine* engine) { delete engine; }

}  // extern "C"
