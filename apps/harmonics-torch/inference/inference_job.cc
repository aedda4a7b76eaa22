#include "inference_job.h"

#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/listed.h>
#include <harmonics/data/batch_producer.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/partition.h>
#include <harmonics/options/graph_argument.h>
#include <harmonics/place/load_deployment.h>
#include <harmonics/place/plan_partition.h>
#include <harmonics/proven/proofs.h>
#include <harmonics/schedule/training_data.h>

#include "boundary_packing.h"
#include "deployed_parts.h"
#include "run_int8.h"
#include "training_job.h"

namespace harmonics::inline in_torch_program {
namespace {

// Producers that layers use must be bound; targets of taps only all together, to be measured.
std::vector<std::string> needed_producers(const HarmonicGraph& graph, bool measured) {
  std::vector<std::string> needed;
  for (const ProducerNode& node : graph.producers()) {
    if (is_boundary_name(node.name)) continue;
    const bool feeds = std::ranges::any_of(graph.layers(), [&](const LayerNode& layer) {
      return std::ranges::find(layer.inputs, node.name) != layer.inputs.end();
    });
    const bool leaves = std::ranges::any_of(
        graph.consumers(), [&](const ConsumerNode& sink) { return sink.input == node.name; });
    if (feeds || leaves || measured || !node.shape) needed.push_back(node.name);
  }
  return needed;
}

// Targets that come from another part are named for the one that they enter.
bool has_all_targets(const HarmonicGraph& graph, const HarmonicGraph& part,
                     const std::vector<SourceBinding>& bindings) {
  return !part.taps().empty() && std::ranges::all_of(part.taps(), [&](const TrainingTap& tap) {
    const std::string target = tap.target.substr(0, tap.target.find('@'));
    return graph.layer_index(target).has_value() ||
           std::ranges::find(bindings, target, &SourceBinding::name) != bindings.end();
  });
}

// Sources of one length, viewed as their producers are declared.
NamedProducers stream_batches(const HarmonicGraph& graph, const NamedSources& sources,
                              std::int64_t batch_size) {
  NamedProducers producers;
  for (const auto& [name, source] : sources) {
    const auto& [first, first_source] = *sources.begin();
    const TensorSpec data = source->sample_spec();
    const ProducerNode& node = graph.producers()[graph.producer_index(name).value()];
    if (!sample_view(node, data.shape) || is_floating(data.dtype) != is_floating(node.dtype)) {
      fail(ErrorCode::kInvalidArgument,
           "producer '{}' is declared as {} {}, its data has samples of {}", name,
           dtype_name(node.dtype), graph.shape_text_of(name), spec_text(data));
    }
    if (source->row_count() != first_source->row_count()) {
      fail(ErrorCode::kInvalidArgument, "the data of '{}' has {} rows, that of '{}' has {}", first,
           first_source->row_count(), name, source->row_count());
    }
    producers[name] =
        std::make_shared<BatchProducer>(source, batch_size, batch_length(graph, name));
  }
  return producers;
}

bool is_given(const RunCommand& command, std::string_view key) {
  return std::ranges::any_of(command.settings,
                             [&](const Setting& setting) { return setting.key == key; });
}

InferenceJob start_inference(const RunCommand& command, const HarpDocument& document) {
  InferenceJob job{command, merge_settings(document, command.file, command.settings),
                   document.graph.with_fixed_axes(command.axes)};
  job.command.weights = merge_weights(document, command.file, command.weights);
  if (command.plan.empty()) return job;
  const std::string name = command.plan.string();
  job.plan = parse_plan_file(read_text_file(command.plan, kMaxPlannerFileBytes), name);
  if (job.command.in_flight == 0) {
    job.command.in_flight = static_cast<std::int64_t>(job.plan.in_flight);
  }
  const std::string& model = job.plan.model;
  if (!model.empty() && model != job.graph.name() && model != published_name(job.graph.name())) {
    fail(ErrorCode::kFailedPrecondition,
         "'{}' is a plan for model '{}', '{}' holds '{}': plan this model with 'harmonics plan'",
         name, model, command.file.string(), job.graph.name());
  }
  const std::int64_t planned = job.plan.batch_size;
  if (planned > 0 && !is_given(command, "batch_size")) job.settings.batch_size = planned;
  if (planned > 0 && planned != job.settings.batch_size) {
    fail(ErrorCode::kFailedPrecondition,
         "'{}' is a plan for batches of {}, --batch-size says {}: leave it out, or plan again with "
         "'harmonics plan --batch-size {}'",
         name, planned, job.settings.batch_size, job.settings.batch_size);
  }
  return job;
}

// What copies of a part, which take turns at batches, cannot do.
void refuse_copies(const InferenceJob& job, const char* what) {
  const std::vector<PlanStage>& stages = job.plan.plan.stages;
  for (std::size_t part = 0; part < stages.size(); ++part) {
    if (stages[part].hosts.size() < 2) continue;
    fail(ErrorCode::kUnimplemented,
         "{} does not work with stages that several hosts take turns at, and '{}' gives part {} to "
         "{}: give each stage one host",
         what, job.command.plan.string(), part, listed(stages[part].hosts));
  }
}

// A graph that learns nothing computes without weights. Its shapes must be known.
void check_weights(const InferenceJob& job) {
  if (!job.command.weights.empty()) return;
  for (std::size_t i = 0; i < job.graph.layers().size(); ++i) {
    if (job.graph.layer_shape(i).parameters.empty()) continue;
    fail(ErrorCode::kInvalidArgument,
         "'{}' names no weights: give --weights FILE, or write 'weights {{ file = \"…\"; }}' into "
         "it",
         job.command.file.string());
  }
}

void cut(InferenceJob& job) {
  check_weights(job);
  if (!job.command.plan.empty()) {
    try {
      job.parts = partition_graph(job.graph, job.plan.plan);
    } catch (const Error& error) {
      fail(error.code(), "'{}': {}", job.command.plan.string(), std::string_view(error.what()));
    }
  } else if (!job.command.deploy.empty()) {
    Deployment deployment = load_deployment(job.command.deploy);
    deployment.limits.micro_batch = job.settings.batch_size;
    job.parts = deployed_parts(job.graph, deployment);
    job.deploy = deployment.descriptor;
    SecureMode& mode = job.command.secure.mode;
    if (mode == SecureMode::kNone && job.deploy.secure && job.deploy.proofs) {
      mode = SecureMode::kNetwork;
    }
  } else if (job.command.secure.mode == SecureMode::kZk) {
    const Int8Network network = open_int8_network(job.command.weights, job.graph);
    job.parts = cut_graph(job.graph, layer_cuts(network, job.graph, job.settings.parts));
  } else {
    job.parts = partition_graph(job.graph, static_cast<std::size_t>(job.settings.parts));
  }
  if (proves(job.command.secure.mode)) {
    job.proofs = int8_proofs(
        open_int8_network(job.command.weights, job.graph),
        job.command.secure.mode == SecureMode::kZk ? ProofKind::kLayers : ProofKind::kParts);
  }
  job.settings.parts = static_cast<std::int64_t>(job.parts.size());
  job.packing = packing_of(job.command.bits, job.parts, job.plan.boundary_bits);
}

NamedSources open_named(const HarmonicGraph& graph, const std::vector<SourceBinding>& bindings,
                        const std::vector<std::string>& names) {
  std::vector<SourceBinding> wanted;
  for (const SourceBinding& binding : bindings) {
    if (std::ranges::find(names, binding.name) != names.end()) wanted.push_back(binding);
  }
  const NamedSources sources = open_sources(graph, wanted);
  require_sources(graph, sources, names);
  return sources;
}

// The command of a stage in terms of `harmonics run`.
RunCommand run_command_of(const StageCommand& stage) {
  RunCommand command;
  command.file = stage.training.file;
  command.weights = stage.training.weights;
  command.bindings = stage.training.bindings;
  command.outputs = stage.outputs;
  command.axes = stage.training.axes;
  command.settings = stage.training.settings;
  command.plan = stage.training.plan;
  command.bits = stage.training.bits;
  command.in_flight = stage.in_flight;
  command.secure = stage.training.secure;
  command.output = stage.training.output;
  return command;
}

}  // namespace

std::optional<double> InferenceJob::planned_s(std::size_t part) const {
  if (part >= plan.periods_s.size()) return std::nullopt;
  return plan.periods_s[part];
}

void InferenceJob::add_plan(std::size_t part, StageFlow& flow) const {
  flow.planned_s = planned_s(part);
  if (part < plan.costs.size()) flow.plan = {plan.plan.stages[part], plan.costs[part]};
}

StageFlow InferenceJob::staged(std::size_t part, PartFlow flow) const {
  StageFlow stage{.flow = std::move(flow),
                  .number = static_cast<std::int64_t>(part),
                  .threads = settings.threads,
                  .machine = own_machine(),
                  .cores = own_cores()};
  add_plan(part, stage);
  return stage;
}

std::int64_t InferenceJob::rows() const {
  return producers.empty() ? 0 : producers.begin()->second->sample_count().value_or(0);
}

InferenceJob prepare_inference(const RunCommand& command) {
  const HarpDocument document = open_graph_document(command.file);
  InferenceJob job = start_inference(command, document);
  if (command.processes && command.secure.mode != SecureMode::kNone) {
    refuse_copies(job, "--processes --secure");
  }
  const auto bindings = merge_bindings(document, command.file, command.bindings);
  const NamedSources sources = open_sources(job.graph, bindings);
  job.measured = has_all_targets(job.graph, job.graph, bindings);
  require_sources(job.graph, sources, needed_producers(job.graph, job.measured));
  job.graph = resolve_graph(job.graph, sources);
  if (sources.empty()) {
    fail(ErrorCode::kFailedPrecondition, "graph '{}' takes no data: there are no rows to run over",
         job.graph.name());
  }
  job.producers =
      stream_batches(job.graph, with_checked_labels(job.graph, sources), job.settings.batch_size);
  cut(job);
  return job;
}

std::vector<std::string> requested_inputs(const HarmonicGraph& graph) {
  return needed_producers(graph, false);
}

InferenceJob prepare_service(const RunCommand& command) {
  const HarpDocument document = open_graph_document(command.file);
  InferenceJob job = start_inference(command, document);
  if (command.processes) refuse_copies(job, "--listen --processes");
  const auto bindings = merge_bindings(document, command.file, command.bindings);
  const std::vector<std::string> unresolved = job.graph.unresolved();
  if (!unresolved.empty()) {
    job.graph = resolve_graph(job.graph, open_named(job.graph, bindings, unresolved));
  }
  cut(job);
  return job;
}

InferenceJob prepare_part_inference(const StageCommand& stage) {
  const RunCommand command = run_command_of(stage);
  const HarpDocument document = open_graph_document(command.file);
  InferenceJob job = start_inference(command, document);
  if (stage.requests) refuse_copies(job, "--requests");
  const auto bindings = merge_bindings(document, command.file, command.bindings);
  const std::vector<std::string> unresolved = job.graph.unresolved();
  if (!unresolved.empty()) {
    job.graph = resolve_graph(job.graph, open_named(job.graph, bindings, unresolved));
  }
  cut(job);
  if (stage.part >= job.settings.parts) {
    fail(ErrorCode::kInvalidArgument, "--part {}: with {} parts they are 0 to {}", stage.part,
         job.settings.parts, job.settings.parts - 1);
  }
  if (stage.requests) return job;
  const HarmonicGraph& part = job.parts[static_cast<std::size_t>(stage.part)];
  job.measured = has_all_targets(job.graph, part, bindings);
  const NamedSources sources =
      open_named(job.graph, bindings, needed_producers(part, job.measured));
  job.producers =
      stream_batches(job.graph, with_checked_labels(job.graph, sources), job.settings.batch_size);
  return job;
}

RuntimeOptions inference_options(const InferenceJob& job) {
  RuntimeOptions options;
  options.maps_weights = true;  // nothing trains
  options.threads = static_cast<int>(job.settings.threads);
  options.backend = backend_from_name(job.settings.backend);
  options.reproducible = job.settings.reproducible;
  options.secure = secure_options(job.command.secure);
  options.secure.proofs = job.proofs;
  return options;
}

}  // namespace harmonics::inline in_torch_program
