// Training through parts with several copies: the weights of one process with as many
// micro-batches, bit for bit.
#include <gtest/gtest.h>

#include <error_testing.h>
#include <temporary_folder_testing.h>

#include "copies_testing.h"

namespace harmonics::inline in_schedule {
namespace {

/// No running statistics; dropout, a skip, and a tap in the last part.
HarmonicGraph learner() {
  return parse_harp(R"(
    producer image {20};
    producer label {1} int64;
    consumer out;
    layer a linear(24);
    layer drop dropout(0.2);
    layer b linear(24);
    layer norm layer_norm;
    layer s add;
    layer d linear(5);
    cycle {
      image -(relu)-> a -> drop -(relu)-> b -> norm;
      drop, norm -> s -> d -> out;
      d <-(cross_entropy)- label;
    })");
}

TEST(CopiesLearn, WhatOneProcessLearns) {
  const HarmonicGraph graph = learner();
  const std::string expected = weights_digest(train_alone(graph, 2));
  // Also more copies than there are micro-batches: some have nothing to do.
  const std::vector<Weights> shapes = {
      {{1, 1}, {1}},         {{1}, {1, 1}},         {{2, 1}, {1}, {1}},       {{1}, {1, 2}, {1}},
      {{1, 1}, {1, 1}, {1}}, {{1}, {1, 1}, {3, 1}}, {{1}, {1, 1, 1, 1, 1, 1}}};
  for (const Weights& weights : shapes) {
    for (const PipelineOrder order :
         {PipelineOrder::OneForwardOneBackward, PipelineOrder::GPipe, PipelineOrder::Sequential}) {
      Lesson lesson;
      lesson.order = order;
      const Trial trial{partition_graph(graph, weights.size()), weights};
      EXPECT_EQ(digest_of(learn_copies(trial, somewhere(RemoteTransport::SharedMemory), lesson)),
                expected)
          << weights.size() << " parts, " << pipeline_order_name(order);
    }
  }
}

TEST(CopiesLearn, EvaluatesSavesAndGoesOn) {
  const HarmonicGraph graph = learner();
  const TemporaryFolder folder;
  const Trial trial{partition_graph(graph, 3), {{1}, {2, 1}, {1, 1}}};
  Lesson lesson;
  lesson.epochs = 1;
  lesson.options.checkpoint = folder / "run";
  lesson.options.evaluation = data_of(graph, plain_data);
  const std::string once = digest_of(learn_copies(trial, somewhere(RemoteTransport::TCP), lesson));
  EXPECT_EQ(once, weights_digest(train_alone(graph, 1)));
  // One process reads it; other copies go on from it.
  CycleRuntime whole(graph, test_runtime());
  whole.load_checkpoint(folder / "run");
  EXPECT_EQ(whole.weights_digest(), once);
  lesson.resumes = true;
  const Trial other{partition_graph(graph, 3), {{1, 1}, {1}, {1, 3}}};
  EXPECT_EQ(digest_of(learn_copies(other, somewhere(RemoteTransport::TCP), lesson)),
            weights_digest(train_alone(graph, 2)));
}

TEST(CopiesLearn, ALossThatIsNotFiniteStopsAll) {
  const HarmonicGraph graph = learner();
  const std::vector<HarmonicGraph> parts = partition_graph(graph, 2);
  const Weights weights = {{1, 1}, {1}};
  const RemoteBinding place = somewhere(RemoteTransport::SharedMemory);
  std::vector<std::function<void()>> actions;
  for (const auto& [part, copy] : std::vector<std::pair<int, int>>{{0, 0}, {0, 1}, {1, 0}}) {
    actions.push_back([&, part, copy] {
      PartCopies copies = copies_of(parts, weights, part, copy);
      copies.learns = true;
      RemoteOptions options = test_remote();
      options.runtime.optimizer = {OptimizerKind::kSgd, 1e30};
      options.runtime.clip_norm = 0;
      RemoteScheduler scheduler = make_copy(parts[part], copies, place, options);
      for (const auto& [name, data] : data_of(parts[part], plain_data)) {
        scheduler.bindProducer(name, data);
      }
      scheduler.fit(3);
    });
  }
  const std::vector<std::string> errors = at_the_same_time(actions);
  EXPECT_EQ(std::ranges::count(errors, ""), 0);
  EXPECT_NE(errors[2].find("not finite"), std::string::npos) << errors[2];
}

TEST(CopiesLearn, WhatCannotBeIsRefused) {
  const HarmonicGraph graph = parse_harp(R"(
    producer image {8}; producer label {1} int64; consumer out;
    layer a linear(8); layer n batch_norm; layer d linear(4);
    cycle { image -> a -> n -> d -> out; d <-(cross_entropy)- label; })");
  const std::vector<HarmonicGraph> parts = cut_graph(graph, std::vector<std::size_t>{0, 2});
  const auto error = at_the_same_time({[&] {
                       PartCopies copies = copies_of(parts, {{1, 1}, {1}}, 0, 0);
                       copies.learns = true;
                       RemoteScheduler one =
                           make_copy(parts[0], copies, somewhere(RemoteTransport::SharedMemory));
                       for (const auto& [name, data] : data_of(parts[0], plain_data)) {
                         one.bindProducer(name, data);
                       }
                       one.fit(1);
                     }}).front();
  EXPECT_NE(error.find("keeps running statistics"), std::string::npos) << error;
  PartCopies whole{CopyTurns({1, 1}), 0, {}, true};
  expect_error(ErrorCode::kUnimplemented, "learn together as replicas", [&] {
    RemoteScheduler one = make_copy(learner(), whole, somewhere(RemoteTransport::SharedMemory));
    one.fit(1);
  });
}

}  // namespace
}  // namespace harmonics::inline in_schedule
