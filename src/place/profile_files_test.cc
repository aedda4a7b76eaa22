#include <harmonics/place/profile_files.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/log.h>
#include <harmonics/plan/cost_model.h>

#include <temporary_folder_testing.h>

namespace harmonics::inline in_place {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

GraphProfile profile_of(std::int64_t batch, const std::string& dtype,
                        const std::vector<double>& seconds) {
  GraphProfile profile;
  profile.batch_size = batch;
  profile.dtype = dtype;
  profile.parameters_in = 12;
  for (const double time_s : seconds) {
    UnitProfile unit;
    unit.name = "block." + std::to_string(profile.units.size());
    unit.time_s = time_s;
    unit.memory.weights = static_cast<std::int64_t>(kBytesPerMegabyte);
    unit.memory.activations = batch * static_cast<std::int64_t>(kBytesPerMegabyte) / 2;
    unit.shapes_in = {{3, 4}};
    unit.shapes_out = {{7}, {2, 2}};
    profile.units.push_back(unit);
    profile.parameters_out.push_back(11);
  }
  return profile;
}

const MeasuredMachine kMachine{"box", 1000, 4096};

TEST(MergeProfiles, AddsToWhatIsThere) {
  ProfileTables tables;
  tables.models["other"] = {{1.0}, 2, {3}};
  tables.types["board"] = {100, 512, {{"other", {{8, "torch.float32", {0.5}}}}}};
  tables.types["box"] = {10,
                         20,
                         {{"other", {{8, "torch.float32", {0.25}}}},
                          {"net",
                           {{1, "torch.float32", {9, 9}},
                            {8, "torch.float32", {8, 8}},
                            {8, "torch.bfloat16", {7, 7}}}}}};
  const std::vector<GraphProfile> profiles = {profile_of(8, "torch.float32", {1, 2}),
                                              profile_of(2, "torch.float32", {3, 4})};
  merge_profiles(tables, "net", kMachine, profiles);
  EXPECT_EQ(tables.models.size(), 2u);
  EXPECT_THAT(tables.models["net"].memory_mb, ElementsAre(5.0, 5.0));  // of batch size 8
  EXPECT_EQ(tables.models["net"].parameters_in, 12);
  EXPECT_THAT(tables.models["net"].parameters_out, ElementsAre(11, 11));
  EXPECT_EQ(tables.types["board"].models["other"][0].time_s[0], 0.5);
  const DeviceTypeProfile& box = tables.types["box"];
  EXPECT_EQ(box.bandwidth_mbps, 1000);
  EXPECT_EQ(box.memory_mb, 4096);
  EXPECT_EQ(box.models.at("other")[0].time_s[0], 0.25);
  EXPECT_THAT(
      box.models.at("net"),
      ElementsAre(LayerTimes{1, "torch.float32", {9, 9}}, LayerTimes{8, "torch.float32", {1, 2}},
                  LayerTimes{8, "torch.bfloat16", {7, 7}}, LayerTimes{2, "torch.float32", {3, 4}}));
}

TEST(MergeProfiles, TimesOfAnotherGraphAreDroppedWithAWarning) {
  ProfileTables tables;
  tables.types["board"] = {100, 512, {{"net", {{8, "torch.float32", {1, 2, 3}}}}}};
  const LogCapture capture;
  merge_profiles(tables, "net", kMachine, std::vector{profile_of(8, "torch.float32", {1, 2})});
  EXPECT_TRUE(tables.types["board"].models["net"].empty());
  EXPECT_THAT(capture.lines(), Contains(HasSubstr("'board': 1 measurement(s) of 'net' dropped")));
}

TEST(MergeProfiles, OneModelHasOneNumberOfLayers) {
  ProfileTables tables;
  const std::vector<GraphProfile> profiles = {profile_of(8, "torch.float32", {1, 2}),
                                              profile_of(2, "torch.float32", {3})};
  EXPECT_THROW(merge_profiles(tables, "net", kMachine, profiles), Error);
}

TEST(ResultsText, HasEveryShape) {
  const std::vector<GraphProfile> profiles = {profile_of(8, "torch.float32", {0.5}),
                                              profile_of(2, "torch.bfloat16", {0.25})};
  EXPECT_EQ(results_to_yaml("a/net", profiles),
            "model_name: \"a/net\"\ndtype: torch.float32\nbatch_size: 8\nmode: inference\n"
            "layers: 1\nprofile_data:\n- layer: 1\n  name: \"block.0\"\n  time: 0.5\n"
            "  memory: 5\n  shape_in: [[3, 4]]\n  shape_out: [[7], [2, 2]]\n"
            "---\n"
            "model_name: \"a/net\"\ndtype: torch.bfloat16\nbatch_size: 2\nmode: inference\n"
            "layers: 1\nprofile_data:\n- layer: 1\n  name: \"block.0\"\n  time: 0.25\n"
            "  memory: 2\n  shape_in: [[3, 4]]\n  shape_out: [[7], [2, 2]]\n");
}

class ProfileFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    files_ = {folder_ / "models.yml", folder_ / "types.yml", folder_ / "results.yml"};
  }

  void profile(const std::string& model, const MeasuredMachine& machine,
               const GraphProfile& measured) {
    ProfileTables tables = read_profile_tables(files_);
    merge_profiles(tables, model, machine, std::vector{measured});
    write_profile_files(files_, tables, results_to_yaml(model, std::vector{measured}));
  }

  TemporaryFolder folder_;
  ProfileFiles files_;
};

TEST_F(ProfileFilesTest, MergesOverSeveralRuns) {
  profile("net", kMachine, profile_of(8, "torch.float32", {1, 2}));
  profile("net", {"board", 100, 512}, profile_of(8, "torch.float32", {5, 6}));
  profile("mesh", kMachine, profile_of(1, "torch.float32", {7}));
  const ModelTable models = parse_models(read_text_file(files_.models), "models");
  const DeviceTypeTable types = parse_device_types(read_text_file(files_.types), "types", models);
  EXPECT_EQ(models.size(), 2u);
  EXPECT_THAT(types.at("box").models.at("net")[0].time_s, ElementsAre(1, 2));
  EXPECT_THAT(types.at("board").models.at("net")[0].time_s, ElementsAre(5, 6));
  EXPECT_THAT(types.at("box").models.at("mesh")[0].time_s, ElementsAre(7));
  EXPECT_THAT(read_text_file(files_.results), HasSubstr("model_name: \"mesh\""));
}

TEST_F(ProfileFilesTest, AModelThatChangedIsMended) {
  profile("net", kMachine, profile_of(8, "torch.float32", {1, 2}));
  profile("net", kMachine, profile_of(8, "torch.float32", {1, 2, 3}));
  const ModelTable models = parse_models(read_text_file(files_.models), "models");
  EXPECT_EQ(models.at("net").layers(), 3u);
  (void)parse_device_types(read_text_file(files_.types), "types", models);
}

TEST_F(ProfileFilesTest, ABrokenFileIsAnErrorAndStaysAsItIs) {
  write_text_file(files_.models, "net: [1, 2\n");
  EXPECT_THROW(profile("net", kMachine, profile_of(8, "torch.float32", {1})), Error);
  EXPECT_EQ(read_text_file(files_.models), "net: [1, 2\n");
  EXPECT_FALSE(std::filesystem::exists(files_.types));
}

}  // namespace
}  // namespace harmonics::inline in_place
