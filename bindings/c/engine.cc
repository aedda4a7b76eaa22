#include <atomic>
#include <memory>

#include <harmonics/base/json.h>
#include <harmonics/schedule/cycle_runtime.h>
#include <harmonics/schedule/distributed_scheduler.h>
#include <harmonics/schedule/remote_scheduler.h>
#include <harmonics/schedule/report_json.h>

#include "border.h"
#include "engine_settings.h"
#include "watched_end.h"

using namespace harmonics;
using namespace harmonics::border;

struct hm_engine {
  explicit hm_engine(std::unique_ptr<Learner> made) : learner(std::move(made)) {}

  const std::unique_ptr<Learner> learner;
  const std::shared_ptr<EndWatch> watch = std::make_shared<EndWatch>();
  /// Numbers of the first and the last step of the fit at hand; 0 before.
  std::atomic<std::int64_t> first_step = 0;
  std::atomic<std::int64_t> last_step = 0;
};

namespace {

Learner& learner_of(hm_engine* engine) { return *object_of(engine, "engine").learner; }
const Learner& learner_of(const hm_engine* engine) { return *object_of(engine, "engine").learner; }

DistributedScheduler& distributed(const hm_engine& engine, const std::string& what) {
  auto* const scheduler = dynamic_cast<DistributedScheduler*>(engine.learner.get());
  if (scheduler == nullptr) {
    fail(ErrorCode::kUnimplemented, "'{}': only a DistributedScheduler takes ends", what);
  }
  return *scheduler;
}

std::string step_json(const StepReport& report) {
  return report_json(report).set("updated", report.updated).dump();
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
    object_of(out, "out") = new hm_engine(std::make_unique<CycleRuntime>(
        object_of(graph, "graph").graph, settings_of(settings).remote.runtime));
  });
}

int hm_distributed_new(const hm_graph* const* parts, size_t count, const char* settings,
                       hm_engine** out) {
  return guarded([&] {
    std::vector<HarmonicGraph> graphs;
    for (size_t i = 0; i < count; ++i) graphs.push_back(object_of(parts[i], "parts").graph);
    const EngineSettings made = settings_of(settings);
    object_of(out, "out") =
        new hm_engine(std::make_unique<DistributedScheduler>(graphs, made.deploy, made.remote));
  });
}

int hm_remote_new(const hm_graph* part, const hm_endpoints* endpoints, const char* settings,
                  hm_engine** out) {
  return guarded([&] {
    const EngineSettings made = settings_of(settings);
    const hm_endpoints& ends = object_of(endpoints, "endpoints");
    object_of(out, "out") = new hm_engine(std::make_unique<RemoteScheduler>(
        object_of(part, "part").graph, bindings(ends.producers, ends.producer_count),
        bindings(ends.consumers, ends.consumer_count), made.deploy, made.remote));
  });
}

int hm_engine_bind_producer(hm_engine* engine, const char* name, const hm_producer* producer) {
  return guarded([&] {
    learner_of(engine).bindProducer(std::string(text_of(name, "name")),
                                    object_of(producer, "producer").producer);
  });
}

int hm_engine_bind_consumer(hm_engine* engine, const char* name, const hm_consumer* consumer) {
  return guarded([&] {
    learner_of(engine).bindConsumer(std::string(text_of(name, "name")),
                                    object_of(consumer, "consumer").consumer);
  });
}

int hm_engine_bind_end(hm_engine* engine, const char* boundary, int entering, hm_end* end) {
  return guarded([&] {
    const std::unique_ptr<hm_end> owned(end);
    hm_engine& to = object_of(engine, "engine");
    hm_end& given = object_of(end, "end");
    const std::string name(text_of(boundary, "boundary"));
    DistributedScheduler& scheduler = distributed(to, name);
    TransportPtr taken = watched(std::move(given.transport), given.kind, to.watch);
    if (entering != 0) {
      scheduler.bindProducer(name, std::move(taken));
    } else {
      scheduler.bindConsumer(name, std::move(taken));
    }
  });
}

int hm_engine_join_replicas(hm_engine* engine, const hm_replicas* replicas) {
  return guarded([&] {
    const hm_replicas& given = object_of(replicas, "replicas");
    hm_engine& to = object_of(engine, "engine");
    ReductionEnds ends = reduction_ends(given, to.watch);
    ReductionOptions options;
    options.order = reduction_from_name(text_of(given.order, "order"));
    distributed(to, "replicas").join_replicas(std::move(ends), options);
  });
}

int hm_engine_step(hm_engine* engine, char** report) {
  return guarded(
      [&] { object_of(report, "report") = copy_text(step_json(learner_of(engine).step())); });
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
    const FitReport done = to.learner->fit(asked.epochs, options);
    object_of(report, "report") = copy_text(fit_json(done));
  });
}

int hm_engine_infer(hm_engine* engine, const hm_tensor* inputs, size_t count, hm_tensors** out) {
  return guarded([&] {
    const NamedTensors named = adopt(inputs, count);
    object_of(out, "out") = new hm_tensors(learner_of(engine).infer(named));
  });
}

int hm_engine_save(const hm_engine* engine, const char* path) {
  return guarded([&] { learner_of(engine).save_checkpoint(std::string(text_of(path, "path"))); });
}

int hm_engine_load(hm_engine* engine, const char* path) {
  return guarded([&] { learner_of(engine).load_checkpoint(std::string(text_of(path, "path"))); });
}

int hm_engine_resume(hm_engine* engine, const char* path, int* resumed) {
  return guarded([&] {
    object_of(resumed, "resumed") =
        learner_of(engine).resume(std::string(text_of(path, "path"))) ? 1 : 0;
  });
}

int hm_engine_load_weights(hm_engine* engine, const char* path) {
  return guarded([&] { learner_of(engine).load_weights(std::string(text_of(path, "path"))); });
}

int hm_engine_parameters(const hm_engine* engine, hm_tensors** out) {
  return guarded([&] {
    NamedTensors copies;
    for (const auto& [name, tensor] : learner_of(engine).parameters()) {
      copies[name] = concat_rows(std::vector<Tensor>{tensor.reshaped({1, tensor.size()})})
                         .reshaped(tensor.shape());
    }
    object_of(out, "out") = new hm_tensors(std::move(copies));
  });
}

int hm_engine_digest(const hm_engine* engine, char** digest) {
  return guarded(
      [&] { object_of(digest, "digest") = copy_text(learner_of(engine).weights_digest()); });
}

int hm_engine_progress(const hm_engine* engine, char** json) {
  return guarded([&] {
    const TrainingProgress& progress = learner_of(engine).progress();
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
  return guarded([&] { learner_of(engine).close(); });
}

int hm_engine_proof(const hm_engine* engine, char** lines) {
  return guarded([&] { object_of(lines, "lines") = copy_text(learner_of(engine).proof()); });
}

void hm_engine_free(hm_engine* engine) { delete engine; }

}  // extern "C"
