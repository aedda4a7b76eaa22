#include <harmonics/base/log.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <thread>

namespace harmonics::inline in_base {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Log, CaptureTakesLinesOfEveryLevelAndGivesTheLevelBack) {
  set_log_level(LogLevel::kError);
  {
    LogCapture capture;
    log_debug("graph", "{} layers", 3);
    log_info("data", "ready");
    log_warn("place", "no GPU");
    EXPECT_THAT(capture.lines(),
                ElementsAre("debug graph: 3 layers", "info data: ready", "warn place: no GPU"));
  }
  EXPECT_EQ(log_level(), LogLevel::kError);
}

TEST(Log, AnEventIsOneHarmlessLineWhateverItQuotes) {
  LogCapture capture;
  log_warn("server", "worker '{}' fell silent", "x\x1b[2J\nwarning server: all is lost");
  EXPECT_THAT(
      capture.lines(),
      ElementsAre("warn server: worker 'x\\x1b[2J\\nwarning server: all is lost' fell silent"));
}

TEST(Log, CaptureLosesNothingWhenThreadsSpeakAtOnce) {
  LogCapture capture;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      for (int line = 0; line < 250; ++line) log_info("base", "{} {}", i, line);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(capture.lines().size(), 1000u);
}

// Run by the tests below in a process of its own, since levels are read when a process starts.
TEST(Log, DISABLED_Speaks) {
  log_debug("base", "a debug line");
  log_info("base", "an info line");
  log_warn("base", "a warning");
}

std::string spoken_under(const std::string& level) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = "HARMONICS_LOG=" + level + " '" + self +
                              "' --gtest_also_run_disabled_tests --gtest_filter=Log.DISABLED_Speaks"
                              " 2>&1 >/dev/null";
  std::string text;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  char chunk[256];
  while (const std::size_t got = std::fread(chunk, 1, sizeof chunk, pipe)) text.append(chunk, got);
  EXPECT_EQ(::pclose(pipe), 0);
  return text;
}

TEST(Log, TheEnvironmentChoosesTheLevel) {
  EXPECT_EQ(spoken_under("warn"), "warning base: a warning\n");
  EXPECT_THAT(spoken_under("info"), HasSubstr("info base: an info line\n"));
  EXPECT_THAT(spoken_under("info"), Not(HasSubstr("a debug line")));
  EXPECT_THAT(spoken_under("debug"), HasSubstr("debug base: a debug line\n"));
  EXPECT_EQ(spoken_under("off"), "");
  EXPECT_EQ(spoken_under("nonsense"), "warning base: a warning\n");
}

}  // namespace
}  // namespace harmonics::inline in_base
