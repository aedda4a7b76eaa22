// Digits' network gives on arm64, by its vectors and without, the bits that a stage gives here:
// what leaves it, and its weights after a step of learning. The other processor is emulated.
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <harmonics/base/file.h>
#include <harmonics/base/random.h>
#include <harmonics/base/subprocess.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/runtime/stage.h>
#include <harmonics/runtime/stage_backend.h>

#include <temporary_folder_testing.h>

namespace harmonics::inline in_runtime {
namespace {

#ifdef HARMONICS_ARM64_PROGRAM

constexpr std::int64_t kRows = 16;
constexpr const char* kLayers[] = {"fc1", "fc2", "fc3"};

template <typename Number>
void append(std::string& to, std::span<const Number> numbers) {
  to.append(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
}

NamedTensors batch() {
  Tensor image = Tensor::empty({kRows, 64}), label = Tensor::empty({kRows, 1}, DType::kInt64);
  Random random(1, "digits");
  for (float& value : image.mutable_values<float>()) value = 2 * random.uniform() - 1;
  for (auto& id : label.mutable_values<std::int64_t>()) {
    id = static_cast<std::int64_t>(random.below(10));
  }
  return {{"image", image}, {"label", label}};
}

std::string weights_of(const NamedTensors& parameters) {
  std::string bytes;
  for (const std::string layer : kLayers) {
    append(bytes, parameters.at(layer + ".weight").values<float>());
    append(bytes, parameters.at(layer + ".bias").values<float>());
  }
  return bytes;
}

/// What exact_digits_testing.cc reads.
std::string question(const NamedTensors& parameters, const NamedTensors& inputs) {
  const std::vector<std::int32_t> head = {kRows, 3, 64, 128, 64, 10};
  std::string bytes;
  append(bytes, std::span<const std::int32_t>(head));
  bytes += weights_of(parameters);
  append(bytes, inputs.at("image").values<float>());
  std::vector<std::int32_t> labels;
  for (const std::int64_t id : inputs.at("label").values<std::int64_t>()) {
    labels.push_back(static_cast<std::int32_t>(id));
  }
  append(bytes, std::span<const std::int32_t>(labels));
  return bytes;
}

TEST(ExactArm64, ForwardPassAndStepOfLearningHaveTheSameBits) {
  RuntimeOptions options;
  options.reproducible = true;
  options.optimizer = {.kind = OptimizerKind::kAdamW, .weight_decay = 0.01};
  Stage stage(zoo_graph("digits-mlp"), options);
  const NamedTensors inputs = batch();
  const TemporaryFolder folder;
  write_text_file(folder.path() / "in", question(stage->parameters(), inputs));
  TapReport report;
  const MicroBatch whole{0, 0, 0, kRows};
  const NamedTensors outputs = stage->forward(whole, inputs, report);
  static_cast<void>(stage->backward(whole, {}));
  stage->update({0.01, 1, 0});
  std::string expected;
  append(expected, outputs.at("prediction").values<float>());
  expected += weights_of(stage->parameters());
  for (const std::string set : {"scalar", "neon"}) {
    const auto out = folder.path() / set;
    const int status =
        wait_for_program(ProgramStart(HARMONICS_ARM64_EMULATOR, {"qemu", HARMONICS_ARM64_PROGRAM,
                                                                 set, folder.path() / "in", out})
                             .start());
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << set << ": status " << status;
    const std::string given = read_text_file(out, expected.size() + 1);
    ASSERT_EQ(given.size(), expected.size()) << set;
    EXPECT_EQ(std::memcmp(given.data(), expected.data(), expected.size()), 0) << set;
  }
}

#else

TEST(ExactArm64, ForwardPassAndStepOfLearningHaveTheSameBits) {
  GTEST_SKIP() << "g++-aarch64-linux-gnu and qemu-user-static were not there when this was built: "
                  "scripts/setup.sh --dev installs them";
}

#endif

}  // namespace
}  // namespace harmonics::inline in_runtime
