#include <harmonics/cluster/fact_codec.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>

#include "fact_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_cluster {
namespace {

std::vector<Fact> read_all(ByteSpan batch) {
  std::vector<Fact> facts;
  read_facts(batch, "test", [&](Fact&& fact) { facts.push_back(std::move(fact)); });
  return facts;
}

TEST(FactCodec, EveryFactComesBack) {
  Random random(1, "facts");
  FactWriter writer;
  for (int round = 0; round < 200; ++round) {
    std::vector<Fact> facts;
    for (int i = 0; i < 20; ++i) facts.push_back(random_fact(random));
    for (const Fact& fact : facts) writer.add(fact);
    EXPECT_EQ(read_all(writer.take()), facts);
    EXPECT_TRUE(writer.empty());
  }
}

// A batch with every kind of fact that there was, as version 0.1.0 wrote it: stores that are out
// there.
TEST(FactCodec, TheBytesOfTheVersionBeforeAreReadAndWrittenAgain) {
  const char* source = std::getenv("HARMONICS_SOURCE_DIR");
  ASSERT_NE(source, nullptr) << "HARMONICS_SOURCE_DIR is not set: run this through ctest";
  const std::string bytes = read_text_file(
      std::filesystem::path(source) / "src/cluster/fixtures/facts-1.bin", std::size_t{1} << 20);
  const std::vector<Fact> facts = read_all(bytes_of(bytes));
  std::set<std::size_t> kinds;
  FactWriter writer;
  for (const Fact& fact : facts) {
    kinds.insert(fact.index());
    writer.add(fact);
  }
  EXPECT_EQ(facts.size(), 74U);
  EXPECT_EQ(kinds.size(), std::variant_size_v<Fact> - 2)
      << "RunCounted and PriorityChanged came later";
  EXPECT_EQ(text_of(writer.take()), bytes);
}

TEST(FactCodec, TasksOfOneSubmissionShareIt) {
  Random random(2, "facts");
  const auto submission = random_submission(random);
  FactWriter writer;
  for (int i = 0; i < 3; ++i) writer.add(random_task(random, submission));
  const std::vector<Fact> facts = read_all(writer.take());
  EXPECT_EQ(std::get<TaskKept>(facts[0]).task.submission,
            std::get<TaskKept>(facts[2]).task.submission);
  writer.add(random_task(random, submission));
  EXPECT_EQ(read_all(writer.take()).size(), 1U) << "a new batch can be read alone";
}

TEST(FactCodec, PipelinesOfEarlierVersionsAreRead) {
  // These said it among the settings, and wrote the same bytes otherwise.
  auto submission = std::make_shared<Submission>();
  submission->spec.name = "old";
  set_pipeline(submission->spec,
               {.model = "m",
                .graph = "g",
                .settings = {{"secure", "true"}, {"epochs", "3"}, {"elastic", "true"}},
                .trace = true});
  FactWriter writer;
  writer.add(TasksSubmitted{submission});
  const std::vector<Fact> facts = read_all(writer.take());
  const PipelineSpec& read = *std::get<TasksSubmitted>(facts.at(0)).submission->spec.pipeline;
  EXPECT_TRUE(read.elastic);
  EXPECT_TRUE(read.secure);
  EXPECT_TRUE(read.trace);
  EXPECT_FALSE(read.profile);
  EXPECT_EQ(read.settings, (TextPairs{{"epochs", "3"}}));
}

TEST(FactCodec, AShortBatchIsAnError) {
  Random random(3, "facts");
  FactWriter writer;
  for (int i = 0; i < 30; ++i) writer.add(random_fact(random));
  const Bytes whole = writer.take();
  std::size_t accepted = 0;
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    try {
      (void)read_all(ByteSpan(whole).first(cut));
      ++accepted;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    }
  }
  EXPECT_EQ(accepted, 30U) << "only where a fact ends";
}

TEST(FactCodec, DamagedBytesNeverCrash) {
  Random random(4, "facts");
  for (int round = 0; round < 3000; ++round) {
    FactWriter writer;
    for (int i = 0; i < 5; ++i) writer.add(random_fact(random));
    Bytes batch = writer.take();
    for (std::uint64_t n = 1 + random.below(4); n > 0; --n) {
      batch[random.below(batch.size())] = static_cast<std::byte>(random.below(256));
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(batch.data()), batch.size());
  }
}

}  // namespace
}  // namespace harmonics::inline in_cluster
