// Lines of files as rows of ids, opened by their text.
#include <harmonics/text/text_producer.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/data/batch_producer.h>
#include <harmonics/data/label_producer.h>
#include <harmonics/data/open_producer.h>

#include <error_testing.h>
#include <temporary_folder_testing.h>

#include "small_tokenizers_testing.h"

namespace harmonics::inline in_text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TextProducerTest : public ::testing::Test {
 protected:
  TextProducerTest() {
    folder_.write("tokenizer.json", std::string(kSmallBert));
    folder_.write("rows.jsonl",
                  "{\"text\": \"hello\", \"note\": \"world\"}\r\n"
                  "\"hello, world\"\n"
                  "{\"text\": \"\", \"note\": \"!\"}");
    folder_.write("rows.txt", "hello\n\nworld !\n");
    folder_.write("bad.jsonl", "{\"text\": \"hello\"}\n{\"text\": 7}\nhello\n");
  }

  [[nodiscard]] IndexedProducerPtr open(const std::string& spec) const {
    return open_producer(spec, folder_.path());
  }
  template <typename T>
  [[nodiscard]] std::vector<T> values(const std::string& spec) const {
    std::vector<T> all;
    const IndexedProducerPtr producer = open(spec);
    while (const auto sample = producer->next()) {
      all.insert(all.end(), sample->values<T>().begin(), sample->values<T>().end());
    }
    return all;
  }
  [[nodiscard]] std::string error(const std::string& spec) const {
    return error_of([&] { static_cast<void>(values<std::int64_t>(spec)); });
  }

  TemporaryFolder folder_;
};

TEST_F(TextProducerTest, Columns) {
  const std::string spec = "text:rows.jsonl?tokenizer=.&length=4";
  EXPECT_THAT(values<std::int64_t>(spec), ElementsAre(2, 4, 3, 0, 2, 4, 6, 3, 2, 3, 0, 0));
  EXPECT_THAT(values<std::int64_t>(spec + "&column=attention_mask"),
              ElementsAre(1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 0));
  EXPECT_THAT(values<std::int32_t>(spec + "&column=token_type_ids&dtype=int32&pad=max"),
              ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(open(spec)->sample_spec(), (TensorSpec{{4}, DType::kInt64}));
}

TEST_F(TextProducerTest, LabelsPassOverWhatFillsUp) {
  EXPECT_THAT(values<std::int64_t>("text:rows.jsonl?tokenizer=.&length=4&column=labels"),
              ElementsAre(2, 4, 3, -100, 2, 4, 6, 3, 2, 3, -100, -100));
}

TEST_F(TextProducerTest, BatchesAreAsLongAsTheirLongestText) {
  const std::string spec = "text:rows.jsonl?tokenizer=.&length=6";
  const std::vector<std::int64_t> rows = {0, 1, 2};
  EXPECT_TRUE(open(spec)->row_lengths(rows).empty());
  for (const char* column : {"input_ids", "attention_mask", "labels"}) {
    const IndexedProducerPtr producer = open(spec + "&pad=longest&column=" + column);
    EXPECT_THAT(producer->row_lengths(rows), ElementsAre(3, 5, 2)) << column;
    BatchProducer batches(producer, 2, BatchLength::kLongest);
    EXPECT_EQ(batches.next()->shape(), Shape({2, 5})) << column;
    EXPECT_EQ(batches.next()->shape(), Shape({1, 2})) << column;
  }
  // A wrong label is named by its line and token.
  LabelProducer labels(open(spec + "&column=labels"), 6, "head", LabelKind::kTokens);
  std::vector<std::int64_t> row(6);
  const std::int64_t second = 1;
  EXPECT_THAT(
      error_of([&] { labels.read(std::span(&second, 1), std::as_writable_bytes(std::span(row))); }),
      HasSubstr("rows.jsonl' line 2, token 3: the label 6 is none of the 6 classes"));
  LabelProducer ids(open(spec), 4, "words", LabelKind::kRows);
  EXPECT_THAT(
      error_of([&] { ids.read(std::span(&second, 1), std::as_writable_bytes(std::span(row))); }),
      HasSubstr("rows.jsonl' line 2, token 2: the id 4 is none of the 4 rows of 'words'"));
}

TEST_F(TextProducerTest, LinesAndFields) {
  EXPECT_THAT(values<std::int64_t>("text:rows.txt?tokenizer=tokenizer.json&length=4"),
              ElementsAre(2, 4, 3, 0, 2, 3, 0, 0, 2, 7, 8, 3));
  EXPECT_THAT(error("text:rows.txt?tokenizer=.&length=4&format=jsonl"),
              HasSubstr("rows.txt' line 1: not valid JSON"));
  const std::string note = "text:rows.jsonl?tokenizer=.&length=3&field=note";
  std::vector<std::int64_t> row(3);
  const std::int64_t last = 2;
  open(note)->read(std::span(&last, 1), std::as_writable_bytes(std::span(row)));
  EXPECT_THAT(row, ElementsAre(2, 8, 3));
}

TEST_F(TextProducerTest, Errors) {
  EXPECT_THAT(error("text:bad.jsonl?tokenizer=.&length=4"),
              HasSubstr("bad.jsonl' line 2 is neither a text nor an object with a text as 'text'"));
  EXPECT_THAT(error("text:rows.jsonl?length=4"), HasSubstr("needs a tokenizer"));
  EXPECT_THAT(error("text:rows.jsonl?tokenizer=."), HasSubstr("needs a length"));
  EXPECT_THAT(error("text:rows.jsonl?tokenizer=.&length=0"), HasSubstr("1 to 1048576"));
  EXPECT_THAT(error("text:rows.jsonl?tokenizer=.&length=4&dtype=float32"),
              HasSubstr("int64 or int32, not float32"));
  EXPECT_THAT(error("text:rows.jsonl?tokenizer=.&length=4&column=ids"),
              HasSubstr("one of input_ids, attention_mask, token_type_ids"));
  EXPECT_THAT(error("text:rows.jsonl?tokenizer=.&length=4&colour=red"),
              HasSubstr("has no setting 'colour'"));
  EXPECT_THAT(error("text:rows.jsonl?tokenizer=.&length=1"), HasSubstr("line 1: 1 tokens are too"));
  EXPECT_THAT(error("text:none.jsonl?tokenizer=.&length=4"), HasSubstr("none.jsonl"));
}

}  // namespace
}  // namespace harmonics::inline in_text
