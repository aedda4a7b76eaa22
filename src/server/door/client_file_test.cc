#include <harmonics/server/client_file.h>

#include <gtest/gtest.h>

#include <harmonics/base/error.h>

#include <temporary_folder_testing.h>

namespace harmonics::inline in_server {
namespace {

namespace fs = std::filesystem;

class ClientFileTest : public testing::Test {
 protected:
  ClientFile read(const std::string& text) {
    return read_client_file(folder_.write("client.yml", text));
  }
  std::string error_of(const std::string& text) {
    try {
      static_cast<void>(read(text));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  TemporaryFolder folder_;
};

TEST_F(ClientFileTest, SaysWhereTheClusterIsAndPathsAreRelativeToIt) {
  const ClientFile file = read(
      "---\n# a comment\nscheduler: head-1:50051,head-2:50051  # two of them\n\ntls: .\n"
      "token_file: 'my token'\n");
  EXPECT_EQ(file.scheduler, "head-1:50051,head-2:50051");
  EXPECT_EQ(file.tls, fs::absolute(folder_.path()).lexically_normal() / "");
  EXPECT_EQ(file.token_file, fs::absolute(folder_.path()) / "my token");
  EXPECT_EQ(read("tls: /etc/harmonics\n").tls, "/etc/harmonics");
  EXPECT_TRUE(read("").scheduler.empty());
}

TEST_F(ClientFileTest, WhatIsWrittenIsRead) {
  const ClientFile file = read(client_file_text({"head.example:50051", "/a b/c", "/a/d#e"}));
  EXPECT_EQ(file.scheduler, "head.example:50051");
  EXPECT_EQ(file.tls, "/a b/c");
  EXPECT_EQ(file.token_file, "/a/d#e");
}

TEST_F(ClientFileTest, WhatIsWrongIsNamedWithItsLine) {
  EXPECT_NE(error_of("tls: a\nscheduller: b:1\n").find("client.yml:2"), std::string::npos);
  EXPECT_NE(error_of("scheduller: b:1\n").find("did you mean 'scheduler'?"), std::string::npos);
  EXPECT_NE(error_of("tls: a\ntls: b\n").find("given twice"), std::string::npos);
  EXPECT_NE(error_of("tls\n").find("'key: value'"), std::string::npos);
  EXPECT_NE(error_of("  tls: a\n").find("'key: value'"), std::string::npos);
  EXPECT_NE(error_of("tls:\n").find("has no value"), std::string::npos);
  EXPECT_NE(error_of("tls: \"a\n").find("in quotes"), std::string::npos);
  EXPECT_NE(error_of(std::string(100 << 10, '#')).find("client.yml"), std::string::npos);
}

}  // namespace
}  // namespace harmonics::inline in_server
