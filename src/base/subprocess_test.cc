#include <harmonics/base/subprocess.h>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include <harmonics/base/descriptor.h>
#include <harmonics/base/file.h>

#include "error_testing.h"
#include "temporary_folder_testing.h"

namespace harmonics::inline in_base {
namespace {

ProgramStart shell(const std::string& script) { return {"/bin/sh", {"sh", "-c", script}}; }

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    reader.reset(ends[0]);
    writer.reset(ends[1]);
  }
  std::string read_all() {
    writer.reset();
    std::string text;
    std::array<char, 256> chunk;
    for (ssize_t got = 0; (got = ::read(reader.get(), chunk.data(), chunk.size())) > 0;) {
      text.append(chunk.data(), static_cast<std::size_t>(got));
    }
    return text;
  }
  Descriptor reader;
  Descriptor writer;
};

TEST(Subprocess, AnEndIsTold) {
  const int status = wait_for_program(shell("exit 3").start());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

TEST(Subprocess, WhatIsPlacedIsWhatItHas) {
  Pipe output;
  Pipe extra;
  const pid_t child = shell("read line; echo out $line $WORD; echo seven >&7")
                          .place(output.writer.get(), STDOUT_FILENO)
                          .place(extra.writer.get(), 7)
                          .mute(STDIN_FILENO)
                          .environment({"WORD=spoken"})
                          .start();
  EXPECT_EQ(output.read_all(), "out spoken\n") << "nothing to read, and only that variable";
  EXPECT_EQ(extra.read_all(), "seven\n");
  EXPECT_EQ(wait_for_program(child), 0);
}

TEST(Subprocess, AFileTakesWhatIsWritten) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "out";
  for (const char* word : {"a longer one", "two"}) {
    const pid_t child = shell(std::string("echo ") + word).write_to(STDOUT_FILENO, file).start();
    EXPECT_EQ(wait_for_program(child), 0);
  }
  EXPECT_EQ(read_text_file(file, 100), "two\n");
  EXPECT_EQ(std::filesystem::status(file).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST(Subprocess, WhatIsNotThereIsNamed) {
  const ProgramStart missing("/nonexistent/program", {"program"});
  EXPECT_EQ(missing.try_start().failure, ENOENT);
  EXPECT_EQ(missing.try_start().pid, -1);
  expect_error(ErrorCode::kNotFound, "'/nonexistent/program'", [&] { (void)missing.start(); });
}

TEST(Subprocess, OneThatRunsHasNotEndedAndOneThatIsKilledHas) {
  Pipe held;
  const pid_t child = shell("read line").place(held.reader.get(), STDIN_FILENO).start();
  EXPECT_EQ(ended_program(child), std::nullopt);
  kill_program(child);
  EXPECT_EQ(ended_program(child), std::nullopt) << "it was waited for";
  kill_program(-1);
}

TEST(Subprocess, ItsOwnGroupAndSignalsThatWait) {
  Pipe held;
  Pipe output;
  const pid_t child = shell("read line; kill -TERM $$; echo still here; trap 'exit 5' TERM")
                          .place(held.reader.get(), STDIN_FILENO)
                          .place(output.writer.get(), STDOUT_FILENO)
                          .own_group()
                          .hold_back({SIGTERM})
                          .start();
  EXPECT_EQ(::getpgid(child), child);
  held.writer.reset();
  EXPECT_EQ(output.read_all(), "still here\n");
  EXPECT_EQ(wait_for_program(child), 0) << "it never asked for the signal";
}

}  // namespace
}  // namespace harmonics::inline in_base
