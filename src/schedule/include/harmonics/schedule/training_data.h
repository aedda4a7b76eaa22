// From bindings in text to producers: sources opened, the graph's open shapes filled in, the split
// made.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/data/batch_producer.h>
#include <harmonics/data/producer.h>
#include <harmonics/graph/graph.h>
#include <harmonics/schedule/trainer.h>
#include <harmonics/settings/train_settings.h>

namespace harmonics::inline in_schedule {

using NamedSources = std::map<std::string, IndexedProducerPtr, std::less<>>;

/// Opens every binding. One that does not name a dtype is read in the dtype that its producer
/// declares. An Error says which binding it comes from.
[[nodiscard]] NamedSources open_sources(const HarmonicGraph& graph,
                                        std::span<const SourceBinding> bindings);

/// The graph with the shapes that follow from the sources.
[[nodiscard]] HarmonicGraph resolve_graph(const HarmonicGraph& graph, const NamedSources& sources);

/// The sources, with those of whole numbers that a graph looks up checked as they are read: a label
/// of cross_entropy or next_token that is no class, or an id that is no row of an embedding, is an
/// Error that names its place in the data. The graph must be resolved.
[[nodiscard]] NamedSources with_checked_labels(const HarmonicGraph& graph, NamedSources sources);

/// Throws an Error that says what to do unless every one of these producers has a source.
void require_sources(const HarmonicGraph& graph, const NamedSources& sources,
                     std::span<const std::string> producers);

/// Two bindings of all producers; `test` is empty when nothing is held back.
struct TrainingData {
  NamedProducers train;
  NamedProducers test;
  std::int64_t batches_per_epoch = 0;
};

/// Splits every source alike (seed 0, whatever the run's seed is); the train part is shuffled where
/// the settings say so, and both come in batches, each of the length that batch_length says.
[[nodiscard]] TrainingData make_training_data(const HarmonicGraph& graph,
                                              const NamedSources& sources,
                                              const TrainSettings& settings);

/// Batches are as long as their longest sample where the producer's first extent follows a named
/// axis.
[[nodiscard]] BatchLength batch_length(const HarmonicGraph& graph, std::string_view producer);

}  // namespace harmonics::inline in_schedule
