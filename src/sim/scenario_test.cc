// Every file of tests/scenarios holds, word for word.
// HARMONICS_REWRITE_SCENARIOS=1 writes what came out into the files instead: read the diff.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>

#include <tree_testing.h>

#include "scenario.h"

namespace harmonics::inline in_sim {
namespace {

std::vector<std::filesystem::path> scenario_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(source_folder() / "tests/scenarios")) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(Scenarios, HoldWordForWord) {
  const auto files = scenario_files();
  ASSERT_GE(files.size(), 12U);
  for (const std::filesystem::path& file : files) {
    SCOPED_TRACE(file.filename().string());
    const std::string text = read_text_file(file);
    const std::string played = play_scenario(text);
    if (std::getenv("HARMONICS_REWRITE_SCENARIOS") != nullptr) {
      if (played != text) write_text_file(file, played);
    } else {
      EXPECT_EQ(played, text);
    }
  }
}

TEST(Scenarios, AWrongExpectationShows) {
  const std::string text = "> submit ann a\n< task 7\n";
  EXPECT_EQ(play_scenario(text), "> submit ann a\n< task 1\n");
}

TEST(Scenarios, WhatCannotBeReadNamesItsLine) {
  for (const char* text : {"> dance\n", "> submit ann\n", "> submit ann a gpus=x\n",
                           "> submit ann a colour=1\n", "> wait 5\n"}) {
    try {
      (void)play_scenario(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("line 1"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace harmonics::inline in_sim
