#include <harmonics/text/text_flow.h>

#include <gtest/gtest.h>

#include <harmonics/base/format.h>

namespace harmonics::inline in_text {
namespace {

/// One token for each byte; byte b has the id b - 33 for those that are printed as they are.
Tokenizer byte_tokenizer() {
  std::string vocabulary;
  int id = 0;
  for (int c = 33; c < 127; ++c) {
    const std::string text = c == '"' || c == '\\' ? format("\\{}", static_cast<char>(c))
                                                   : std::string(1, static_cast<char>(c));
    vocabulary += format("{}\"{}\": {}", id == 0 ? "" : ", ", text, id);
    ++id;
  }
  // The bytes of U+20AC, E2 82 AC, as byte-level vocabularies spell them.
  vocabulary += ", \"\xc3\xa2\": 94, \"\xc4\xa4\": 95, \"\xc2\xac\": 96";
  return Tokenizer::parse(
      format("{{\"model\": {{\"type\": \"BPE\", \"vocab\": {{{}}}, \"merges\": []}}, \"decoder\": "
             "{{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, "
             "\"use_regex\": true}}}}",
             vocabulary),
      "bytes");
}

std::int64_t id_of(char c) { return c - 33; }

TEST(TextFlow, GivesCharactersWhole) {
  const Tokenizer tokenizer = byte_tokenizer();
  TextFlow flow(tokenizer, {});
  EXPECT_EQ(flow.add(id_of('a')), "a");
  EXPECT_EQ(flow.add(94), "");
  EXPECT_EQ(flow.add(95), "");
  EXPECT_EQ(flow.add(96), "\xe2\x82\xac");
  EXPECT_EQ(flow.add(94), "");
  EXPECT_EQ(flow.finish(), "\xef\xbf\xbd");
}

TEST(TextFlow, EndsBeforeAStopText) {
  const Tokenizer tokenizer = byte_tokenizer();
  TextFlow flow(tokenizer, {"", "END", "xyz"});
  std::string text;
  for (const char c : std::string("aENxxyEND-more")) text += flow.add(id_of(c));
  text += flow.finish();
  EXPECT_TRUE(flow.stopped());
  EXPECT_EQ(text, "aENxxy");
  EXPECT_EQ(flow.text(), text);
}

TEST(TextFlow, GivesWhatItHeldBackInTheEnd) {
  const Tokenizer tokenizer = byte_tokenizer();
  TextFlow flow(tokenizer, {"END"});
  EXPECT_EQ(flow.add(id_of('E')), "");
  EXPECT_EQ(flow.finish(), "E");
  EXPECT_FALSE(flow.stopped());
}

TEST(TextFlow, OfALongTextIsTheSame) {
  const Tokenizer tokenizer = byte_tokenizer();
  TextFlow flow(tokenizer, {"never"});
  std::string want, got;
  for (int i = 0; i < 500; ++i) {
    const char c = static_cast<char>('A' + i * 7 % 50);
    want += c;
    got += flow.add(id_of(c));
    if (i % 9 != 0) continue;
    want += "\xe2\x82\xac";
    for (const std::int64_t id : {94, 95, 96}) got += flow.add(id);
  }
  EXPECT_EQ(got + flow.finish(), want);
}

}  // namespace
}  // namespace harmonics::inline in_text
