#include <harmonics/schedule/cycle_runtime.h>

#include <optional>
#include <utility>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/schedule/secure_run.h>

#include "secure/secure_runner.h"

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
    if (options.secure.is_on()) secure();
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
};

CycleRuntime::CycleRuntime(HarmonicGraph graph, RuntimeOptions options)
    : state_("runtime", std::make_unique<State>()) {
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

std::string CycleRuntime::proof() const {
  if (!state_->row || state_->row->custody() == nullptr) return {};
  return state_->row->custody()->proof();
}

const HarmonicGraph& CycleRuntime::graph() const { return state_->graph; }

Trainer& CycleRuntime::trainer() const {
  if (!state_->trainer) {
    fail(
        ErrorCode::kFailedPrecondition,
        "the shape of producer '{}' of graph '{}' is not known: declare it, or bind its data first",
        state_->graph.unresolved().front(), state_->graph.name());
  }
  return *state_->trainer;
}

}  // namespace harmonics::inline in_schedule
