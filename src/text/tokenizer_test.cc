// Tokenizers of a page: every part, what is refused, and the ceilings.
// tests/interop/tokenizers_test.py compares real ones with the package that made them.
#include <harmonics/text/tokenizer.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <harmonics/base/error.h>

#include <error_testing.h>
#include <temporary_folder_testing.h>

#include "small_tokenizers_testing.h"
#include "steps/pattern_dialect.h"
#include "unicode.h"
#include "utf8.h"

namespace harmonics::inline in_text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tokenizer bert() { return Tokenizer::parse(kSmallBert, "bert"); }
Tokenizer bytes() { return Tokenizer::parse(kSmallBytes, "bytes"); }

std::string refusal(std::string_view json) {
  return error_of([&] { static_cast<void>(Tokenizer::parse(json, "file")); });
}

std::vector<std::int64_t> plain_ids(const Tokenizer& tokenizer, std::string_view text) {
  EncodeOptions options;
  options.special_tokens = false;
  return tokenizer.encode(text, options).ids;
}

TEST(Tokenizer, WordPieces) {
  EXPECT_THAT(bert().encode("Hello, worlds!").ids, ElementsAre(2, 4, 6, 7, 5, 8, 3));
  EXPECT_THAT(bert().encode("").ids, ElementsAre(2, 3));
  EXPECT_THAT(plain_ids(bert(), "hellos helloz"), ElementsAre(4, 5, 1));
  // An accent goes, a Chinese character stands alone, a control character was never there.
  EXPECT_THAT(plain_ids(bert(), "CAFÉ\x01中hello"), ElementsAre(9, 10, 11, 4));
  EXPECT_THAT(plain_ids(bert(), "cafe\xCC\x81"), ElementsAre(9, 10));
  EXPECT_THAT(plain_ids(bert(), std::string(21, 's')), ElementsAre(1));
}

TEST(Tokenizer, AddedTokensComeFirst) {
  EXPECT_THAT(plain_ids(bert(), "[CLS]hello[SEP]"), ElementsAre(2, 4, 3));
  EXPECT_THAT(plain_ids(bert(), "hello  [USER]  hello"), ElementsAre(4, 14, 4));
  EXPECT_THAT(plain_ids(bert(), "s[USER]"), ElementsAre(1, 1, 1, 1));  // not a word of its own
}

TEST(Tokenizer, RowsAreCutAndFilled) {
  const Encoding row = bert().encode("hello, world", {.max_length = 4, .pad_to = 6});
  EXPECT_THAT(row.ids, ElementsAre(2, 4, 6, 3, 0, 0));
  EXPECT_THAT(row.mask, ElementsAre(1, 1, 1, 1, 0, 0));
  EXPECT_THAT(row.type_ids, ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(error_of([] { static_cast<void>(bert().encode("x", {.max_length = 1})); }),
              HasSubstr("1 tokens are too few: the special ones alone are 2"));
  const Tokenizer left = Tokenizer::parse(
      changed(kSmallBert, "\"direction\": \"Right\"", "\"direction\": \"Left\""), "left");
  EXPECT_THAT(left.encode("hello", {.pad_to = 4}).ids, ElementsAre(0, 2, 4, 3));
}

TEST(Tokenizer, BytePairs) {
  EXPECT_THAT(plain_ids(bytes(), "low lower"), ElementsAre(9, 11, 10));
  EXPECT_THAT(plain_ids(bytes(), "é"), ElementsAre(6, 7));  // two bytes, which no merge joins
  EXPECT_THAT(plain_ids(bytes(), "low<|end|>low"), ElementsAre(9, 13, 9));
  EXPECT_THAT(plain_ids(bytes(), "xlow"), ElementsAre(9));  // x is not in the vocabulary
}

TEST(Tokenizer, LongWordsMergeAsShortOnes) {
  std::string text;
  std::vector<std::int64_t> expected;
  for (int i = 0; i < 5000; ++i) {
    text += "lower";
    expected.insert(expected.end(), {9, 10});
  }
  EXPECT_EQ(plain_ids(bytes(), text), expected);
}

TEST(Tokenizer, WayBack) {
  const std::vector<std::int64_t> row = bert().encode("Hello, worlds!").ids;
  EXPECT_EQ(bert().decode(row), "hello, worlds!");
  EXPECT_EQ(bert().decode(row, true), "[CLS] hello, worlds! [SEP]");
  EXPECT_EQ(bytes().decode(plain_ids(bytes(), "low lower é")), "low lower \xC3\xA9");
  EXPECT_EQ(bytes().decode(std::vector<std::int64_t>{6}), "\xEF\xBF\xBD");  // half a character
  EXPECT_THAT(error_of([] { static_cast<void>(bert().decode(std::vector<std::int64_t>{99})); }),
              HasSubstr("the id 99 is none of this tokenizer, which has 15"));
}

TEST(Tokenizer, Vocabulary) {
  EXPECT_EQ(bert().vocabulary_size(), 15U);
  EXPECT_EQ(bert().id_of("world"), 7);
  EXPECT_EQ(bert().id_of("[USER]"), 14);
  EXPECT_EQ(bert().id_of("nothing"), std::nullopt);
  EXPECT_EQ(bert().token_of(5), "##s");
  EXPECT_EQ(bert().token_of(-1), "");
  EXPECT_EQ(bert().pad_id(), 0);
}

TEST(Tokenizer, OfAFolder) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", std::string(kSmallBert));
  EXPECT_EQ(Tokenizer::load(folder.path()).vocabulary_size(), 15U);
  EXPECT_EQ(Tokenizer::load(folder.path() / "tokenizer.json").vocabulary_size(), 15U);
  EXPECT_THAT(error_of([&] { static_cast<void>(Tokenizer::load(folder.path() / "none")); }),
              HasSubstr("none"));
}

// What is not known is refused by name, wherever it stands.
TEST(Tokenizer, UnknownPartsAreRefused) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {changed(kSmallBert, "\"WordPiece\", \"unk", "\"Unigram\", \"unk"),
       "file.model is of the type 'Unigram', which is not known here; known are WordPiece, BPE"},
      {changed(kSmallBert, "\"clean_text\": true", "\"clean_text\": true, \"new\": 1"),
       "file.normalizer has the setting 'new', which is not known here"},
      {changed(kSmallBert, "\"truncation\"", "\"extra\": 1, \"truncation\""),
       "file has the setting 'extra'"},
      {changed(kSmallBert, "\"BertPreTokenizer\"", "\"UnicodeScripts\""),
       "file.pre_tokenizer is of the type 'UnicodeScripts'"},
      {changed(kSmallBert, "\"1.0\"", "\"2.0\""), "is of version 2.0"},
      {changed(kSmallBert, "\"prefix\": \"##\"", "\"prefix\": 1"),
       "file.decoder needs a text as 'prefix'"},
      {changed(kSmallBert, "\"ids\": [2]", "\"ids\": [-2]"), "has an id that is none"},
      {changed(kSmallBert, "\"[UNK]\": 1", "\"[UNK]\": 2"), "gives the id 2 to"},
      {changed(kSmallBert, "\"[UNK]\": 1", "\"[UNK]\": 2097152"), "gives '[UNK]' no id"},
      {changed(kSmallBert, "\"id\": 14", "\"id\": 7"), "the vocabulary says otherwise"},
      {changed(kSmallBytes, "\"dropout\": null", "\"dropout\": 0.1"), "a matter of chance"},
      {changed(kSmallBytes, "\"lo w\"", "\"lo x\""), "merges[1] of 'x', which is no token"},
      {changed(kSmallBytes, "\"lo w\"", "\"low\""), "merges[1] that is no pair"},
      {changed(kSmallBytes, "\"normalizer\": null", "\"normalizer\": {\"type\": \"Precompiled\"}"),
       "file.normalizer is of the type 'Precompiled'"},
      {"[]", "file must be an object"},
      {"{", "not valid JSON"},
  };
  for (const auto& [json, expected] : cases) EXPECT_THAT(refusal(json), HasSubstr(expected));
}

TEST(Tokenizer, Ceilings) {
  EXPECT_THAT(refusal(std::string(kMaxTokenizerBytes + 1, ' ')), HasSubstr("at most 67108864"));
  EXPECT_THAT(
      refusal(changed(kSmallBert, "\"##llo\"", "\"" + std::string(kMaxTokenBytes + 1, 'x') + "\"")),
      HasSubstr("a token of 4097 bytes, at most 4096"));
  const std::string long_text(kMaxTextBytes + 1, ' ');
  EXPECT_THAT(error_of([&] { static_cast<void>(bert().encode(long_text)); }),
              HasSubstr("too long"));
  EXPECT_THAT(error_of([] { static_cast<void>(bert().encode("ab\xff")); }),
              HasSubstr("no UTF-8 at byte 2"));
  // Bytes spelled in bytes spelled in bytes double each time.
  std::string steps = R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})";
  for (int i = 0; i < 5; ++i) steps += "," + steps;
  const Tokenizer doubling = Tokenizer::parse(
      changed(kSmallBytes, R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                    "use_regex": true})",
              R"({"type": "Sequence", "pretokenizers": [)" + steps + "]}"),
      "doubling");
  EXPECT_THAT(error_of([&] { static_cast<void>(doubling.encode("éééééééé")); }),
              HasSubstr("too long to be spelled in bytes"));
}

TEST(Tokenizer, PatternsAreBounded) {
  const auto with = [](const std::string& pattern) {
    return changed(kSmallBytes, R"("normalizer": null)",
                   R"("normalizer": {"type": "Replace", "pattern": {"Regex": ")" + pattern +
                       R"("}, "content": "low"})");
  };
  const Tokenizer slow = Tokenizer::parse(with("(l+)+x"), "slow");
  EXPECT_THAT(error_of([&] { static_cast<void>(slow.encode(std::string(5000, 'l'))); }),
              HasSubstr("takes too long on a text of 5000 bytes"));
  EXPECT_THAT(plain_ids(Tokenizer::parse(with("x+"), "quick"), "xxx"), ElementsAre(9));
  EXPECT_THAT(refusal(with("(")), HasSubstr("'(' is no pattern"));
  EXPECT_THAT(refusal(with("\\\\h")), HasSubstr("uses \\h, which is not known here"));
  EXPECT_THAT(refusal(with("[a&&b]")), HasSubstr("computes with sets"));
  EXPECT_THAT(refusal(with(std::string(kMaxPatternBytes + 1, 'a'))), HasSubstr("4097 bytes"));
}

// Young characters count as they did when the models learned.
TEST(Unicode, VersionsOfThePackage) {
  EXPECT_TRUE(is_bert_punctuation(U'\u2E42'));          // Unicode 7
  EXPECT_FALSE(is_bert_punctuation(U'\u2E43'));         // Unicode 9
  EXPECT_EQ(kind_of(U'\U0001123F'), CharKind::kOther);  // Unicode 15
  EXPECT_EQ(kind_of(U'\u00BD'), CharKind::kNumber);
  EXPECT_EQ(kind_of(U'\u3000'), CharKind::kSpace);
  std::string lower;
  append_lower(lower, U'\u0130');
  EXPECT_EQ(lower, "i\xCC\x87");
}

TEST(Utf8, InvalidBytes) {
  EXPECT_EQ(first_invalid_utf8("aé中😀"), std::string_view::npos);
  EXPECT_EQ(first_invalid_utf8("a\xC0\x80"), 1U);         // overlong
  EXPECT_EQ(first_invalid_utf8("\xED\xA0\x80"), 0U);      // a surrogate
  EXPECT_EQ(first_invalid_utf8("\xF4\x90\x80\x80"), 0U);  // beyond Unicode
  EXPECT_EQ(first_invalid_utf8("a\xE4\xB8"), 1U);         // breaks off
  EXPECT_EQ(repaired_utf8("a\xE4\xB8z\xFF"), "a\xEF\xBF\xBDz\xEF\xBF\xBD");
}

}  // namespace
}  // namespace harmonics::inline in_text
