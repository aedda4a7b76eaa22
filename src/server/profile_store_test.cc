#include "profile_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/base/file.h>

#include <temporary_folder_testing.h>

namespace harmonics {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

class ProfileStoreTest : public testing::Test {
 protected:
  ProfileStoreTest() {
    spec_.graph = "harmonic net {}";
    place_.spec.name = "w";
    place_.spec.identity = "machine@boot";
  }

  /// Rank 1 of a plan of two stages with two units each.
  void keep(double seconds, std::int64_t first = 3, std::int64_t last = 4) {
    auto submission = std::make_shared<Submission>();
    submission->spec.pipeline = spec_;
    const std::string plan =
        format(R"({{"stages": [{{"layers": [1, 2]}}, {{"layers": [{}, {}]}}]}})", first, last);
    store_.keep({submission, place_, plan, 1, seconds});
  }
  [[nodiscard]] std::vector<TrainedPart> known() const {
    return store_.look_up(spec_, place_).trained;
  }

  TemporaryFolder folder_;
  PipelineSpec spec_;
  PlanPlace place_;
  ProfileStore store_{folder_ / "profiles"};
};

TEST_F(ProfileStoreTest, KeepsTheNewestOfEachPart) {
  EXPECT_THAT(known(), IsEmpty());
  keep(0.5);
  keep(0.25, 3, 3);
  keep(0.75);
  EXPECT_THAT(known(), ElementsAre(TrainedPart{3, 3, 0.25}, TrainedPart{3, 4, 0.75}));
  EXPECT_FALSE(store_.look_up(spec_, place_).measured);
}

TEST_F(ProfileStoreTest, HasACeiling) {
  for (std::int64_t last = 1; last <= 20; ++last) keep(static_cast<double>(last), 1, last);
  const std::vector<TrainedPart> parts = known();
  EXPECT_EQ(parts.size(), kMaxTrainedParts);
  EXPECT_EQ(parts.back().last, 20U);
}

TEST_F(ProfileStoreTest, AnotherModelWorkerOrSettingKnowsNothing) {
  keep(0.5);
  const PlanPlace same_after_boot = [&] {
    PlanPlace place = place_;
    place.spec.identity = "machine@another";
    return place;
  }();
  EXPECT_THAT(store_.look_up(spec_, same_after_boot).trained, ElementsAre(TrainedPart{3, 4, 0.5}));
  place_.spec.identity = "other@boot";
  EXPECT_THAT(known(), IsEmpty());
  place_.spec.identity = "machine@boot";
  place_.devices = first_devices(1);
  EXPECT_THAT(known(), IsEmpty());
  place_.devices = {};
  spec_.settings = {{"threads", "2"}};
  EXPECT_THAT(known(), IsEmpty());
  spec_.settings = {{"epochs", "2"}};
  EXPECT_THAT(known(), ElementsAre(TrainedPart{3, 4, 0.5}));
  spec_.graph += " ";
  EXPECT_THAT(known(), IsEmpty());
}

TEST_F(ProfileStoreTest, ProfilesLieInTheFolderThatIsShared) {
  spec_.checkpoint = (folder_ / "shared").string();
  const auto file = store_.profile_file(spec_, place_);
  EXPECT_EQ(file.parent_path(), folder_ / "shared" / "profiles");
  fs::create_directories(file.parent_path());
  write_text_file(file, R"({"profiles": [{"layers": [{"time_s": 1.5}, {"time_s": 2}]}]})");
  EXPECT_THAT(store_.look_up(spec_, place_).measured->unit_s, ElementsAre(1.5, 2.0));
}

TEST_F(ProfileStoreTest, WhatIsBrokenCountsAsNotMeasured) {
  keep(0.5);
  fs::path file;
  for (const auto& entry : fs::directory_iterator(folder_ / "profiles")) {
    file = entry.path();
  }
  for (const char* text : {"", "{", R"({"parts": [{"layers": [2, 1], "micro_batch_s": 1}]})",
                           R"({"parts": [{"layers": [1, 1], "micro_batch_s": -1}]})"}) {
    write_text_file(file, text);
    EXPECT_THAT(known(), IsEmpty()) << text;
  }
  write_text_file(store_.profile_file(spec_, place_), "no profile");
  EXPECT_FALSE(store_.look_up(spec_, place_).measured);
  keep(0.75);
  EXPECT_THAT(known(), ElementsAre(TrainedPart{3, 4, 0.75}));
  keep(1.0, 4, 3);  // a plan that is none: nothing is kept that could not be read
  EXPECT_THAT(known(), ElementsAre(TrainedPart{3, 4, 0.75}));
}

}  // namespace
}  // namespace harmonics
