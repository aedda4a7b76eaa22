// Batches of several lengths through every scheduler: the bits of one process.
#include <gtest/gtest.h>

#include <harmonics/graph/harp.h>
#include <harmonics/schedule/distributed_scheduler.h>

#include "remote/remote_testing.h"

namespace harmonics::inline in_schedule {
namespace {

constexpr std::int64_t kLengths[] = {9, 3, 12, 1, 7};
constexpr std::int64_t kCount = std::size(kLengths);
constexpr std::int64_t kEpochs = 2;

HarmonicGraph tagger() {
  return parse_harp(R"(
    axis T <= 12;
    producer ids {T} int64;
    producer tags {T+1} int64;
    layer embed embedding(rows=20, width=8);
    layer start class_token;
    layer mix attention(heads=2, causal=true);
    layer skip add;
    layer drop dropout(0.1);
    layer norm layer_norm;
    layer head linear(5);
    cycle {
      ids -> embed -> start -> mix;
      mix, start -> skip -> drop -> norm -> head;
      head <-(cross_entropy)- tags;
    })");
}

/// Batches of six rows; the length of each is another one, and another again in the next epoch.
class Lengths final : public Producer {
 public:
  explicit Lengths(const ProducerNode& node) : node_(node) {}

  [[nodiscard]] TensorSpec sample_spec() const override { return {*node_.shape, node_.dtype}; }
  [[nodiscard]] bool batched() const override { return true; }
  [[nodiscard]] std::optional<std::int64_t> size() const override { return kCount; }
  [[nodiscard]] std::optional<std::int64_t> sample_count() const override { return 6 * kCount; }
  void begin_epoch(const SampleOrder& order) override { position_ = {order, 0}; }
  [[nodiscard]] std::optional<Tensor> next() override {
    if (position_.delivered == kCount) return std::nullopt;
    const auto number = static_cast<std::uint64_t>(position_.delivered++) + position_.order.epoch;
    const std::int64_t length = node_.extents[0].at(kLengths[number % kCount]);
    Tensor batch = Tensor::empty({6, length}, DType::kInt64);
    Random random(number, node_.name);
    for (auto& value : batch.mutable_values<std::int64_t>()) value = random.below(5);
    return batch;
  }
  [[nodiscard]] ProducerPosition position() const override { return position_; }

 private:
  const ProducerNode node_;
  ProducerPosition position_;
};

template <typename Scheduler>
void bind_lengths(Scheduler& scheduler, const HarmonicGraph& graph) {
  for (const ProducerNode& node : graph.producers()) {
    scheduler.bindProducer(node.name, std::make_shared<Lengths>(node));
  }
}

std::string alone() {
  CycleRuntime runtime(tagger(), test_runtime());
  bind_lengths(runtime, tagger());
  runtime.fit(kEpochs);
  return weights_digest(runtime.parameters());
}

TEST(ScheduleAxes, PartsOnThreadsLearnWhatOneProcessLearns) {
  const std::string expected = alone();
  for (const std::size_t count : {2, 3}) {
    const std::vector<HarmonicGraph> parts = partition_graph(tagger(), count);
    DistributedScheduler scheduler(parts, {}, test_runtime());
    bind_lengths(scheduler, tagger());
    scheduler.fit(kEpochs);
    EXPECT_EQ(weights_digest(scheduler.parameters()), expected) << count << " parts";
  }
}

TEST(ScheduleAxes, PartsOverTcpLearnWhatOneProcessLearns) {
  const std::string expected = alone();
  for (const std::size_t count : {2, 3}) {
    RemoteBinding place;
    place.host = "127.0.0.1";
    place.port = reserved_port();
    place.transport = RemoteTransport::TCP;
    const std::vector<HarmonicGraph> parts = partition_graph(tagger(), count);
    std::vector<NamedTensors> weights(count);
    std::vector<std::function<void()>> actions;
    for (std::size_t i = 0; i < count; ++i) {
      actions.push_back([&, i] {
        RemoteScheduler scheduler =
            make_part(parts[i], place, test_remote(), {},
                      [](const ProducerNode& node) { return std::make_shared<Lengths>(node); });
        scheduler.fit(kEpochs);
        weights[i] = scheduler.parameters();
      });
    }
    EXPECT_EQ(at_the_same_time(actions), std::vector<std::string>(count));
    NamedTensors all;
    for (NamedTensors& part : weights) all.merge(part);
    EXPECT_EQ(weights_digest(all), expected) << count << " parts";
  }
}

}  // namespace
}  // namespace harmonics::inline in_schedule
