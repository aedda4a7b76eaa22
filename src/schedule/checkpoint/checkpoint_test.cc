// Checkpoints: resuming is the same as never having stopped, and a bad file changes nothing.
#include <harmonics/schedule/checkpoint.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <harmonics/base/file.h>
#include <harmonics/base/json.h>
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

namespace fs = std::filesystem;

Attribute whole(std::int64_t value) { return value; }

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() {
    Random random(1, "rows");
    for (float& value : rows_.mutable_values<float>()) value = random.normal();
  }

  static HarmonicGraph graph(std::int64_t width = 8, const std::string& activation = "relu") {
    GraphBuilder builder("net");
    builder.producer("x", Shape{4}).producer("y", Shape{4});
    builder.layer("a", "linear", {{"out", whole(width)}}, {"x"}, activation);
    builder.layer("norm", "batch_norm", {}, {"a"}).layer("drop", "dropout", {{"p", 0.3}}, {"norm"});
    builder.layer("b", "linear", {{"out", whole(4)}}, {"drop"});
    return builder.tap("mse", "b", "y").build();
  }

  static RuntimeOptions options(OptimizerKind kind = OptimizerKind::kAdam) {
    RuntimeOptions made;
    made.optimizer = {kind, 0.01, 0.9, 0.001};
    made.micro_batches = 2;
    made.threads = 1;
    return made;
  }

  CycleRuntime runtime(OptimizerKind kind = OptimizerKind::kAdam) {
    CycleRuntime made(graph(), options(kind));
    for (const char* name : {"x", "y"}) {
      auto memory = std::make_shared<MemoryProducer>(rows_);
      made.bindProducer(
          name, std::make_shared<BatchProducer>(std::make_shared<ShuffleProducer>(memory), 8));
    }
    return made;
  }

  TemporaryFolder folder_;
  Tensor rows_ = Tensor::empty({30, 4});
};

TEST_F(CheckpointTest, ResumeFromEveryStepIsTheSameRun) {
  for (const OptimizerKind kind :
       {OptimizerKind::kSgd, OptimizerKind::kAdam, OptimizerKind::kAdamW}) {
    CycleRuntime straight = runtime(kind);
    const FitReport expected = straight.fit(3);  // 4 batches an epoch, the last one partial
    for (int stop = 1; stop < 12; ++stop) {
      CycleRuntime first = runtime(kind);
      for (int i = 0; i < stop; ++i) first.step();
      const fs::path path = folder_ / "run.safetensors";
      first.save_checkpoint(path);
      CycleRuntime second = runtime(kind);
      second.load_checkpoint(path);
      const FitReport report = second.fit(3 - second.progress().epochs_done);
      EXPECT_EQ(second.weights_digest(), straight.weights_digest()) << "stopped after " << stop;
      EXPECT_EQ(report.steps, expected.steps);
      EXPECT_EQ(report.last_epoch.train_loss, expected.last_epoch.train_loss);
    }
  }
}

TEST_F(CheckpointTest, FileIsPlainSafetensors) {
  CycleRuntime made = runtime();
  made.step();
  const fs::path path = folder_ / "run.safetensors";
  made.save_checkpoint(path);
  const Safetensors content = read_safetensors(path);
  EXPECT_EQ(content.tensors.at("model.a.weight").shape(), (Shape{8, 4}));
  EXPECT_EQ(content.tensors.at("optim.a.weight.mean").shape(), (Shape{8, 4}));
  EXPECT_TRUE(content.tensors.contains("model.norm.running_var"));
  EXPECT_EQ(content.metadata.at("format"), "pt");
  const Json json = Json::parse(content.metadata.at("harmonics"), "metadata");
  EXPECT_EQ(json.at("steps").as_integer(), 1);
  EXPECT_EQ(json.at("positions").at("x").as_array()[2].as_integer(), 1);
}

TEST_F(CheckpointTest, KeepsThePrecisionAndSaysWhenTheRunGoesOnInAnother) {
  const fs::path path = folder_ / "run.safetensors";
  RuntimeOptions narrow = options();
  narrow.precision = PrecisionPolicy::kBf16;
  CycleRuntime(graph(), narrow).save_checkpoint(path);
  const Json json = Json::parse(read_safetensors(path).metadata.at("harmonics"), "metadata");
  EXPECT_EQ(json.at("precision").as_string(), "bf16");
  const LogCapture log;
  CycleRuntime(graph(), narrow).load_checkpoint(path);
  EXPECT_TRUE(log.lines().empty());
  CycleRuntime(graph(), options()).load_checkpoint(path);
  ASSERT_EQ(log.lines().size(), 1u);
  EXPECT_NE(log.lines()[0].find("was trained in precision bf16 and goes on in full"),
            std::string::npos)
      << log.lines()[0];
}

TEST_F(CheckpointTest, EveryDamagedByteIsNoticed) {
  CycleRuntime made = runtime();
  made.step();
  const fs::path path = folder_ / "run.safetensors";
  made.save_checkpoint(path);
  const std::string good = read_text_file(path);
  Random random(5, "damage");
  for (int i = 0; i < 400; ++i) {
    std::string bad = good;
    const std::size_t at = i < 200 ? static_cast<std::size_t>(i) : random.below(bad.size());
    bad[at] = static_cast<char>(bad[at] ^ (1 << random.below(8)));
    write_text_file(path, bad);
    CycleRuntime other = runtime();
    const std::string before = other.weights_digest();
    EXPECT_NE(error_of([&] { other.load_checkpoint(path); }), "no error") << "byte " << at;
    EXPECT_EQ(other.weights_digest(), before);
  }
}

TEST_F(CheckpointTest, EveryTruncationIsNoticed) {
  CycleRuntime made = runtime();
  const fs::path path = folder_ / "run.safetensors";
  made.save_checkpoint(path);
  const std::string good = read_text_file(path);
  for (std::size_t size = 0; size < good.size(); size += 97) {
    write_text_file(path, good.substr(0, size));
    const std::string error = error_of([&] { made.load_checkpoint(path); });
    EXPECT_NE(error.find("run.safetensors"), std::string::npos) << error;
  }
  write_text_file(path, good + "x");
  EXPECT_NE(error_of([&] { made.load_checkpoint(path); }), "no error");
}

TEST_F(CheckpointTest, ForeignFilesAreRefusedByName) {
  CycleRuntime made = runtime();
  write_text_file(folder_ / "text", "this is no checkpoint at all, just some text");
  EXPECT_NE(error_of([&] { made.load_checkpoint(folder_ / "text"); }).find("another kind"),
            std::string::npos);
  EXPECT_NE(error_of([&] { made.load_checkpoint(folder_ / "none"); }).find("No such file"),
            std::string::npos);
  write_safetensors(folder_ / "weights", {made.parameters(), {}});
  EXPECT_NE(error_of([&] { made.load_checkpoint(folder_ / "weights"); }).find("start weights"),
            std::string::npos);
}

TEST_F(CheckpointTest, AnotherGraphIsRefusedWithTheFirstDifference) {
  CycleRuntime made = runtime();
  const fs::path path = folder_ / "run.safetensors";
  made.save_checkpoint(path);
  CycleRuntime wider(graph(16), options());
  const std::string error = error_of([&] { wider.load_checkpoint(path); });
  EXPECT_NE(error.find("layer number 1"), std::string::npos) << error;
  EXPECT_NE(error.find("out=8"), std::string::npos) << error;
  EXPECT_NE(error.find("out=16"), std::string::npos) << error;
  CycleRuntime other(graph(8, "tanh"), options());
  EXPECT_NE(error_of([&] { other.load_checkpoint(path); }).find("tanh"), std::string::npos);
}

// Types gain attributes: a file from before one of them says nothing of it.
TEST_F(CheckpointTest, AnAttributeThatAFileDoesNotKnowIsAsIfNotGiven) {
  const fs::path path = folder_ / "run.safetensors";
  CycleRuntime made = runtime();
  made.step();
  made.save_checkpoint(path);
  const auto without = [&](const std::string& text) {
    Safetensors content = read_safetensors(path);
    std::string& state = content.metadata.at("harmonics");
    const std::size_t at = state.find(text);
    EXPECT_NE(at, std::string::npos) << state;
    state.erase(at, text.size());
    content.metadata.erase("sha256");
    write_safetensors(folder_ / "older.safetensors", content, true);
  };
  for (const char* text : {"bias=1, ", ", momentum=0.1"}) {
    without(text);
    CycleRuntime again = runtime();
    again.load_checkpoint(folder_ / "older.safetensors");
    EXPECT_EQ(again.weights_digest(), made.weights_digest()) << text;
  }
  // One that is given here, and not there, is another graph.
  without("p=0.3");
  CycleRuntime again = runtime();
  expect_error(ErrorCode::kFailedPrecondition, "layer number 3",
               [&] { again.load_checkpoint(folder_ / "older.safetensors"); });
}

TEST_F(CheckpointTest, CountersThatNoRunCanHaveAreRefused) {
  const fs::path path = folder_ / "run.safetensors";
  CycleRuntime made = runtime();
  made.step();
  made.save_checkpoint(path);
  const Safetensors good = read_safetensors(path);
  const auto error_with = [&](const std::string& key, Json value) {
    Safetensors changed = good;
    Json state = Json::parse(good.metadata.at("harmonics"), "state");
    changed.metadata["harmonics"] = state.set(key, std::move(value)).dump();
    write_safetensors(path, changed, true);
    CycleRuntime other = runtime();
    const std::string before = other.weights_digest();
    const std::string error = error_of([&] { other.load_checkpoint(path); });
    EXPECT_EQ(other.weights_digest(), before);
    EXPECT_NE(error.find("run.safetensors"), std::string::npos) << error;
    return error;
  };
  const std::vector<std::pair<std::string, Json>> bad = {
      {"steps", -1},           {"updates", -100},           {"updates", 1'000'000},
      {"epochs_done", -3},     {"batches_in_epoch", -5},    {"samples_in_epoch", -1},
      {"judged_in_epoch", -1}, {"correct_in_epoch", 99},    {"epochs_since_best", -2},
      {"loss_scale", 0},       {"steps_since_overflow", -1}};
  for (const auto& [key, value] : bad) {
    EXPECT_NE(error_with(key, value).find(key), std::string::npos) << key;
  }
  const Json apart = Json::parse(R"({"x": [1, 0, 1], "y": [1, 1, 1]})", "positions");
  EXPECT_NE(error_with("positions", apart).find("'y' is in epoch 1"), std::string::npos);
}

TEST_F(CheckpointTest, UnwritablePlacesLeaveNothingBehind) {
  CycleRuntime made = runtime();
  write_text_file(folder_ / "file", "x");
  const std::string error = error_of([&] { made.save_checkpoint(folder_ / "file" / "run"); });
  EXPECT_NE(error.find("cannot write"), std::string::npos) << error;
  const std::string missing = error_of([&] { made.save_checkpoint(folder_ / "no" / "run"); });
  EXPECT_NE(missing.find("No such file"), std::string::npos) << missing;
  EXPECT_EQ(list_folder(folder_).size(), 1u);
}

TEST_F(CheckpointTest, StartWeightsByNameMap) {
  CycleRuntime made = runtime();
  made.step();
  NamedTensors renamed;
  std::map<std::string, std::string> names;
  for (const auto& [name, value] : made.parameters()) {
    renamed["theirs/" + name] = value;
    names[name] = "theirs/" + name;
  }
  write_safetensors(folder_ / "weights", {renamed, {}});
  CycleRuntime other = runtime();
  other.load_weights(folder_ / "weights", names);
  EXPECT_EQ(other.weights_digest(), made.weights_digest());
  names.erase("a.bias");
  const std::string error = error_of([&] { other.load_weights(folder_ / "weights", names); });
  EXPECT_NE(error.find("a.bias"), std::string::npos) << error;
  made.save_checkpoint(folder_ / "run");
  CycleRuntime third = runtime();
  third.load_weights(folder_ / "run");
  EXPECT_EQ(third.weights_digest(), made.weights_digest());
}

// Computing with weights where they are mapped gives the same bits; training makes its own copy.
TEST_F(CheckpointTest, MappedWeightsComputeTheSameAndAreNeverChanged) {
  const fs::path path = folder_ / "weights.safetensors";
  RuntimeOptions other = options();
  other.seed = 5;
  write_safetensors(path, {StageRow({graph()}, {other}).parameters(), {}}, /*checksum=*/false);
  const std::string before = read_text_file(path, 1 << 20);
  RuntimeOptions mapping = options();
  mapping.maps_weights = true;
  StageRow plain({graph()}, {options()}), mapped({graph()}, {mapping});
  load_weights(path, plain);
  load_weights(path, mapped);
  const NamedTensors batch = {{"x", rows_}, {"y", rows_}};
  const auto expect_equal = [&] {
    EXPECT_EQ(weights_digest(mapped.parameters()), weights_digest(plain.parameters()));
    BatchReport here, there;
    (void)mapped.evaluate(batch, here);
    (void)plain.evaluate(batch, there);
    EXPECT_EQ(here.taps.loss_sum, there.taps.loss_sum);
    EXPECT_EQ(read_text_file(path, 1 << 20), before);
  };
  expect_equal();
  for (int step = 0; step < 2; ++step) {
    (void)mapped.train(batch);
    (void)plain.train(batch);
    expect_equal();
  }
  // And back to the file, with statistics of another run.
  const NamedTensors buffers = StageRow({graph()}, {options()}).stages().front()->buffers();
  for (StageRow* row : {&mapped, &plain}) {
    load_weights(path, *row);
    row->stages().front()->set_buffers(buffers);
  }
  expect_equal();
}

TEST_F(CheckpointTest, MutatedFilesWithoutChecksumAreErrorsOrTensors) {
  const Safetensors content{{{"a", Tensor::zeros({3, 2})}, {"b", Tensor::zeros({4})}},
                            {{"k", "v"}}};
  write_safetensors(folder_ / "good", content);
  const std::string good = read_text_file(folder_ / "good");
  Random random(9, "mutate");
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string bad = good;
    for (std::uint64_t edits = 1 + random.below(4); edits > 0; --edits) {
      const std::size_t at = random.below(bad.size());
      switch (random.below(3)) {
        case 0: bad[at] = static_cast<char>(random.below(256)); break;
        case 1: bad.insert(at, 1, "0123456789[]{}\",:"[random.below(18)]); break;
        default: bad.erase(at, 1 + random.below(3)); break;
      }
      if (bad.empty()) bad = "x";
    }
    std::ofstream(folder_ / "bad", std::ios::binary) << bad;
    try {
      const Safetensors read = read_safetensors(folder_ / "bad");
      for (const auto& [name, tensor] : read.tensors) EXPECT_LE(tensor.byte_size(), bad.size());
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 2000);
}

TEST_F(CheckpointTest, SafetensorsHoldEveryDType) {
  Safetensors content;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    Tensor tensor = Tensor::zeros({3, 2}, dtype);
    tensor.mutable_bytes()[1] = std::byte{1};
    content.tensors[std::string(dtype_name(dtype))] = tensor;
  }
  content.tensors["empty"] = Tensor::zeros({0, 5});
  content.tensors["scalar"] = Tensor::of<float>({}, {2.5f});
  write_safetensors(folder_ / "all", content);
  const Safetensors back = read_safetensors(folder_ / "all");
  EXPECT_EQ(weights_digest(back.tensors), weights_digest(content.tensors));
}

}  // namespace
}  // namespace harmonics::inline in_schedule
