#include <harmonics/schedule/training_data.h>

#include <memory>

#include <harmonics/base/error.h>
#include <harmonics/data/batch_producer.h>
#include <harmonics/data/cache_producer.h>
#include <harmonics/data/label_producer.h>
#include <harmonics/data/open_producer.h>
#include <harmonics/data/prefetch_producer.h>
#include <harmonics/data/shuffle_producer.h>
#include <harmonics/data/slice_producer.h>
#include <harmonics/settings/source_text.h>

namespace harmonics::inline in_schedule {
namespace {

// `spec` with dtype=… added, unless it has one.
std::string with_dtype(const std::string& spec, DType dtype) {
  return has_setting(spec, "dtype") ? spec : with_setting(spec, "dtype", dtype_name(dtype));
}

// Batches of `source`: served from memory where it fits, else read ahead by another thread.
ProducerPtr batches_of(const IndexedProducerPtr& source, const TrainSettings& settings,
                       BatchLength length, bool shuffled) {
  const auto cached = std::make_shared<CacheProducer>(source);
  ProducerPtr samples = cached;
  if (shuffled) samples = std::make_shared<ShuffleProducer>(std::move(samples));
  ProducerPtr batches =
      std::make_shared<BatchProducer>(std::move(samples), settings.batch_size, length);
  if (cached->caches()) return batches;
  return std::make_shared<PrefetchProducer>(std::move(batches));
}

}  // namespace

NamedSources open_sources(const HarmonicGraph& graph, std::span<const SourceBinding> bindings) {
  NamedSources sources;
  for (const SourceBinding& binding : bindings) {
    const ProducerNode& node = graph.producers()[graph.producer_index(binding.name).value()];
    try {
      sources[binding.name] = open_producer(with_dtype(binding.spec, node.dtype), binding.folder);
    } catch (const Error& error) {
      fail(error.code(), "{}: {}", binding.where, std::string_view(error.what()));
    }
  }
  return sources;
}

HarmonicGraph resolve_graph(const HarmonicGraph& graph, const NamedSources& sources) {
  std::map<std::string, TensorSpec> specs;
  for (const std::string& name : graph.unresolved()) {
    specs[name] = sources.find(name)->second->sample_spec();
  }
  return specs.empty() ? graph : graph.resolved_with(specs);
}

NamedSources with_checked_labels(const HarmonicGraph& graph, NamedSources sources) {
  const auto check = [&](const std::string& producer, std::int64_t count, const std::string& judge,
                         LabelKind kind) {
    const auto source = sources.find(producer);
    if (source == sources.end() || is_floating(source->second->sample_spec().dtype)) return;
    source->second = std::make_shared<LabelProducer>(source->second, count, judge, kind);
  };
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    const LayerNode& layer = graph.layers()[i];
    if (layer.type != "embedding") continue;
    check(layer.inputs.front(), std::get<std::int64_t>(graph.full_attributes(i).at("rows")),
          layer.name, LabelKind::kRows);
  }
  for (const TrainingTap& tap : graph.taps()) {
    const bool tokens = tap.loss == "next_token";
    const Shape& prediction = graph.spec(tap.prediction).shape;
    // Targets of cross_entropy may be probabilities: floating-point ones are not looked at.
    if ((tap.loss != "cross_entropy" && !tokens) || prediction.empty()) continue;
    check(tap.target, prediction.back(), tap.prediction,
          tokens ? LabelKind::kTokens : LabelKind::kClasses);
  }
  return sources;
}

void require_sources(const HarmonicGraph& graph, const NamedSources& sources,
                     std::span<const std::string> producers) {
  for (const std::string& name : producers) {
    if (sources.contains(name)) continue;
    fail(ErrorCode::kFailedPrecondition,
         "producer '{}' of graph '{}' has no data: add --bind {}=csv:PATH, or a line {} = "
         "\"csv:PATH\"; to the data section of the file",
         name, graph.name(), name, name);
  }
}

BatchLength batch_length(const HarmonicGraph& graph, std::string_view producer) {
  const NamedExtents& extents = graph.producers()[graph.producer_index(producer).value()].extents;
  return !extents.empty() && extents.front().position == 0 ? BatchLength::kLongest
                                                           : BatchLength::kWhole;
}

TrainingData make_training_data(const HarmonicGraph& graph, const NamedSources& sources,
                                const TrainSettings& settings) {
  TrainingData data;
  for (const auto& [name, source] : sources) {
    const BatchLength length = batch_length(graph, name);
    if (settings.test_split > 0) {
      const Split split = train_test_split(source, settings.test_split);
      data.train[name] = batches_of(split.train, settings, length, settings.shuffle);
      data.test[name] = batches_of(split.test, settings, length, false);
    } else {
      data.train[name] = batches_of(source, settings, length, settings.shuffle);
    }
    data.batches_per_epoch = data.train[name]->size().value_or(0);
  }
  return data;
}

}  // namespace harmonics::inline in_schedule
