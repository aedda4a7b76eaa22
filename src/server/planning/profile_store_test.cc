#include "profile_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#include <harmonics/base/file.h>

#include <temporary_folder_testing.h>

namespace harmonics::inline in_server {
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
  [[nodiscard]] fs::path profile_file() const {
    return store_.profile_files(spec_, {&place_, 1}).front();
  }
  [[nodiscard]] std::ptrdiff_t files() const {
    return std::distance(fs::directory_iterator(folder_ / "profiles"), {});
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

TEST_F(ProfileStoreTest, AFullFolderLosesWhatWasNotLookedUpForLongest) {
  const auto age = [](const fs::path& file, int hours) {
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  keep(0.5);
  const fs::path used = fs::directory_iterator(folder_ / "profiles")->path();
  age(used, 5);
  for (std::size_t k = 1; k < kMaxMeasurementFiles; ++k) {
    const fs::path file = folder_ / "profiles" / format("{}.json", k);
    std::ofstream(file) << "{}";
    age(file, k == 7 ? 4 : 3);
  }
  std::ofstream(folder_ / "profiles" / "note.txt") << "not ours";
  EXPECT_THAT(known(), ElementsAre(TrainedPart{3, 4, 0.5}));  // of use now
  keep(0.25, 1, 1);
  EXPECT_EQ(files(), kMaxMeasurementFiles + 1) << "what is there is written over";
  place_.spec.identity = "other@boot";
  keep(0.75);
  EXPECT_EQ(files(), kMaxMeasurementFiles + 1);
  EXPECT_THAT(known(), ElementsAre(TrainedPart{3, 4, 0.75}));
  EXPECT_TRUE(fs::exists(used));
  EXPECT_FALSE(fs::exists(folder_ / "profiles" / "7.json"));
  EXPECT_TRUE(fs::exists(folder_ / "profiles" / "note.txt"));

  const std::vector<PlanPlace> places(10, place_);
  EXPECT_EQ(store_.profile_files(spec_, places).size(), 10U);
  EXPECT_EQ(files(), kMaxMeasurementFiles + 1 - 10) << "room for all that are to come";
  EXPECT_TRUE(fs::exists(used));
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
  const fs::path file = profile_file();
  EXPECT_EQ(file.parent_path(), folder_ / "shared" / "profiles");
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
  write_text_file(profile_file(), "no profile");
  EXPECT_FALSE(store_.look_up(spec_, place_).measured);
  keep(0.75);
  EXPECT_THAT(known(), ElementsAre(TrainedPart{3, 4, 0.75}));
  keep(1.0, 4, 3);  // a plan that is none: nothing is kept that could not be read
  EXPECT_THAT(known(), ElementsAre(TrainedPart{3, 4, 0.75}));
}

}  // namespace
}  // namespace harmonics::inline in_server
