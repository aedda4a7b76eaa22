// LearningSettings: kept in checkpoints, taken over by a runtime of defaults, and told where they
// lose.
#include <harmonics/schedule/learning_settings.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include <harmonics/base/log.h>
#include <harmonics/base/random.h>
#include <harmonics/data/batch_producer.h>
#include <harmonics/data/memory_producer.h>
#include <harmonics/data/shuffle_producer.h>
#include <harmonics/runtime/safetensors.h>
#include <harmonics/schedule/cycle_runtime.h>

#include <error_testing.h>
#include <temporary_folder_testing.h>

namespace harmonics::inline in_schedule {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RuntimeOptions unusual() {
  RuntimeOptions options;
  options.seed = 7;
  options.micro_batches = 2;
  options.optimizer = {OptimizerKind::kSgd, 0.1, 0.9, 1e-4, 0.8, 0.99, 1e-6};
  options.schedule = {ScheduleKind::kCosine, 2, 50, 0.3, 40, 0.01};
  options.clip_norm = 0.7;
  return options;
}

class LearningSettingsTest : public ::testing::Test {
 protected:
  LearningSettingsTest() {
    Random random(1, "rows");
    for (float& value : rows_.mutable_values<float>()) value = random.normal();
  }

  static HarmonicGraph graph() {
    GraphBuilder builder("net");
    builder.producer("x", Shape{4}).producer("y", Shape{4});
    builder.layer("a", "linear", {{"out", std::int64_t{8}}}, {"x"}, "relu");
    builder.layer("drop", "dropout", {{"p", 0.3}}, {"a"});
    builder.layer("b", "linear", {{"out", std::int64_t{4}}}, {"drop"});
    return builder.tap("mse", "b", "y").build();
  }
  void bind(CycleRuntime& runtime, std::int64_t batch = 8) const {
    for (const char* name : {"x", "y"}) {
      auto memory = std::make_shared<MemoryProducer>(rows_);
      runtime.bindProducer(
          name, std::make_shared<BatchProducer>(std::make_shared<ShuffleProducer>(memory), batch));
    }
  }
  /// Trains an epoch with unusual settings, saves, and gives the weights after two more.
  std::string train() {
    CycleRuntime runtime(graph(), unusual());
    bind(runtime);
    runtime.fit(1);
    runtime.save_checkpoint(path_);
    runtime.fit(2);
    return runtime.weights_digest();
  }
  Json state() const { return Json::parse(read_safetensors(path_).metadata.at("harmonics"), ""); }
  void write_state(const Json& state) const {
    Safetensors content = read_safetensors(path_);
    content.metadata["harmonics"] = state.dump();
    write_safetensors(path_, content, true);
  }

  TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_ / "run";
  Tensor rows_ = Tensor::empty({30, 4});
};

TEST_F(LearningSettingsTest, TextsAndJsonHoldEverySetting) {
  RuntimeOptions options = unusual();
  options.data = {16, 0.25, false};
  options.optimizer.decay = DecayScope::kWeights;
  const LearningSettings settings = learning_settings(options);
  EXPECT_EQ(settings_from_json(Json::parse(settings_json(settings).dump(), "")), settings);
  EXPECT_EQ(settings_from_json(Json::object()), LearningSettings());
  EXPECT_EQ(setting_texts(settings).at("lr"), "0.1");
  EXPECT_EQ(setting_texts(settings).at("test_split"), "0.25");
  EXPECT_FALSE(setting_texts(LearningSettings()).contains("batch_size"));
  for (const char* text : {R"({"micro_batches": 0})", R"({"optimizer": {"kind": "magic"}})",
                           R"({"optimizer": {"momentum": -1}})", R"({"test_split": 1})",
                           R"({"optimizer": {"decay": "biases"}})",
                           R"({"schedule": {"every_steps": 0}})", R"({"batch_size": -1})"}) {
    EXPECT_THAT(error_of([&] { (void)settings_from_json(Json::parse(text, "")); }),
                HasSubstr("make no sense"))
        << text;
  }
}

TEST_F(LearningSettingsTest, ARuntimeOfDefaultsGoesOnAsTheRunBegan) {
  const std::string expected = train();
  const LogCapture log;
  CycleRuntime runtime(graph());
  runtime.load_checkpoint(path_);
  bind(runtime);
  runtime.fit(2);
  EXPECT_EQ(runtime.weights_digest(), expected);
  EXPECT_EQ(learning_settings(unusual()).optimizer, runtime.row().settings().optimizer);
  for (const std::string& line : log.lines()) EXPECT_THAT(line, HasSubstr("goes on with")) << line;
  // And what it saves says the same.
  runtime.save_checkpoint(path_);
  EXPECT_EQ(checkpoint_settings(path_)->optimizer, unusual().optimizer);
  EXPECT_EQ(checkpoint_settings(path_)->data.batch_size, 8);
}

TEST_F(LearningSettingsTest, WhatWasGivenWinsAndIsSaid) {
  train();
  RuntimeOptions given;
  given.optimizer.learning_rate = 0.05;
  given.clip_norm = 0.7;
  const LogCapture log;
  CycleRuntime runtime(graph(), given);
  runtime.load_checkpoint(path_);
  EXPECT_EQ(runtime.row().settings().optimizer, given.optimizer);
  EXPECT_EQ(runtime.row().settings().schedule, unusual().schedule);
  EXPECT_EQ(runtime.row().settings().seed, 7u);
  EXPECT_THAT(log.lines(), Contains(AllOf(HasSubstr("lr 0.05 (0.1)"), HasSubstr("adam (sgd)"),
                                          HasSubstr("as given here"))));
}

TEST_F(LearningSettingsTest, SettingsCanBeKeptWithoutAWord) {
  train();
  RuntimeOptions kept;
  kept.on_load = SettingsOnLoad::kKeep;
  const LogCapture log;
  CycleRuntime runtime(graph(), kept);
  runtime.load_checkpoint(path_);
  EXPECT_EQ(runtime.row().settings(), learning_settings(kept));
  EXPECT_THAT(log.lines(), IsEmpty());
}

TEST_F(LearningSettingsTest, BatchesOfAnotherSizeAreTold) {
  train();
  const LogCapture log;
  for (const std::int64_t batch : {8, 5}) {
    CycleRuntime runtime(graph(), unusual());
    runtime.load_checkpoint(path_);
    bind(runtime, batch);
    runtime.fit(1);
    if (batch == 8) {
      EXPECT_THAT(log.lines(), IsEmpty());
    }
  }
  EXPECT_THAT(log.lines(), ElementsAre(HasSubstr("batches of 5 rows; the checkpoint's had 8")));
}

TEST_F(LearningSettingsTest, OlderCheckpointsAreReadAsBefore) {
  train();
  Json::Object older = state().as_object();
  std::erase_if(older, [](const auto& member) { return member.first == "settings"; });
  write_state(older);
  const LogCapture log;
  CycleRuntime runtime(graph());
  runtime.load_checkpoint(path_);
  EXPECT_EQ(runtime.row().settings(), LearningSettings());
  EXPECT_EQ(checkpoint_settings(path_), std::nullopt);
  EXPECT_EQ(checkpoint_settings(folder_ / "none"), std::nullopt);
}

TEST_F(LearningSettingsTest, CountersThatNoRunCanHaveAreRefused) {
  train();
  const Json good = state();
  const std::vector<std::pair<std::string, Json>> bad = {
      {"steps", -1},           {"updates", -100},           {"updates", 1'000'000},
      {"epochs_done", -3},     {"batches_in_epoch", -5},    {"samples_in_epoch", -1},
      {"judged_in_epoch", -1}, {"correct_in_epoch", 99},    {"epochs_since_best", -2},
      {"loss_scale", 0},       {"steps_since_overflow", -1}};
  for (const auto& [key, value] : bad) {
    Json changed = good;
    write_state(changed.set(key, value));
    CycleRuntime runtime(graph(), unusual());
    const std::string before = runtime.weights_digest();
    EXPECT_THAT(error_of([&] { runtime.load_checkpoint(path_); }),
                AllOf(HasSubstr(key), HasSubstr("run'")))
        << key;
    EXPECT_EQ(runtime.weights_digest(), before);
  }
  Json apart = good;
  apart.set("positions", Json::parse(R"({"x": [7, 1, 2], "y": [7, 2, 2]})", ""));
  write_state(apart);
  CycleRuntime runtime(graph(), unusual());
  EXPECT_THAT(error_of([&] { runtime.load_checkpoint(path_); }), HasSubstr("epoch 2"));
}

}  // namespace
}  // namespace harmonics::inline in_schedule
