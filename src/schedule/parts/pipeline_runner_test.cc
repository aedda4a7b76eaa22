#include "pipeline_runner.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <limits>
#include <thread>

#include <harmonics/base/error.h>
#include <harmonics/base/random.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/zoo.h>

namespace harmonics::inline in_schedule {
namespace {

constexpr std::size_t kParts = 3;
constexpr std::int64_t kRows = 12;

RuntimeOptions options() {
  RuntimeOptions made;
  made.threads = 1;
  made.micro_batches = 6;
  return made;
}

StageRow make_row() {
  return {partition_graph(zoo_graph("digits-mlp"), kParts),
          std::vector<RuntimeOptions>(kParts, options())};
}

void pipeline(StageRow& row, Nanoseconds deadline = std::chrono::minutes(5)) {
  row.set_runner(make_pipeline_runner(row, {PipelineOrder::OneForwardOneBackward, deadline}, 1));
}

NamedTensors batch_of(const StageRow& row) {
  NamedTensors batch;
  for (const ProducerNode& node : row.producers()) {
    Shape shape = *node.shape;
    shape.insert(shape.begin(), kRows);
    Tensor& tensor = batch[node.name] = Tensor::empty(shape, node.dtype);
    Random random(1, node.name);
    if (node.dtype == DType::kInt64) {
      for (auto& value : tensor.mutable_values<std::int64_t>()) value = random.below(10);
    } else {
      for (auto& value : tensor.mutable_values<float>()) value = random.normal();
    }
  }
  return batch;
}

std::string label_name(const NamedTensors& batch) {
  for (const auto& [name, tensor] : batch) {
    if (tensor.dtype() == DType::kInt64) return name;
  }
  return {};
}
std::string image_name(const NamedTensors& batch) {
  for (const auto& [name, tensor] : batch) {
    if (tensor.dtype() == DType::kFloat32) return name;
  }
  return {};
}

Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::kUnknown, "nothing was thrown"};
}

TEST(PipelineRunner, EveryPartHasAThreadOfItsOwnAndKeepsIt) {
  StageRow row = make_row();
  const auto runner = make_pipeline_runner(row, {}, 1);
  std::vector<std::thread::id> first(kParts), second(kParts);
  // Each part waits until the part after it has been visited: one thread alone would not get on.
  std::vector<std::promise<void>> visited(kParts);
  runner->for_each(row.stages(), [&](std::size_t part, Stage&) {
    first[part] = std::this_thread::get_id();
    if (part + 1 < kParts) {
      EXPECT_EQ(visited[part + 1].get_future().wait_for(std::chrono::minutes(1)),
                std::future_status::ready);
    }
    visited[part].set_value();
  });
  runner->for_each(row.stages(),
                   [&](std::size_t part, Stage&) { second[part] = std::this_thread::get_id(); });
  EXPECT_EQ(first, second);
  EXPECT_NE(first[0], first[1]);
  EXPECT_NE(first[0], std::this_thread::get_id());
}

TEST(PipelineRunner, AnErrorInOnePartStopsAllAndTheNextBatchWorks) {
  StageRow plain = make_row();
  StageRow piped = make_row();
  pipeline(piped);
  const NamedTensors good = batch_of(plain);
  NamedTensors bad = batch_of(plain);
  bad.at(label_name(bad)).mutable_values<std::int64_t>()[kRows / 2] = 99;  // micro-batch 3 of 6
  const std::string before = weights_digest(piped.parameters());
  for (int round = 0; round < 20; ++round) {
    const Error error = error_of([&] { piped.train(bad); });
    const std::string text = error.what();
    EXPECT_NE(text.find("part 2 of 3"), std::string::npos) << text;
    EXPECT_EQ(text, error_of([&] { plain.train(bad); }).what());
    EXPECT_EQ(weights_digest(piped.parameters()), before);
  }
  piped.train(good);
  plain.train(good);
  EXPECT_EQ(weights_digest(piped.parameters()), weights_digest(plain.parameters()));
}

TEST(PipelineRunner, ALossThatIsNotFiniteStopsAllAndTheNextBatchWorks) {
  StageRow plain = make_row();
  StageRow piped = make_row();
  pipeline(piped);
  const NamedTensors good = batch_of(plain);
  NamedTensors bad = batch_of(plain);
  Tensor& image = bad.at(image_name(bad));
  image.mutable_values<float>().back() = std::numeric_limits<float>::quiet_NaN();
  for (int round = 0; round < 20; ++round) {
    const Error error = error_of([&] { piped.train(bad); });
    EXPECT_NE(std::string(error.what()).find("the loss is not finite at step 1"), std::string::npos)
        << error.what();
    EXPECT_EQ(std::string(error.what()), error_of([&] { plain.train(bad); }).what());
  }
  piped.train(good);
  plain.train(good);
  EXPECT_EQ(weights_digest(piped.parameters()), weights_digest(plain.parameters()));
}

TEST(PipelineRunner, ATensorThatDoesNotComeInTimeIsAnError) {
  StageRow row = make_row();
  pipeline(row, Nanoseconds(0));
  const Error error = error_of([&] { row.train(batch_of(row)); });
  EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded) << error.what();
  EXPECT_NE(std::string(error.what()).find("boundary '"), std::string::npos) << error.what();
  EXPECT_NE(std::string(error.what()).find("part "), std::string::npos) << error.what();
}

TEST(PipelineRunner, MorePartsThanThreadsAreAllowedIsAnError) {
  std::vector<HarmonicGraph> parts;
  for (std::size_t i = 0; i <= kMaxPipelineParts; ++i) {
    parts.push_back(parse_harp(format(
        "harmonic p{} {{ producer x{} {{1}}; layer a{} identity(); consumer x{} {{1}}; cycle {{ "
        "x{} -> a{} -> x{}; }} }}",
        i, i, i, i + 1, i, i, i + 1)));
  }
  StageRow row(parts, std::vector<RuntimeOptions>(parts.size(), options()));
  EXPECT_EQ(error_of([&] { pipeline(row); }).code(), ErrorCode::kResourceExhausted);
  parts.pop_back();
  StageRow most(parts, std::vector<RuntimeOptions>(parts.size(), options()));
  EXPECT_NO_THROW(pipeline(most));
}

TEST(PipelineRunner, EndsThatDisagreeAboutGradientsAreAnErrorAtOnce) {
  StageRow row({parse_harp(R"(harmonic first {
  producer input {4};
  layer a linear(4);
  consumer x {4} gradients 1;
  cycle { input -> a -> x; }
})"),
                parse_harp(R"(harmonic second {
  producer x {4};
  producer target {4};
  layer b linear(4);
  consumer output {4};
  cycle { x -> b -> output; b <-(mse)- target; }
})")},
               std::vector<RuntimeOptions>(2, options()));
  const Error error = error_of([&] { pipeline(row); });
  EXPECT_STREQ(error.what(),
               "boundary 'x': part 0 waits for 1 gradients and part 1 sends 0; declare the same "
               "number at both ends");
}

}  // namespace
}  // namespace harmonics::inline in_schedule
