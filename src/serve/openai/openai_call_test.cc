#include "openai/openai_call.h"

#include <gtest/gtest.h>

#include <harmonics/base/error.h>

#include "error_testing.h"

namespace harmonics::inline in_serve {
namespace {

TEST(OpenAiCall, ReadsWhatAClientSends) {
  const CompletionCall call = read_completion_call(
      R"({"model": "m", "messages": [{"role": "system", "content": "s"}, {"role": "user",
          "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
          "max_tokens": 5, "temperature": 0, "top_p": 0.5, "seed": 9, "stop": ["x", "y"],
          "stream": true, "stream_options": {"include_usage": true}, "logprobs": true,
          "top_logprobs": 3, "n": 2, "user": "u", "presence_penalty": 0, "tools": null})",
      true);
  EXPECT_EQ(call.model, "m");
  ASSERT_EQ(call.messages.size(), 2u);
  EXPECT_EQ(call.messages[1].content, "ab");
  EXPECT_EQ(call.max_tokens, 5);
  EXPECT_EQ(call.sampling.temperature, 0);
  EXPECT_EQ(call.sampling.top_p, 0.5);
  EXPECT_TRUE(call.seeded);
  EXPECT_EQ(call.stops, (std::vector<std::string>{"x", "y"}));
  EXPECT_TRUE(call.stream && call.include_usage && call.logprobs);
  EXPECT_EQ(call.likeliest, 3u);
  EXPECT_EQ(call.choices, 2);
}

TEST(OpenAiCall, ReadsPromptsOfEveryKind) {
  const auto prompts = [](const std::string& prompt) {
    return read_completion_call("{\"prompt\": " + prompt + "}", false).prompts;
  };
  EXPECT_EQ(prompts("\"a\"").size(), 1u);
  EXPECT_EQ(prompts("[\"a\", \"b\"]").size(), 2u);
  EXPECT_EQ(std::get<1>(prompts("[1, 2, 3]").at(0)).size(), 3u);
  EXPECT_EQ(std::get<1>(prompts("[[1], [2, 3]]").at(1)).size(), 2u);
}

TEST(OpenAiCall, NamesWhatItDoesNotHonour) {
  const auto refuses = [](const std::string& body, const std::string& what, bool chat = false) {
    expect_error(ErrorCode::kInvalidArgument, what,
                 [&] { (void)read_completion_call(body, chat); });
  };
  refuses("{\"prompt\": \"a\", \"presence_penalty\": 1}", "'presence_penalty' is not honoured");
  refuses("{\"prompt\": \"a\", \"colour\": 1}", "'colour' is not honoured");
  refuses("{\"prompt\": \"a\", \"max_tokens\": 0}", "'max_tokens' is 0");
  refuses("{\"prompt\": \"a\", \"temperature\": -1}", "temperature is -1");
  refuses("{\"prompt\": \"a\", \"n\": 17}", "'n' is 17");
  refuses("{\"prompt\": [\"a\", \"b\"], \"n\": 9}", "more than 16 answers");
  refuses("{}", "'prompt' is missing");
  refuses("{}", "'messages' is missing", true);
  refuses("{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]}",
          "a part of the kind 'image_url'", true);
  refuses("not json", "the request");
  refuses("[]", "");
}

}  // namespace
}  // namespace harmonics::inline in_serve
