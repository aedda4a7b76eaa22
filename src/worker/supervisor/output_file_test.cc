#include "output_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <temporary_folder_testing.h>

namespace harmonics::inline in_worker {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public testing::Test {
 protected:
  /// What is kept, by where in the stream it begins.
  std::map<std::uint64_t, std::string> kept() const {
    std::map<std::uint64_t, std::string> files;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      files[std::stoull(entry.path().extension().string().substr(1))] = text.str();
    }
    return files;
  }

  TemporaryFolder folder_;
};

TEST_F(OutputFileTest, MakesNoFileForNoBytes) {
  { OutputFile file(folder_ / "out", 4, 8); }
  EXPECT_TRUE(kept().empty());
}

TEST_F(OutputFileTest, FilesAreNamedByTheirPlaceInTheStream) {
  OutputFile file(folder_ / "out", 4, 100);
  file.append("abc");
  file.append("defghij");
  const std::map<std::uint64_t, std::string> expected = {{0, "abcd"}, {4, "efgh"}, {8, "ij"}};
  EXPECT_EQ(kept(), expected);
}

TEST_F(OutputFileTest, KeepsTheNewestWithinItsCeiling) {
  OutputFile file(folder_ / "out", 4, 10);
  std::string all;
  for (int i = 0; i < 100; ++i) {
    const std::string piece(static_cast<std::size_t>(i % 7), static_cast<char>('a' + i % 26));
    file.append(piece);
    all += piece;
    std::uint64_t bytes = 0;
    for (const auto& [start, text] : kept()) {
      EXPECT_EQ(text, all.substr(start, text.size()));
      bytes += text.size();
    }
    EXPECT_LE(bytes, 10u);
    EXPECT_GE(bytes, std::min<std::uint64_t>(all.size(), 5));
  }
  EXPECT_EQ(file.dropped_bytes(), 0u);
}

TEST_F(OutputFileTest, CountsWhatCannotBeWritten) {
  OutputFile file(folder_ / "no-such-folder" / "out", 4, 10);
  file.append("12345");
  EXPECT_EQ(file.dropped_bytes(), 5u);
}

}  // namespace
}  // namespace harmonics::inline in_worker
