#include "artifacts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <temporary_folder_testing.h>

namespace harmonics::inline in_worker {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t kPlenty = 1 << 20;

class ArtifactsTest : public testing::Test {
 protected:
  ArtifactsTest() {
    fs::create_directories(work());
    fs::create_directories(folder());
  }

  fs::path work() const { return root_ / "work"; }
  fs::path folder() const { return root_ / "17.1"; }
  static void write(const fs::path& file, const std::string& text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::string keep(const std::vector<std::string>& patterns, std::uint64_t bytes = kPlenty) {
    return keep_artifacts({patterns, bytes}, work(), folder());
  }
  std::vector<std::string> kept() const {
    std::vector<std::string> paths;
    for (const Artifact& one : list_artifacts(folder())) paths.push_back(one.path);
    return paths;
  }

  TemporaryFolder root_;
};

TEST_F(ArtifactsTest, FilesFoldersAndPatternsAreCopied) {
  for (const char* file : {"a.pt", "b.pt", "c.txt", ".hidden.pt", "out/deep/x", "out/y", "run"}) {
    write(work() / file, file);
  }
  EXPECT_EQ(keep({"*.pt", "out", "out/y", "./run"}), "");
  EXPECT_THAT(kept(), ElementsAre("a.pt", "b.pt", "out/deep/x", "out/y", "run"));
  EXPECT_TRUE(fs::exists(work() / "a.pt")) << "a folder of the user's own stays as it is";
  EXPECT_EQ(list_artifacts(folder())[2].bytes, 10u);
}

TEST_F(ArtifactsTest, InTheAttemptsOwnFolderTheyAreMovedAndRecordsAreNotTaken) {
  for (const char* file : {"run", "state", "out.0", "err.4096", "metrics.0", "out.txt", "model"}) {
    write(folder() / file, file);
  }
  EXPECT_EQ(keep_artifacts({{"*"}, kPlenty}, folder(), folder()), "");
  EXPECT_THAT(kept(), ElementsAre("model", "out.txt"));
  EXPECT_FALSE(fs::exists(folder() / "model"));
  EXPECT_TRUE(fs::exists(folder() / "out.0"));
}

TEST_F(ArtifactsTest, WhatIsNotKeptIsSaid) {
  write(work() / "small", "1234");
  write(work() / "large", std::string(100, 'x'));
  fs::create_symlink("/etc/passwd", work() / "link");
  write(root_ / "secret", "s");
  const std::string said =
      keep({"small", "large", "link", "absent", "../secret", "/etc/passwd"}, 50);
  EXPECT_THAT(kept(), ElementsAre("small"));
  for (const char* part :
       {"'large' is past the limit of 50 bytes", "'link' is no regular file",
        "nothing matches 'absent'", "nothing matches '../secret'", "and 1 more"}) {
    EXPECT_THAT(said, HasSubstr(part));
  }
}

TEST_F(ArtifactsTest, TheNumberOfFilesHasACeiling) {
  for (int i = 0; i < 8; ++i) std::ofstream(work() / std::to_string(i));
  EXPECT_THAT(keep_artifacts({{"*"}, kPlenty, 7}, work(), folder()), HasSubstr("or 7 files"));
  EXPECT_EQ(kept().size(), 7u);
}

TEST_F(ArtifactsTest, OnlyWhatWasKeptIsFound) {
  write(work() / "out/y", "y");
  EXPECT_EQ(keep({"out"}), "");
  write(folder() / "state", "s");
  fs::create_symlink("/etc", folder() / kArtifactsFolder / "etc");
  EXPECT_TRUE(find_artifact(folder(), "out/y"));
  for (const char* path :
       {"", "out", "absent", "../state", "/etc/passwd", "etc/passwd", "out/../../state"}) {
    EXPECT_FALSE(find_artifact(folder(), path)) << path;
  }
}

}  // namespace
}  // namespace harmonics::inline in_worker
