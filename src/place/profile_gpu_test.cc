// Profiles of a GPU. Skipped without one, unless HARMONICS_REQUIRE_GPU=1.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include <harmonics/graph/units.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/place/profile.h>
#include <harmonics/place/profile_machine.h>
#include <harmonics/runtime/devices.h>

namespace harmonics::inline in_place {
namespace {

using ::testing::Each;
using ::testing::Gt;

class ProfileGpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_available()) return;
    const char* required = std::getenv("HARMONICS_REQUIRE_GPU");
    if (required != nullptr && std::string(required) == "1") FAIL() << "no GPU answers";
    GTEST_SKIP() << "no GPU answers";
  }
};

TEST_F(ProfileGpuTest, EveryModeAndPrecision) {
  for (const char* dtype : {"torch.float32", "torch.bfloat16", "torch.float16"}) {
    for (const ProfileMode mode : {ProfileMode::kInference, ProfileMode::kTraining}) {
      for (const char* name : {"lenet-digits", "transformer-small"}) {
        SCOPED_TRACE(format("{} {} {}", dtype, profile_mode_name(mode), name));
        ProfileOptions options;
        options.backend = Backend::GPU;
        options.dtype = dtype;
        options.mode = mode;
        const GraphProfile profile = profile_graph(zoo_graph(name), options, SteadyClock());
        EXPECT_EQ(profile.parameters_out, crossing_elements(zoo_graph(name)));
        EXPECT_THAT(profile.times().time_s, Each(Gt(0.0)));
      }
    }
  }
}

TEST_F(ProfileGpuTest, TheDriverSaysWhatIsFree) {
  const auto free = free_gpu_memory_bytes(0);
  ASSERT_TRUE(free.has_value());
  EXPECT_GT(*free, std::int64_t{1} << 28);
  EXPECT_EQ(free_gpu_memory_bytes(1'000), std::nullopt);
}

}  // namespace
}  // namespace harmonics::inline in_place
