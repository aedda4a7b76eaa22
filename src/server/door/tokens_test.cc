#include "tokens.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>
#include <harmonics/server/state_folder.h>

#include <temporary_folder_testing.h>

namespace harmonics::inline in_server {
namespace {

namespace fs = std::filesystem;

class TokensTest : public testing::Test {
 protected:
  fs::path write(const std::string& text) { return folder_.write("tokens", text); }
  static unsigned mode_of(const fs::path& path) {
    struct stat status {};
    ::stat(path.c_str(), &status);
    return status.st_mode & 0777;
  }

  TemporaryFolder folder_;
};

TEST_F(TokensTest, TheOwnTokenOpensEverythingAndOthersOpenWhatTheySay) {
  Tokens tokens("0123456789abcdef", "ann");
  tokens.add_file(
      write("# a comment\n\nsubmit,view bob aaaaaaaaaaaaaaaa\nworker w bbbbbbbbbbbbbbbb\n"));
  EXPECT_TRUE(tokens.identify("0123456789abcdef", {})->may_administer);
  const auto bob = tokens.identify("aaaaaaaaaaaaaaaa", {});
  ASSERT_TRUE(bob);
  EXPECT_EQ(bob->user, "bob");
  EXPECT_TRUE(bob->may_submit && bob->may_view);
  EXPECT_FALSE(bob->may_administer || bob->may_work);
  EXPECT_TRUE(tokens.identify("bbbbbbbbbbbbbbbb", {})->may_work);
  for (const char* wrong : {"", "0123456789abcde", "0123456789abcdeff", "aaaaaaaaaaaaaaab"}) {
    EXPECT_FALSE(tokens.identify(wrong, {})) << wrong;
  }
  EXPECT_FALSE(tokens.identify("0123456789abcdef0123456789abcdef", {}));
}

TEST_F(TokensTest, WrongLinesAreNamed) {
  for (const char* line : {"king bob aaaaaaaaaaaaaaaa", "view bob", "view bob short",
                           "view bob aaaaaaaaaaaaaaaa more"}) {
    Tokens tokens("0123456789abcdef", "ann");
    try {
      tokens.add_file(write(std::string("# x\n") + line + "\n"));
      FAIL() << line;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("tokens:2"), std::string::npos) << error.what();
    }
  }
}

TEST_F(TokensTest, CeilingHolds) {
  std::string text;
  for (std::size_t i = 0; i < kMaxTokens; ++i) text += "view u aaaaaaaaaaaaaaaa\n";
  Tokens tokens("0123456789abcdef", "ann");
  EXPECT_THROW(tokens.add_file(write(text)), Error);
}

TEST_F(TokensTest, ATokenFileIsPrivateAndStays) {
  const std::string token = make_token_file(folder_);
  EXPECT_EQ(token.size(), 64u);
  EXPECT_EQ(mode_of(folder_ / "token"), 0600u);
  EXPECT_EQ(make_token_file(folder_), token);
  fs::permissions(folder_ / "token", fs::perms::group_read, fs::perm_options::add);
  EXPECT_THROW(static_cast<void>(read_token_file(folder_ / "token")), Error);
}

TEST_F(TokensTest, ALockKeepsASecondServerOut) {
  const FolderLock lock(folder_, "server");
  EXPECT_THROW(FolderLock(folder_, "server"), Error);
  const FolderLock other(folder_, "worker");
}

TEST_F(TokensTest, AFileThatChangesIsReadAgain) {
  Tokens tokens("0123456789abcdef", "ann");
  tokens.add_file(write("view bob aaaaaaaaaaaaaaaa\n"));
  Nanoseconds now = kTokensLook;
  EXPECT_TRUE(tokens.identify("aaaaaaaaaaaaaaaa", now));
  EXPECT_FALSE(tokens.identify("bbbbbbbbbbbbbbbb", now));
  write("view eve bbbbbbbbbbbbbbbb\n");
  EXPECT_TRUE(tokens.identify("bbbbbbbbbbbbbbbb", now)) << "at once";
  write("view eve cccccccccccccccc\nview eve bbbbbbbbbbbbbbbb\n");
  now += kTokensLook;
  EXPECT_TRUE(tokens.identify("bbbbbbbbbbbbbbbb", now));
  EXPECT_FALSE(tokens.identify("aaaaaaaaaaaaaaaa", now)) << "taken back";
  const LogCapture log;
  write("king eve bbbbbbbbbbbbbbbb\n");
  now += kTokensLook;
  EXPECT_TRUE(tokens.identify("bbbbbbbbbbbbbbbb", now)) << "a mistake locks nobody out";
  EXPECT_TRUE(tokens.identify("0123456789abcdef", now));
  ASSERT_EQ(log.lines().size(), 1u);
  EXPECT_NE(log.lines()[0].find("tokens:1"), std::string::npos) << log.lines()[0];
}

TEST_F(TokensTest, AStateFolderIsClosedAndSoIsWhatLeadsToIt) {
  make_state_folder(folder_ / "a" / "b");
  EXPECT_EQ(mode_of(folder_ / "a"), 0700u);
  EXPECT_EQ(mode_of(folder_ / "a" / "b"), 0700u);
}

}  // namespace
}  // namespace harmonics::inline in_server
