#include <harmonics/schedule/remote_scheduler.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

#include "part_options.h"
#include "remote_runner.h"

namespace harmonics {

struct RemoteScheduler::State {
  State(HarmonicGraph part, const DeploymentDescriptor& deploy, const RemoteOptions& given)
      : graph(std::move(part)),
        options(given),
        part_runtime(part_options(1, deploy, given.runtime).front()),
        peers(std::make_unique<Peers>(given.transport)) {}

  /// Binds a name once, whatever it is bound to.
  template <typename Nodes>
  void claim(std::set<std::string>& bound, std::string_view kind, const Nodes& nodes,
             const std::string& name) {
    if (std::ranges::find(nodes, name, &Nodes::value_type::name) == nodes.end()) {
      fail(ErrorCode::kNotFound, "part '{}' has no {} '{}'; it has: {}", graph.name(), kind, name,
           listed(nodes, &Nodes::value_type::name));
    }
    if (!bound.insert(name).second) {
      fail(ErrorCode::kAlreadyExists, "{} '{}' of part '{}' is bound already; bound are: {}", kind,
           name, graph.name(), listed(bound, std::identity()));
    }
  }
  void claim_producer(const std::string& name) {
    claim(bound_producers, "producer", graph.producers(), name);
  }
  void claim_consumer(const std::string& name) {
    claim(bound_consumers, "consumer", graph.consumers(), name);
  }

  void check_not_started(const std::string& name) const {
    if (!chain) return;
    fail(ErrorCode::kFailedPrecondition,
         "boundary '{}' comes too late: bind all boundaries of part '{}' before its first step",
         name, graph.name());
  }

  PartRecord record() const {
    PartRecord own;
    own.name = graph.name();
    for (const ProducerNode& node : graph.producers()) {
      if (open.entering.contains(node.name))
        own.entering.push_back({node.name, node.gradient_slots});
    }
    for (const ConsumerNode& node : graph.consumers()) {
      if (open.leaving.contains(node.name)) own.leaving.push_back({node.name, node.gradient_slots});
    }
    own.learns = chain->learns();
    own.seed = part_runtime.seed;
    own.micro_batches = part_runtime.micro_batches;
    own.clip_norm = part_runtime.clip_norm;
    own.precision = precision_name(chain->stages().front().precision());
    own.order = pipeline_order_name(options.pipeline.order);
    return own;
  }

  void build_chain() {
    chain.emplace(std::vector{graph}, std::vector{part_runtime}, open);
    auto made = std::make_unique<RemoteRunner>(std::move(*peers), record(), options);
    runner = made.get();
    chain->set_runner(std::move(made));
  }

  /// Builds what is missing, once all boundaries are bound. Data that does not fit is an Error
  /// every time.
  Trainer& ready() {
    if (trainer) return *trainer;
    if (!chain) build_chain();
    Trainer made(*chain, part_runtime.seed);
    for (auto& [name, producer] : producers) made.bind_producer(name, producer);
    for (auto& [name, consumer] : consumers) made.bind_consumer(name, consumer);
    return trainer.emplace(std::move(made));
  }

  /// Runs `action`; once the others were called, its Error ends the run for all.
  template <typename Action>
  auto guarded(Action&& action) {
    ready();
    try {
      return action();
    } catch (const std::exception& error) {
      if (runner->has_begun()) runner->abandon(error.what());
      throw;
    }
  }

  HarmonicGraph graph;
  RemoteOptions options;
  RuntimeOptions part_runtime;
  std::unique_ptr<Peers> peers;
  OpenBoundaries open;
  std::set<std::string> bound_producers;
  std::set<std::string> bound_consumers;
  NamedProducers producers;
  std::map<std::string, ConsumerPtr, std::less<>> consumers;
  std::optional<StageChain> chain;
  std::optional<Trainer> trainer;
  RemoteRunner* runner = nullptr;  // owned by the chain
};

RemoteScheduler::RemoteScheduler(HarmonicGraph part, const std::vector<RemoteBinding>& producers,
                                 const std::vector<RemoteBinding>& consumers,
                                 const DeploymentDescriptor& deploy, const RemoteOptions& options)
    : state_(std::make_unique<State>(std::move(part), deploy, options)) {
  for (const RemoteBinding& binding : producers) bindProducer(binding);
  for (const RemoteBinding& binding : consumers) bindConsumer(binding);
}
RemoteScheduler::~RemoteScheduler() = default;
RemoteScheduler::RemoteScheduler(RemoteScheduler&&) noexcept = default;
RemoteScheduler& RemoteScheduler::operator=(RemoteScheduler&&) noexcept = default;

void RemoteScheduler::bindProducer(const std::string& name, ProducerPtr producer) {
  if (producer == nullptr)
    fail(ErrorCode::kInvalidArgument, "producer '{}' is bound to nothing", name);
  state_->claim_producer(name);
  if (state_->trainer) {
    state_->trainer->bind_producer(name, std::move(producer));
  } else {
    state_->producers.emplace(name, std::move(producer));
  }
}

void RemoteScheduler::bindConsumer(const std::string& name, ConsumerPtr consumer) {
  if (consumer == nullptr)
    fail(ErrorCode::kInvalidArgument, "consumer '{}' is bound to nothing", name);
  state_->claim_consumer(name);
  if (state_->trainer) {
    state_->trainer->bind_consumer(name, std::move(consumer));
  } else {
    state_->consumers.emplace(name, std::move(consumer));
  }
}

void RemoteScheduler::bindProducer(const RemoteBinding& binding) {
  state_->check_not_started(binding.name);
  state_->claim_producer(binding.name);
  state_->peers->bind_entering(binding);
  state_->open.entering.insert(binding.name);
}

void RemoteScheduler::bindConsumer(const RemoteBinding& binding) {
  state_->check_not_started(binding.name);
  state_->claim_consumer(binding.name);
  state_->peers->bind_leaving(binding);
  state_->open.leaving.insert(binding.name);
}

StepReport RemoteScheduler::step() {
  return state_->guarded([&] { return state_->trainer->step(); });
}

FitReport RemoteScheduler::fit(std::int64_t epochs, const FitOptions& options) {
  if (!options.evaluation.empty()) {
    fail(ErrorCode::kUnimplemented,
         "part '{}' cannot evaluate between epochs, since the other parts would have to take part: "
         "save the weights and evaluate them in one process",
         graph().name());
  }
  return state_->guarded([&] { return state_->trainer->fit(epochs, options); });
}

void RemoteScheduler::save_checkpoint(const std::filesystem::path& path) const {
  state_->ready().save(path);
}
void RemoteScheduler::load_checkpoint(const std::filesystem::path& path) {
  state_->ready().load(path);
}
void RemoteScheduler::load_weights(const std::filesystem::path& path,
                                   const std::map<std::string, std::string>& names) {
  state_->ready();
  harmonics::load_weights(path, *state_->chain, names);
}
const HarmonicGraph& RemoteScheduler::graph() const { return state_->graph; }
NamedTensors RemoteScheduler::parameters() const {
  state_->ready();
  return state_->chain->parameters();
}
const TrainingProgress& RemoteScheduler::progress() const { return state_->ready().progress(); }

}  // namespace harmonics
