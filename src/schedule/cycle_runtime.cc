#include <harmonics/schedule/cycle_runtime.h>

#include <optional>
#include <utility>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/schedule/secure_run.h>

#include "secure_runner.h"

namespace harmonics::inline in_schedule {

struct CycleRuntime::State {
  HarmonicGraph graph;
  RuntimeOptions options;
  std::optional<StageRow> row;
  std::optional<Trainer> trainer;
  // Bound before all shapes were known.
  std::vector<std::pair<std::string, ProducerPtr>> waiting_producers;
  std::vector<std::pair<std::string, ConsumerPtr>> waiting_consumers;

  ~State() {
    if (row) close_quietly(*row);
  }

  void start() {
    row.emplace(std::vector{graph}, std::vector{options});
    if (options.secure.on) secure();
    trainer.emplace(*row, options.seed);
    for (auto& [name, producer] : waiting_producers) trainer->bind_producer(name, producer);
    for (auto& [name, consumer] : waiting_consumers) trainer->bind_consumer(name, consumer);
    waiting_producers.clear();
    waiting_consumers.clear();
  }

  void secure() {
    row->set_custody(make_custody(*row, options.secure, signing_key(options.secure)));
    row->set_runner(make_secure_runner(*row->custody()));
  }

  Trainer& ready() {
    if (!trainer) {
      fail(ErrorCode::kFailedPrecondition,
           "the shape of producer '{}' of graph '{}' is not known: declare it, or bind its data "
           "first",
           graph.unresolved().front(), graph.name());
    }
    return *trainer;
  }
};

CycleRuntime::CycleRuntime(HarmonicGraph graph, RuntimeOptions options)
    : state_(std::make_unique<State>()) {
  options.check();
  state_->graph = std::move(graph);
  state_->options = std::move(options);
  if (state_->graph.resolved()) state_->start();
}
CycleRuntime::~CycleRuntime() = default;
CycleRuntime::CycleRuntime(CycleRuntime&&) noexcept = default;
CycleRuntime& CycleRuntime::operator=(CycleRuntime&&) noexcept = default;

void CycleRuntime::bindProducer(const std::string& name, ProducerPtr producer) {
  if (producer == nullptr)
    fail(ErrorCode::kInvalidArgument, "producer '{}' is bound to nothing", name);
  if (state_->trainer) {
    state_->trainer->bind_producer(name, std::move(producer));
    return;
  }
  const auto index = state_->graph.producer_index(name);
  if (index && !state_->graph.producers()[*index].shape) {
    state_->graph = state_->graph.resolved_with({{name, producer->sample_spec()}});
  }
  state_->waiting_producers.emplace_back(name, std::move(producer));
  if (state_->graph.resolved()) state_->start();
}

void CycleRuntime::bindConsumer(const std::string& name, ConsumerPtr consumer) {
  if (consumer == nullptr)
    fail(ErrorCode::kInvalidArgument, "consumer '{}' is bound to nothing", name);
  if (state_->trainer) {
    state_->trainer->bind_consumer(name, std::move(consumer));
  } else {
    state_->waiting_consumers.emplace_back(name, std::move(consumer));
  }
}

StepReport CycleRuntime::step() { return state_->ready().step(); }
FitReport CycleRuntime::fit(std::int64_t epochs, const FitOptions& options) {
  return state_->ready().fit(epochs, options);
}
Evaluation CycleRuntime::evaluate(const NamedProducers& producers) {
  return state_->ready().evaluate(producers);
}
NamedTensors CycleRuntime::infer(const NamedTensors& inputs) {
  state_->ready();
  return state_->row->infer(inputs);
}
void CycleRuntime::save_checkpoint(const std::filesystem::path& path) const {
  state_->ready().save(path);
}
void CycleRuntime::load_checkpoint(const std::filesystem::path& path) {
  state_->ready().load(path);
}
void CycleRuntime::load_weights(const std::filesystem::path& path,
                                const std::map<std::string, std::string>& names) {
  harmonics::load_weights(path, row(), names);
}
void CycleRuntime::close() {
  StageRow& own = row();
  if (own.custody() == nullptr) return;
  own.custody()->close(own.stages(), static_cast<std::uint64_t>(own.state().steps));
}
std::string CycleRuntime::proof() const {
  if (!state_->row || state_->row->custody() == nullptr) return {};
  return state_->row->custody()->proof();
}
const HarmonicGraph& CycleRuntime::graph() const { return state_->graph; }
NamedTensors CycleRuntime::parameters() const {
  state_->ready();
  return state_->row->parameters();
}
std::string CycleRuntime::weights_digest() const { return harmonics::weights_digest(parameters()); }
const TrainingProgress& CycleRuntime::progress() const { return state_->ready().progress(); }
StageRow& CycleRuntime::row() {
  state_->ready();
  return *state_->row;
}

}  // namespace harmonics::inline in_schedule
