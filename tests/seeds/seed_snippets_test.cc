// The C++ snippets of the project's founding documents, compiled as written inside
// `using namespace harmonics;` and run. Text between the marks is verbatim.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <harmonics/harmonics.h>

#include <temporary_folder_testing.h>
#include <tree_testing.h>

namespace {

using namespace harmonics;

class Seed : public testing::Test {
 protected:
  Seed() : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder_.path());
  }
  ~Seed() override { std::filesystem::current_path(before_); }

  static HarmonicGraph digits() { return zoo_graph("digits-mlp"); }

  static ProducerPtr csv(const std::string& columns, DType dtype, double scale) {
    CsvOptions options;
    options.columns = columns;
    options.dtype = dtype;
    options.scale = scale;
    const auto file = source_folder() / "examples/data/digits.csv";
    auto rows = std::make_shared<CsvProducer>(file, options);
    return std::make_shared<BatchProducer>(rows, 100);
  }
  template <typename Runtime>
  static void bind_digits(Runtime& runtime) {
    runtime.bindProducer("image", csv("0-63", DType::kFloat32, 1.0 / 16));
    runtime.bindProducer("label", csv("64", DType::kInt64, 1));
  }

  TemporaryFolder folder_;
  std::filesystem::path before_;
};

TEST_F(Seed, PartitionGraph) {
  const HarmonicGraph g = digits();
  // ---- seed 000, Distributed Scheduler
  std::vector<harmonics::HarmonicGraph> parts = partition_graph(g, 2);
  harmonics::DistributedScheduler sched(parts);
  // ----
  bind_digits(sched);
  const double first = sched.step().loss.value();
  const FitReport report = sched.fit(3);
  EXPECT_EQ(report.steps, 3 * 18);
  EXPECT_LT(report.last_epoch.train_loss.value(), first) << "gradients cross the partition";
}

TEST_F(Seed, AutomaticPartitioning) {
  const HarmonicGraph graph = digits();
  const LogCapture log;
  // ---- seed 000, Multi-Accelerator Scheduler
  harmonics::DeploymentDescriptor deploy;
  deploy.partitions = {
      {harmonics::Backend::GPU, "", 0, std::nullopt, 1.5},  // GPU with higher weight
      {harmonics::Backend::FPGA},
      {harmonics::Backend::CPU}};

  auto parts = auto_partition(graph, deploy);
  harmonics::DistributedScheduler sched(parts, deploy);
  // ----
  ASSERT_EQ(parts.size(), 3u);
  bind_digits(sched);
  EXPECT_TRUE(sched.step().loss.has_value());
  std::string lines;
  for (const std::string& line : log.lines()) lines += line + "\n";
  EXPECT_NE(lines.find("fpga"), std::string::npos) << "a missing backend is said aloud: " << lines;
  EXPECT_NE(lines.find("1.5"), std::string::npos) << "the resolved weights are logged: " << lines;
}

TEST_F(Seed, DeploymentOptions) {
  // ---- seed 000, Deployment options
  harmonics::DeploymentDescriptor d;
  d.partitions.resize(2);
  d.partitions[0].backend = harmonics::Backend::GPU;
  d.partitions[0].device_index = 1;  // second GPU
  d.partitions[0].weight = 2.0;      // heavier load on the GPU

  d.partitions[1].backend = harmonics::Backend::FPGA;
  d.partitions[1].fpga_device_index = 0;  // first OpenCL device
  // ----
  EXPECT_EQ(partition_weight(d.partitions[0], Backend::GPU), 2.0);
  EXPECT_EQ(partition_weight(d.partitions[1], Backend::FPGA), 2.0);
  const LogCapture log;
  DistributedScheduler sched(auto_partition(digits(), d), d);
  bind_digits(sched);
  EXPECT_TRUE(sched.step().loss.has_value());
  d.strict = true;
  EXPECT_THROW(DistributedScheduler(auto_partition(digits(), d), d), Error);
  EXPECT_NE(select_accelerator_backend(), Backend::Auto);
}

TEST_F(Seed, Checkpointing) {
  const HarmonicGraph graph = digits();
  std::string expected;
  {
    // ---- seed 000, Saving the runtime state
    harmonics::CycleRuntime rt(graph);
    // ... training loop ...
    // ----
    bind_digits(rt);
    rt.fit(1);
    // ---- seed 000, Saving the runtime state
    rt.save_checkpoint("checkpoint.bin");
    // ----
    rt.fit(1);
    expected = rt.weights_digest();
  }
  // ---- seed 000, Resuming from a checkpoint
  harmonics::CycleRuntime rt(graph);
  rt.load_checkpoint("checkpoint.bin");
  // continue training
  // ----
  bind_digits(rt);
  rt.fit(1);
  EXPECT_EQ(rt.weights_digest(), expected);
}

TEST_F(Seed, DatasetHelpers) {
  {
    std::ofstream file("rows.csv");
    for (int i = 0; i < 10; ++i) file << i << ",1,2,3\n";
  }
  const std::string dataset_path = "rows.csv";
  const std::size_t batch_size = 4;
  GraphBuilder builder("rows");
  builder.producer("input", Shape{4});
  builder.layer("a", "linear", {{"out", std::int64_t{2}}}, {"input"});
  builder.layer("b", "linear", {{"out", std::int64_t{2}}}, {"a"}).consumer("output", "b");
  DistributedScheduler scheduler(partition_graph(builder.build(), 2));
  // ---- seed 001, Spark deployment
  auto csv = std::make_shared<harmonics::CsvProducer>(dataset_path);
  auto batched = std::make_shared<harmonics::BatchProducer>(csv, batch_size);
  scheduler.bindProducer("input", batched);
  // ----
  auto seen = std::make_shared<MemoryConsumer>();
  scheduler.bindConsumer("output", seen);
  scheduler.fit(1);
  EXPECT_EQ(scheduler.progress().epochs_done, 1);
  EXPECT_EQ(seen->rows().shape(), (Shape{10, 2})) << "every row of the file came through";
}

}  // namespace
