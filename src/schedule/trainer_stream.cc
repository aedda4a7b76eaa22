// The stream of a Trainer: who feeds it, what its parts agree on, and who gets what comes out.
#include <algorithm>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/schedule/trainer.h>

#include "stream_collector.h"

namespace harmonics::inline in_schedule {
namespace {

constexpr std::uint64_t kBatchesPerStreamPart = 2;
// The longest that one part of a row waits for another one's piece of a batch.
constexpr std::chrono::hours kForAPiece{1};

std::size_t share_of(const StreamTerms& terms) {
  if (terms.in_flight == 0) return kBatchesPerStreamPart;
  return std::max<std::size_t>(1, terms.in_flight / terms.parts);
}

}  // namespace

// What each stage reads, in the order of the stages.
std::vector<StreamFeed> Trainer::feeds_of(const NamedProducers& producers) const {
  std::vector<StreamFeed> feeds;
  for (const Stage& stage : row_.stages()) {
    NamedProducers own;
    for (const auto& [name, producer] : producers) {
      if (stage->graph().producer_index(name)) own.emplace(name, producer);
    }
    StreamFeed& feed = feeds.emplace_back();
    if (own.empty()) continue;
    feed = [this, own](std::int64_t passed_over) {
      for (const auto& [name, producer] : own) producer->skip(passed_over);
      return pull(own);
    };
  }
  return feeds;
}

// The parts here that a batch waits for before it counts as out: those with outputs or measured
// taps; where none has any, the last.
std::set<std::size_t> Trainer::giving_parts(bool measure) const {
  std::set<std::size_t> givers;
  const std::vector<Stage>& stages = row_.stages();
  for (std::size_t part = 0; part < stages.size(); ++part) {
    const HarmonicGraph& graph = stages[part]->graph();
    const bool gives = std::ranges::any_of(row_.consumers(), [&](const ConsumerNode& node) {
      return std::ranges::find(graph.consumers(), node.name, &ConsumerNode::name) !=
             graph.consumers().end();
    });
    if (gives || (measure && !graph.taps().empty())) givers.insert(part);
  }
  if (givers.empty()) givers.insert(stages.size() - 1);
  return givers;
}

StreamReport Trainer::stream(const NamedProducers& producers, const NamedConsumers& consumers,
                             const StreamOptions& options) {
  if (options.in_flight > kMaxBatchesInFlight || options.delivered < 0) {
    fail(ErrorCode::kInvalidArgument,
         "a stream has at most {} batches in flight, and none before its first: {} and {} were "
         "asked for",
         kMaxBatchesInFlight, options.in_flight, options.delivered);
  }
  check_bindings(producers, options.measure);
  for (const auto& [name, producer] : producers) static_cast<void>(declared(name));
  for (const auto& [name, consumer] : consumers) check_consumer(name);
  StreamTerms terms{row_.consumers().empty() ? kNoConsumers : options.delivered, options.in_flight,
                    row_.stages().size()};
  terms = row_.agreement().agree(terms, steps());
  if (terms.delivered == kNoConsumers) terms.delivered = options.delivered;
  for (const auto& [name, producer] : producers) {
    producer->begin_epoch({seed_, 0});
    producer->skip(terms.delivered);
  }
  StreamReport report;
  const std::size_t room = (share_of(terms) + 1) * terms.parts;
  StreamCollector collector({row_.runner().streams_whole() ? std::set{row_.stages().size() - 1}
                                                           : giving_parts(options.measure),
                             terms.delivered, room, kForAPiece,
                             [&](std::int64_t from) { return row_.runner().own_batch(from); }},
                            [&](StreamedBatch batch) {
                              if (batch.number < options.delivered) return;
                              NamedTensors outputs;
                              for (const ConsumerNode& node : row_.consumers()) {
                                outputs.insert(batch.outputs.extract(node.name));
                              }
                              batch.outputs = std::move(outputs);
                              for (const auto& [name, consumer] : consumers)
                                consumer->push(batch.outputs.at(name));
                              ++report.batches;
                              report.rows += batch.rows;
                              report.taps += batch.taps;
                              if (options.on_batch) options.on_batch(batch);
                            });
  StreamWork work{feeds_of(producers), terms.delivered, share_of(terms),
                  options.measure,     options.stop,    &collector};
  work.probe_carriers = options.probe_carriers;
  StreamOutcome outcome = row_.runner().stream(row_.stages(), work);
  report.parts = std::move(outcome.parts);
  report.interrupted = outcome.interrupted;
  if (report.interrupted) return report;
  for (const auto& [name, consumer] : consumers) consumer->finish();
  return report;
}

}  // namespace harmonics::inline in_schedule
