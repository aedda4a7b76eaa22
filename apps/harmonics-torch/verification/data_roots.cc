#include "verification/data_roots.h"

#include <algorithm>

#include <harmonics/custody/merkle.h>
#include <harmonics/custody/records.h>
#include <harmonics/data/batch_producer.h>
#include <harmonics/runtime/safetensors.h>
#include <harmonics/schedule/batch_runner.h>
#include <harmonics/schedule/manifest.h>
#include <harmonics/schedule/training_data.h>

#include "resumed_settings.h"

namespace harmonics::inline in_torch_program {
namespace {

std::uint64_t steps_in(const std::vector<Chain>& chains) {
  std::uint64_t steps = 0;
  for (const Chain& chain : chains) {
    for (const ChainRecord& record : chain.records) {
      if (record.kind != RecordKind::kLink) continue;
      steps = std::max(steps, decode_link(record.body).passage.step + 1);
    }
  }
  return steps;
}

bool is_checkpoint(const std::filesystem::path& path) {
  if (path.empty()) return false;
  return is_manifest(path) || read_safetensors_metadata(path).contains("harmonics");
}

TrainSettings settings_of(const VerifyCommand& command, const HarpDocument& document) {
  TrainSettings settings = merge_settings(document, command.graphs.front(), command.settings);
  if (!is_checkpoint(command.weights)) return settings;
  TrainCommand resumed;
  resumed.file = command.graphs.front();
  resumed.settings = command.settings;
  resumed.checkpoint = command.weights;
  resumed.resume = true;
  std::vector<std::string> said;
  static_cast<void>(take_resumed_settings(resumed, document, settings, said));
  return settings;
}

void add_roots(Producer& batches, std::int64_t slices, std::set<Digest>& roots) {
  while (const std::optional<Tensor> batch = batches.next()) {
    const SlicedBatch sliced = slice_batch({{"", *batch}}, batch->shape().at(0), slices, 0);
    for (const NamedTensors& slice : sliced.slices) {
      roots.insert(tensor_root(slice.begin()->second.bytes()));
    }
  }
}

}  // namespace

HarmonicGraph bound_graph(const std::filesystem::path& file, const std::vector<Binding>& data) {
  const HarpDocument document = load_harp_document(file);
  const std::vector<std::string> unresolved = document.graph.unresolved();
  if (unresolved.empty()) return document.graph;
  std::vector<Binding> own;
  for (const Binding& binding : data) {
    if (document.graph.producer_index(binding.name)) own.push_back(binding);
  }
  std::vector<SourceBinding> bindings = merge_bindings(document, file, own);
  std::erase_if(bindings, [&](const SourceBinding& binding) {
    return std::ranges::find(unresolved, binding.name) == unresolved.end();
  });
  const NamedSources sources = open_sources(document.graph, bindings);
  require_sources(document.graph, sources, unresolved);
  return resolve_graph(document.graph, sources);
}

std::map<std::string, std::set<Digest>> data_roots(const VerifyCommand& command,
                                                   const std::vector<Chain>& chains) {
  const std::filesystem::path& file = command.graphs.front();
  const HarpDocument document = load_harp_document(file);
  std::vector<SourceBinding> bindings = merge_bindings(document, file, command.data);
  std::erase_if(bindings, [&](const SourceBinding& binding) {
    return std::ranges::find(command.data, binding.name, &Binding::name) == command.data.end();
  });
  const TrainSettings settings = settings_of(command, document);
  if (settings.micro_batches == kAutoMicroBatches) {
    fail(ErrorCode::kInvalidArgument,
         "micro-batches auto: give the number that the run said, or its checkpoint");
  }
  const NamedSources sources = open_sources(document.graph, bindings);
  const TrainingData data = make_training_data(document.graph, sources, settings);
  const auto seed = static_cast<std::uint64_t>(settings.seed);
  const auto per_epoch =
      static_cast<std::uint64_t>(std::max<std::int64_t>(1, data.batches_per_epoch));
  const std::uint64_t epochs = steps_in(chains) / per_epoch + 1;
  std::map<std::string, std::set<Digest>> roots;
  for (const auto& [name, producer] : data.train) {
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
      producer->begin_epoch({seed, epoch});
      add_roots(*producer, settings.micro_batches, roots[name]);
    }
  }
  for (const auto& [name, producer] : data.test) {
    producer->begin_epoch({seed, 0});
    add_roots(*producer, 1, roots[name]);
  }
  for (const auto& [name, source] : sources) {
    BatchProducer plain(source, settings.batch_size);
    plain.begin_epoch({});
    add_roots(plain, 1, roots[name]);
  }
  return roots;
}

}  // namespace harmonics::inline in_torch_program
