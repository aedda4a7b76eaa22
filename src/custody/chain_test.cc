#include <harmonics/custody/chain.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include <harmonics/base/file.h>

#include "custody_testing.h"

namespace harmonics::inline in_custody {
namespace {

using ::testing::HasSubstr;

Bytes file_bytes(const std::filesystem::path& path) {
  const std::string text = read_text_file(path);
  const ByteSpan bytes = bytes_of(text);
  return {bytes.begin(), bytes.end()};
}

TEST(ChainFile, SurvivesARoundTrip) {
  const Chain chain = line_chain(line_keys(2), 3);
  EXPECT_FALSE(chain.records.empty());
  const Bytes bytes = encode_chain(chain);
  const Chain again = decode_chain(bytes);
  EXPECT_EQ(again.opening, chain.opening);
  EXPECT_EQ(again.records, chain.records);
  EXPECT_EQ(encode_chain(again), bytes);
}

TEST(ChainFile, EveryCutIsTruncatedAndEveryFlipMalformed) {
  const Bytes bytes = encode_chain(line_chain(line_keys(2), 1));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto breach = breach_of([&] {
      const Chain cut = decode_chain(ByteSpan(bytes).first(size));
      (void)verify_one(cut, {});
    });
    EXPECT_EQ(breach, Breach::kTruncated) << size;
  }
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    Bytes flipped = bytes;
    flipped[at] ^= std::byte{0x10};
    EXPECT_TRUE(breach_of([&] { (void)decode_chain(flipped); })) << at;
  }
}

TEST(ChainFile, ARecordMayReachTheLimitAndNoMore) {
  Chain chain = line_chain(line_keys(2), 1);
  chain.records.push_back({RecordKind::kProof, 0, Bytes(kMaxChainRecordBytes)});
  EXPECT_EQ(decode_chain(encode_chain(chain)).records.size(), chain.records.size());
  chain.records.back().body.push_back(std::byte{0});
  EXPECT_THROW((void)encode_chain(chain), Error);
  // A claim of more is refused before anything is allocated.
  chain.records.pop_back();
  Bytes bytes = encode_chain(chain);
  for (int i = 0; i < 4; ++i) bytes.push_back(std::byte{0xff});
  bytes.resize(bytes.size() + 100, std::byte{2});
  EXPECT_EQ(breach_of([&] { (void)decode_chain(bytes); }), Breach::kMalformed);
}

TEST(ChainWriter, NeverOverwritesEvidence) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "run.chain";
  const Opening opening = line_opening(line_keys(2));
  { const ChainWriter writer(path, opening); }
  EXPECT_THROW(ChainWriter(path, opening), Error);
}

TEST(ChainWriter, CutsATornEndWhenTheRunResumes) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "run.chain";
  std::map<std::string, ChainPosition> positions;
  std::vector<Bytes> saved;
  LineRun run(line_keys(2), path);
  run.announce_weights();
  run.step(0);
  for (std::size_t i = 0; i < 2; ++i) {
    positions[stage_name_of(i)] = run.log(i).position();
    saved.push_back(run.log(i).save());
  }
  const Bytes whole = file_bytes(path);
  run.step(1);
  const Bytes longer = file_bytes(path);
  // A crash may leave any number of bytes after the checkpoint.
  for (std::size_t size = whole.size(); size <= longer.size(); size += 97) {
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(longer.data()), static_cast<std::streamsize>(size));
    { const ChainWriter writer(path, run.opening(), positions); }
    EXPECT_EQ(file_bytes(path), whole) << size;
  }
  run.start(std::make_shared<ChainWriter>(path, run.opening(), positions));
  for (std::size_t i = 0; i < 2; ++i) run.log(i).restore(saved[i]);
  run.step(1);
  run.close();
  EXPECT_EQ(file_bytes(path), encode_chain(line_chain(line_keys(2), 2)));
}

TEST(ChainWriter, ResumesOnlyTheChainOfItsCheckpoint) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "run.chain";
  LineRun run(line_keys(2), path);
  run.announce_weights();
  run.step(0);
  std::map<std::string, ChainPosition> positions;
  for (std::size_t i = 0; i < 2; ++i) positions[stage_name_of(i)] = run.log(i).position();
  EXPECT_EQ(breach_of([&] { ChainWriter(path, line_opening(line_keys(2), 9), positions); }),
            Breach::kOtherRun);
  auto ahead = positions;
  ahead["part1"].number = 5;
  EXPECT_EQ(breach_of([&] { ChainWriter(path, run.opening(), ahead); }), Breach::kRollback);
  auto other = positions;
  other["part0"].head[0] ^= std::byte{1};
  EXPECT_EQ(breach_of([&] { ChainWriter(path, run.opening(), other); }), Breach::kFork);
}

TEST(ChainFile, ErrorsNameThePath) {
  const TemporaryFolder folder;
  write_text_file(folder.path() / "x.chain", "HMCHAIN1 and then something else entirely");
  try {
    (void)read_chain(folder.path() / "x.chain");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("x.chain"));
  }
  EXPECT_THROW((void)read_chain(folder.path() / "absent"), Error);
}

}  // namespace
}  // namespace harmonics::inline in_custody
