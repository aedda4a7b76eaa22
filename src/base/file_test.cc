#include <harmonics/base/file.h>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <set>

#include <harmonics/base/error.h>

#include <temporary_folder_testing.h>

namespace harmonics::inline in_base {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FileTest : public ::testing::Test {
 protected:
  void put(const fs::path& path, std::string_view text) const {
    std::ofstream(path, std::ios::binary) << text;
  }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      found.insert(entry.path().filename().string());
    }
    return found;
  }
  template <typename Use>
  static Error error_of(const Use& use) {
    try {
      use();
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "nothing was thrown";
    return {ErrorCode::kUnknown, ""};
  }

  TemporaryFolder folder_;
};

using Names = std::set<std::string>;

// The id of a process that has ended and been waited for.
pid_t dead_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

TEST_F(FileTest, ReadsWhatWasWritten) {
  const std::string text = std::string(200'000, 'x') + '\0' + "end";
  write_text_file(folder_ / "a", text);
  EXPECT_EQ(read_text_file(folder_ / "a"), text);
  write_text_file(folder_ / "a", "");
  EXPECT_EQ(read_text_file(folder_ / "a"), "");
  EXPECT_EQ(names(), Names({"a"}));
}

TEST_F(FileTest, ReadsUpToTheLimitAndNoFurther) {
  put(folder_ / "a", "12345");
  EXPECT_EQ(read_text_file(folder_ / "a", 5), "12345");
  const Error error = error_of([&] { (void)read_text_file(folder_ / "a", 4); });
  EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(error.what(), HasSubstr("larger than the limit of 4 bytes"));
}

TEST_F(FileTest, NamesTheFileThatCannotBeRead) {
  const Error missing = error_of([&] { (void)read_text_file(folder_ / "none"); });
  EXPECT_EQ(missing.code(), ErrorCode::kNotFound);
  EXPECT_THAT(missing.what(), HasSubstr((folder_ / "none").string()));
  EXPECT_THAT(error_of([&] { (void)read_text_file(folder_); }).what(),
              HasSubstr(folder_.path().string()));
}

TEST_F(FileTest, ListsAFolderInOrder) {
  write_text_file(folder_ / "b", "");
  write_text_file(folder_ / "a", "");
  std::filesystem::create_directory(folder_ / "c");
  const std::vector<std::filesystem::path> expected = {folder_ / "a", folder_ / "b", folder_ / "c"};
  EXPECT_EQ(list_folder(folder_), expected);
  EXPECT_TRUE(list_folder(folder_ / "none").empty());
  EXPECT_THROW(static_cast<void>(list_folder(folder_ / "a")), Error);
}

TEST_F(FileTest, RemovesAFolderWithAllThatItHolds) {
  const std::filesystem::path top = folder_ / "top";
  std::filesystem::create_directories(top / "deep" / "deeper");
  write_text_file(top / "deep" / "file", "x");
  write_text_file(folder_ / "kept", "x");
  std::filesystem::create_symlink(folder_ / "kept", top / "link");
  remove_tree(top);
  remove_tree(top);
  EXPECT_EQ(list_folder(folder_), std::vector{folder_ / "kept"});
}

TEST_F(FileTest, WithoutCommitTheTargetIsUntouched) {
  put(folder_ / "a", "old");
  {
    AtomicFile file(folder_ / "a");
    file.write(bytes_of("new"));
    EXPECT_EQ(read_text_file(folder_ / "a"), "old");
  }
  EXPECT_EQ(read_text_file(folder_ / "a"), "old");
  EXPECT_EQ(names(), Names({"a"}));
}

TEST_F(FileTest, OverwritesBytesAndGoesOnAtTheEnd) {
  AtomicFile file(folder_ / "a");
  file.write(bytes_of("digest:____;"));
  file.write_at(7, bytes_of("1234"));
  file.write(bytes_of("end"));
  file.commit();
  EXPECT_EQ(read_text_file(folder_ / "a"), "digest:1234;end");
}

TEST_F(FileTest, ALinkStaysAndItsFileIsReplaced) {
  put(folder_ / "file", "old");
  fs::create_symlink(folder_ / "file", folder_ / "link");
  write_text_file(folder_ / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(read_text_file(folder_ / "file"), "new");
  EXPECT_EQ(names(), Names({"file", "link"}));
}

TEST_F(FileTest, WhatIsNoFileIsWrittenAsItGoes) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  const int reader = ::open((folder_ / "pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  write_text_file(folder_ / "pipe", "through");
  char text[16] = {};
  EXPECT_EQ(::read(reader, text, sizeof text), 7);
  ::close(reader);
  EXPECT_STREQ(text, "through");
  EXPECT_TRUE(fs::is_fifo(folder_ / "pipe"));
  EXPECT_EQ(names(), Names({"pipe"}));

  fs::create_symlink("/dev/full", folder_ / "full");  // renamed over, it would be no link any more
  const Error full = error_of([&] { write_text_file(folder_ / "full", "x"); });
  EXPECT_THAT(full.what(), HasSubstr("No space left"));
  EXPECT_TRUE(fs::is_symlink(folder_ / "full"));
}

TEST_F(FileTest, AnOpenStreamIsAddedTo) {
  put(folder_ / "log", "before ");
  const int log = ::open((folder_ / "log").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  ASSERT_GE(log, 0);
  write_text_file("/dev/fd/" + std::to_string(log), "after");
  ::close(log);
  EXPECT_EQ(read_text_file(folder_ / "log"), "before after");
}

TEST_F(FileTest, ErrorsNameAFileAsItWasNamed) {
  put(folder_ / "a", "old");
  const fs::path winding = folder_ / "." / "a";
  const Error error = error_of([&] {
    AtomicFile file(winding);
    fs::remove_all(folder_.path());
    file.commit();
  });
  EXPECT_THAT(error.what(), HasSubstr(winding.string()));
}

TEST_F(FileTest, AFolderThatIsMissingIsNamed) {
  const Error error = error_of([&] { const AtomicFile file(folder_ / "none" / "a"); });
  EXPECT_THAT(error.what(), HasSubstr("none' first): No such file or directory"));
}

TEST_F(FileTest, AFolderIsNoTarget) {
  const Error error = error_of([&] { const AtomicFile file(folder_.path()); });
  EXPECT_THAT(error.what(), HasSubstr("Is a directory"));
}

TEST_F(FileTest, AProcessKilledWhileWritingLeavesTheOldFileAndTheNextOneCleansUp) {
  put(folder_ / "a", "old");
  const pid_t child = ::fork();
  if (child == 0) {
    AtomicFile file(folder_ / "a");
    file.write(bytes_of("half of the new"));
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(names(), Names({"a", "a.part-" + std::to_string(child)}));
  EXPECT_EQ(read_text_file(folder_ / "a"), "old");

  write_text_file(folder_ / "a", "new");
  EXPECT_EQ(names(), Names({"a"}));
  EXPECT_EQ(read_text_file(folder_ / "a"), "new");
}

TEST_F(FileTest, RemovesOnlyLitterOfItsOwnTarget) {
  const std::string dead = std::to_string(dead_process());
  const std::string alive = std::to_string(::getppid());
  for (const std::string& name : {"a.part-" + dead, "b.part-" + dead, "a.part-" + alive,
                                  "a.part-" + dead + "x", std::string("a.part-")}) {
    put(folder_ / name, "litter");
  }
  write_text_file(folder_ / "a", "new");
  EXPECT_EQ(names(),
            Names({"a", "b.part-" + dead, "a.part-" + alive, "a.part-" + dead + "x", "a.part-"}));
}

TEST_F(FileTest, AReadOnlyFolderIsAnErrorThatNamesTheTarget) {
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read |
                               fs::perms::others_exec);
  constexpr uid_t kNobody = 65534;
  const bool root = ::geteuid() == 0;  // whom permissions do not stop
  if (root && ::seteuid(kNobody) != 0) GTEST_SKIP() << "cannot give up the rights of root";
  const Error error = error_of([&] { write_text_file(folder_ / "a", "new"); });
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  fs::permissions(folder_, fs::perms::owner_all);
  EXPECT_EQ(error.code(), ErrorCode::kPermissionDenied);
  EXPECT_THAT(error.what(), HasSubstr((folder_ / "a").string()));
  EXPECT_EQ(names(), Names());
}

TEST_F(FileTest, AMissingFolderIsAnErrorThatNamesTheTarget) {
  const Error error = error_of([&] { write_text_file(folder_ / "none" / "a", "new"); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_THAT(error.what(), HasSubstr((folder_ / "none" / "a").string()));
}

TEST_F(FileTest, ADiskThatIsFullLeavesTheOldFileAndNothingElse) {
  put(folder_ / "a", "old");
  // A limit on file size stands for the full disk: write() fails in the same place.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Error error = error_of([&] { write_text_file(folder_ / "a", std::string(10'000, 'x')); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(error.what(), HasSubstr("cannot write '" + (folder_ / "a").string()));
  EXPECT_EQ(names(), Names({"a"}));
  EXPECT_EQ(read_text_file(folder_ / "a"), "old");
}

TEST_F(FileTest, ATargetThatIsAFolderIsAnErrorAndStays) {
  fs::create_directory(folder_ / "a");
  EXPECT_THAT(error_of([&] { write_text_file(folder_ / "a", "new"); }).what(),
              HasSubstr("cannot write '" + (folder_ / "a").string()));
  EXPECT_EQ(names(), Names({"a"}));
}

}  // namespace
}  // namespace harmonics::inline in_base
