// Coordinated checkpoints: all stages at one step, or none; resumed in any cut, bit-equal.
#include "run_checkpoint.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <fstream>

#include <harmonics/base/file.h>
#include <harmonics/base/format.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/schedule/distributed_scheduler.h>

#include <temporary_folder_testing.h>

#include "remote/remote_testing.h"

namespace harmonics::inline in_schedule {
namespace {

constexpr std::int64_t kEpochs = 4;
constexpr std::int64_t kSteps = kEpochs * 6;

class RunCheckpoint : public testing::Test {
 protected:
  static RemoteBinding meeting() {
    RemoteBinding binding;
    binding.host = "127.0.0.1";
    binding.port = reserved_port();
    return binding;
  }

  /// Where a part saves: all in one folder, or each in its own.
  [[nodiscard]] std::filesystem::path place(std::size_t part, bool apart) const {
    const auto folder = apart ? folder_ / std::to_string(part) : folder_.path();
    std::filesystem::create_directories(folder);
    return folder / "run";
  }

  /// All parts together, resumed where they can be; the digest of all weights. `stop_at` ends fit.
  std::string train(const HarmonicGraph& graph, std::size_t count, std::int64_t stop_at,
                    bool apart = false) {
    return train(partition_graph(graph, count), stop_at, apart);
  }
  std::string train(const std::vector<HarmonicGraph>& parts, std::int64_t stop_at,
                    bool apart = false) {
    const std::size_t count = parts.size();
    const RemoteBinding where = meeting();
    std::vector<NamedTensors> weights(count);
    std::vector<std::function<void()>> actions;
    for (std::size_t i = 0; i < count; ++i) {
      actions.push_back([&, i] {
        RemoteScheduler scheduler = make_part(parts[i], where, test_remote());
        scheduler.resume(place(i, apart));
        std::atomic<bool> stop = false;
        FitOptions options;
        options.checkpoint = place(i, apart);
        options.checkpoint_every = 5;
        options.stop = &stop;
        options.on_step = [&](const StepReport& step) { stop = step.step >= stop_at; };
        scheduler.fit(kEpochs - scheduler.progress().epochs_done, options);
        weights[i] = scheduler.parameters();
      });
    }
    EXPECT_EQ(at_the_same_time(actions), std::vector<std::string>(count));
    NamedTensors all;
    for (NamedTensors& part : weights) all.merge(part);
    return weights_digest(all);
  }

  TemporaryFolder folder_;
};

TEST_F(RunCheckpoint, ResumesInAnyCutAndEndsBitEqual) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const std::string expected = weights_digest(train_alone(graph, kEpochs));
  train(graph, 3, 4);
  EXPECT_TRUE(is_manifest(folder_ / "run"));
  const std::int64_t first = checkpoint_steps(folder_ / "run");
  EXPECT_GT(first, 4);
  train(graph, 2, first + 3);
  const std::int64_t second = checkpoint_steps(folder_ / "run");
  EXPECT_GT(second, first);
  // In one process, saved as one file, and back in three.
  CycleRuntime alone(graph, test_runtime());
  for (const ProducerNode& node : graph.producers()) {
    alone.bindProducer(node.name, test_data(node));
  }
  alone.load_checkpoint(folder_ / "run");
  alone.step();
  alone.save_checkpoint(folder_ / "run");
  EXPECT_FALSE(is_manifest(folder_ / "run"));
  EXPECT_EQ(train(graph, 3, kSteps + 100), expected);
  EXPECT_EQ(weights_digest(checkpoint_weights(folder_ / "run")), expected);
  EXPECT_EQ(checkpoint_steps(folder_ / "run"), kSteps);
}

TEST_F(RunCheckpoint, ResumesInAsManyPartsThatAreCutElsewhere) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const auto cut = [&](std::size_t second) {
    const std::size_t first_layers[] = {0, second};
    return cut_graph(graph, first_layers);
  };
  train(cut(1), 4);
  const std::int64_t saved = checkpoint_steps(folder_ / "run");
  train(cut(2), saved + 3);
  EXPECT_GT(checkpoint_steps(folder_ / "run"), saved);
  EXPECT_EQ(train(cut(1), kSteps + 100), weights_digest(train_alone(graph, kEpochs)));
}

TEST_F(RunCheckpoint, FoldersOfTheirOwnHoldWhatEachPartNeeds) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  train(graph, 2, 7, true);
  // Part 1 never came to rename its last manifest: all parts go back to what both have.
  const Manifest written = read_manifest(place(1, true));
  ASSERT_TRUE(written.previous.has_value());
  write_manifest(place(1, true), {*written.previous, std::nullopt});
  EXPECT_EQ(train(graph, 2, kSteps + 100, true), weights_digest(train_alone(graph, kEpochs)));
}

TEST_F(RunCheckpoint, KeepsTwoStepsAndRemovesTheRest) {
  train(zoo_graph("digits-mlp"), 2, kSteps + 100);
  const Manifest manifest = read_manifest(folder_ / "run");
  ASSERT_TRUE(manifest.previous.has_value());
  std::size_t files = 0;
  for (const std::filesystem::path& path : list_folder(folder_)) {
    files += path.extension() == ".safetensors";
  }
  EXPECT_EQ(files, manifest.latest.stages.size() + manifest.previous->stages.size());
  EXPECT_EQ(files, 4u);
}

TEST_F(RunCheckpoint, FilesThatAreMissingDamagedOrOfAnotherStepAreErrors) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  train(graph, 2, 7);
  const Manifest manifest = read_manifest(folder_ / "run");
  const std::filesystem::path stage = folder_ / manifest.latest.stages[1].file;
  CycleRuntime alone(graph, test_runtime());
  const auto load = [&] { alone.load_checkpoint(folder_ / "run"); };
  const auto message = [&] { return at_the_same_time({load}).front(); };
  EXPECT_EQ(message(), "");

  const std::string content = read_text_file(stage);
  std::filesystem::copy_file(folder_ / manifest.previous->stages[1].file, stage,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_NE(message().find("another file than the manifest names"), std::string::npos);
  std::ofstream(stage) << content.substr(0, content.size() / 2);
  EXPECT_NE(message(), "");
  std::filesystem::remove(stage);
  EXPECT_EQ(message(), "") << "the step before is whole";
  std::filesystem::remove(folder_ / manifest.previous->stages[0].file);
  EXPECT_NE(message().find(stage.filename().string()), std::string::npos) << message();
}

TEST_F(RunCheckpoint, PartsWithoutACommonStepAreToldWhatEachHas) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  train(graph, 2, 7, true);
  remove_tree(folder_ / "1");
  const auto parts = partition_graph(graph, 2);
  const RemoteBinding where = meeting();
  const auto errors =
      at_the_same_time({[&] { make_part(parts[0], where, test_remote()).resume(place(0, true)); },
                        [&] { make_part(parts[1], where, test_remote()).resume(place(1, true)); }});
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("no checkpoint in common"), std::string::npos) << error;
    EXPECT_NE(error.find("'digits_mlp_1' can go on from the beginning"), std::string::npos)
        << error;
  }
}

}  // namespace
}  // namespace harmonics::inline in_schedule
