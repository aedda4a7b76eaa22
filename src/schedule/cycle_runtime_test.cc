// CycleRuntime as a user meets it: it learns, counts, stops, and says what is wrong.
#include <harmonics/schedule/cycle_runtime.h>

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include <harmonics/base/json.h>
#include <harmonics/base/log.h>
#include <harmonics/base/random.h>
#include <harmonics/data/batch_producer.h>
#include <harmonics/data/memory_producer.h>
#include <harmonics/data/shuffle_producer.h>

#include <error_testing.h>
#include <temporary_folder_testing.h>

namespace harmonics::inline in_schedule {
namespace {

Attribute whole(std::int64_t value) { return value; }

/// y = [x0 > x1] on random points: learnable in a few epochs.
struct Points {
  Tensor x = Tensor::empty({64, 2});
  Tensor label = Tensor::empty({64, 1}, DType::kInt64);
  Points() {
    Random random(3, "points");
    auto xs = x.mutable_values<float>();
    auto labels = label.mutable_values<std::int64_t>();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      xs[2 * i] = random.normal();
      xs[2 * i + 1] = random.normal();
      labels[i] = xs[2 * i] > xs[2 * i + 1] ? 1 : 0;
    }
  }
  static ProducerPtr batches(const Tensor& rows, std::int64_t size) {
    auto memory = std::make_shared<MemoryProducer>(rows);
    return std::make_shared<BatchProducer>(std::make_shared<ShuffleProducer>(memory), size);
  }
  void bind(CycleRuntime& runtime, std::int64_t size = 16) const {
    runtime.bindProducer("x", batches(x, size));
    runtime.bindProducer("label", batches(label, size));
  }
  [[nodiscard]] NamedProducers both(std::int64_t size) const {
    return {{"x", batches(x, size)}, {"label", batches(label, size)}};
  }
};

HarmonicGraph classifier(bool with_dropout = false) {
  GraphBuilder builder("points");
  builder.producer("x", Shape{2}).producer("label", Shape{1}, DType::kInt64);
  builder.layer("hidden", "linear", {{"out", whole(16)}}, {"x"}, "relu");
  if (with_dropout) builder.layer("drop", "dropout", {{"p", 0.2}}, {"hidden"});
  builder.layer("logits", "linear", {{"out", whole(2)}}, {with_dropout ? "drop" : "hidden"});
  builder.tap("cross_entropy", "logits", "label").consumer("class", "logits", "softmax");
  return builder.build();
}

RuntimeOptions fast() {
  RuntimeOptions options;
  options.optimizer.learning_rate = 0.02;
  options.threads = 1;
  return options;
}

/// A consumer that keeps what it gets.
class Kept : public Consumer {
 public:
  void push(const Tensor& batch) override { batches.push_back(batch); }
  std::vector<Tensor> batches;
};

TEST(CycleRuntime, Learns) {
  const Points points;
  CycleRuntime runtime(classifier(), fast());
  points.bind(runtime);
  const double before = runtime.evaluate(points.both(64)).loss;
  const FitReport report = runtime.fit(40);
  const Evaluation after = runtime.evaluate(points.both(10));
  EXPECT_EQ(report.epochs, 40);
  EXPECT_EQ(report.steps, 160);
  EXPECT_LT(after.loss, 0.3 * before);
  EXPECT_GT(after.accuracy.value(), 0.95);
  EXPECT_EQ(after.samples, 64);
}

TEST(CycleRuntime, SeedsDecideAlone) {
  const Points points;
  const auto digest_after = [&](std::uint64_t seed) {
    RuntimeOptions options = fast();
    options.seed = seed;
    CycleRuntime runtime(classifier(true), options);
    points.bind(runtime);
    runtime.fit(3);
    return runtime.weights_digest();
  };
  EXPECT_EQ(digest_after(1), digest_after(1));
  EXPECT_NE(digest_after(1), digest_after(2));
}

TEST(CycleRuntime, StepGoesOverTheEndOfAnEpoch) {
  const Points points;
  CycleRuntime runtime(classifier(), fast());
  points.bind(runtime, 24);  // 24 + 24 + 16: the partial batch is kept
  EXPECT_EQ(runtime.step().samples, 24);
  EXPECT_EQ(runtime.step().samples, 24);
  EXPECT_EQ(runtime.step().samples, 16);
  const StepReport next = runtime.step();
  EXPECT_EQ(next.samples, 24);
  EXPECT_EQ(next.epoch, 2);
  EXPECT_EQ(next.step, 4);
}

TEST(CycleRuntime, MicroBatchesAddUpToTheBatch) {
  const Points points;
  const auto weights_after = [&](int micro_batches) {
    RuntimeOptions options = fast();
    options.optimizer = {OptimizerKind::kSgd, 0.1};
    options.micro_batches = micro_batches;
    CycleRuntime runtime(classifier(), options);
    points.bind(runtime, 15);  // uneven slices
    runtime.fit(2);
    const NamedTensors weights = runtime.parameters();
    const auto values = weights.at("hidden.weight").values<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  const auto one = weights_after(1), four = weights_after(4);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], four[i], 1e-5);
}

TEST(CycleRuntime, ClippingBoundsTheStep) {
  const Points points;
  RuntimeOptions options = fast();
  options.optimizer = {OptimizerKind::kSgd, 1.0};
  options.clip_norm = 1e-3;
  CycleRuntime runtime(classifier(), options);
  points.bind(runtime);
  const auto start = runtime.parameters();
  std::vector<float> before;
  for (const auto& [name, value] : start) {
    before.insert(before.end(), value.values<float>().begin(), value.values<float>().end());
  }
  EXPECT_GT(runtime.step().gradient_norm, 1e-3);
  double moved = 0;
  std::size_t i = 0;
  for (const auto& [name, value] : runtime.parameters()) {
    for (const float number : value.values<float>()) moved += std::pow(number - before[i++], 2);
  }
  EXPECT_NEAR(std::sqrt(moved), 1e-3, 1e-6);
}

TEST(CycleRuntime, ConsumersSeeEveryRow) {
  const Points points;
  CycleRuntime runtime(classifier(), fast());
  points.bind(runtime, 24);
  auto kept = std::make_shared<Kept>();
  runtime.bindConsumer("class", kept);
  runtime.fit(1);
  ASSERT_EQ(kept->batches.size(), 3u);
  EXPECT_EQ(kept->batches[2].shape(), (Shape{16, 2}));
  const auto first = kept->batches[0].values<float>();
  EXPECT_NEAR(first[0] + first[1], 1.0, 1e-6) << "softmax";
}

TEST(CycleRuntime, GraphWithoutTapInfers) {
  GraphBuilder builder("plain");
  builder.producer("x", Shape{2}).layer("y", "linear", {{"out", whole(1)}}, {"x"});
  CycleRuntime runtime(builder.consumer("out", "y").build());
  const Points points;
  runtime.bindProducer("x", Points::batches(points.x, 32));
  auto kept = std::make_shared<Kept>();
  runtime.bindConsumer("out", kept);
  const std::string digest = runtime.weights_digest();
  const FitReport report = runtime.fit(2);
  EXPECT_EQ(report.epochs, 2);
  EXPECT_EQ(kept->batches.size(), 4u);
  EXPECT_EQ(runtime.weights_digest(), digest);
}

TEST(CycleRuntime, EarlyStoppingAndCallbacks) {
  const Points points;
  RuntimeOptions options = fast();
  options.optimizer.learning_rate = 0;  // never gets better
  CycleRuntime runtime(classifier(), options);
  points.bind(runtime);
  int steps = 0, epochs = 0;
  FitOptions fit;
  fit.evaluation = points.both(64);
  fit.patience = 2;
  fit.on_step = [&](const StepReport& report) {
    ++steps;
    EXPECT_EQ(report.step, steps);
    EXPECT_EQ(report.batches_in_epoch, 4);
    EXPECT_TRUE(report.loss.has_value());
  };
  fit.on_epoch = [&](const EpochReport& report) { EXPECT_EQ(report.epoch, ++epochs); };
  const FitReport report = runtime.fit(100, fit);
  EXPECT_TRUE(report.stopped_early);
  EXPECT_EQ(report.epochs, 3);
  EXPECT_EQ(steps, 12);
}

TEST(CycleRuntime, StopFlagEndsAfterTheStep) {
  const Points points;
  CycleRuntime runtime(classifier(), fast());
  points.bind(runtime);
  std::atomic<bool> stop = false;
  FitOptions fit;
  fit.stop = &stop;
  fit.on_step = [&](const StepReport& report) { stop = report.step == 6; };
  const FitReport report = runtime.fit(100, fit);
  EXPECT_TRUE(report.interrupted);
  EXPECT_EQ(report.steps, 6);
}

TEST(CycleRuntime, MetricsAreJsonLines) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "metrics.jsonl";
  const Points points;
  CycleRuntime runtime(classifier(), fast());
  points.bind(runtime);
  FitOptions fit;
  fit.metrics = path;
  runtime.fit(2, fit);
  std::ifstream file(path);
  int steps = 0, epochs = 0;
  for (std::string line; std::getline(file, line);) {
    const Json json = Json::parse(line, "metrics");
    steps += json.find("step") != nullptr;
    epochs += json.find("epoch_done") != nullptr;
  }
  EXPECT_EQ(steps, 8);
  EXPECT_EQ(epochs, 2);
}

TEST(CycleRuntime, ShapesComeFromTheData) {
  GraphBuilder builder("open");
  builder.producer("x").producer("label", Shape{1}, DType::kInt64);
  builder.layer("logits", "linear", {{"out", whole(2)}}, {"x"});
  const HarmonicGraph graph = builder.tap("cross_entropy", "logits", "label").build();
  CycleRuntime runtime(graph, fast());
  EXPECT_NE(error_of([&] { runtime.step(); }).find("'x'"), std::string::npos);
  Points().bind(runtime);
  EXPECT_EQ(runtime.graph().spec("x").shape, (Shape{2}));
  EXPECT_EQ(runtime.step().samples, 16);
}

TEST(CycleRuntime, SaysWhatIsWrong) {
  const Points points;
  CycleRuntime runtime(classifier(), fast());
  const auto expect = [](const std::string& error, std::initializer_list<const char*> words) {
    for (const char* word : words) EXPECT_NE(error.find(word), std::string::npos) << error;
  };
  expect(error_of([&] { runtime.step(); }), {"no data", "'x'"});
  expect(error_of([&] { runtime.bindProducer("y", Points::batches(points.x, 4)); }),
         {"'y'", "x, label"});
  expect(error_of([&] { runtime.bindProducer("label", Points::batches(points.x, 4)); }),
         {"{1}", "{2}"});
  expect(error_of([&] { runtime.bindConsumer("z", std::make_shared<Kept>()); }), {"'z'", "class"});
  runtime.bindProducer("x", Points::batches(points.x, 4));
  expect(error_of([&] { runtime.bindProducer("x", Points::batches(points.x, 4)); }), {"already"});
  runtime.bindProducer("label", Points::batches(points.label.slice(0, 60), 4));
  expect(error_of([&] { runtime.step(); }), {"equally long", "64", "60"});
}

TEST(CycleRuntime, LabelsOutsideTheClassesNameTheLoss) {
  Points points;
  points.label.mutable_values<std::int64_t>()[5] = 9;
  CycleRuntime runtime(classifier(), fast());
  points.bind(runtime);
  const std::string error = error_of([&] { runtime.fit(1); });
  EXPECT_NE(error.find("logits"), std::string::npos) << error;
  EXPECT_NE(error.find("9"), std::string::npos) << error;
}

TEST(CycleRuntime, NotANumberStopsWithStepAndLayer) {
  const Points points;
  RuntimeOptions options = fast();
  options.optimizer = {OptimizerKind::kSgd, 1e30};
  CycleRuntime runtime(classifier(), options);
  points.bind(runtime);
  const std::string error = error_of([&] { runtime.fit(3); });
  EXPECT_NE(error.find("not finite at step"), std::string::npos) << error;
  EXPECT_NE(error.find("layer '"), std::string::npos) << error;
}

TEST(CycleRuntime, NotANumberInTheDataNamesTheProducer) {
  Points points;
  points.x.mutable_values<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  CycleRuntime runtime(classifier(), fast());
  points.bind(runtime);
  const std::string error = error_of([&] { runtime.fit(1); });
  EXPECT_NE(error.find("producer 'x'"), std::string::npos) << error;
}

TEST(CycleRuntime, Bf16LearnsAndFp16NeedsAGpu) {
  const Points points;
  RuntimeOptions options = fast();
  options.precision = PrecisionPolicy::kBf16;
  CycleRuntime runtime(classifier(), options);
  points.bind(runtime);
  runtime.fit(40);
  EXPECT_GT(runtime.evaluate(points.both(64)).accuracy.value(), 0.9);
  EXPECT_EQ(runtime.parameters().at("hidden.weight").dtype(), DType::kFloat32);
  options.precision = PrecisionPolicy::kAuto;
  EXPECT_EQ(CycleRuntime(classifier(), options).row().stages().front()->precision(),
            PrecisionPolicy::kFull)
      << "automatic: on a CPU";
  options.precision = PrecisionPolicy::kFp16;
  EXPECT_NE(error_of([&] { CycleRuntime(classifier(), options); }).find("bf16"), std::string::npos);
}

}  // namespace
}  // namespace harmonics::inline in_schedule
