#include <harmonics/text/chat_template.h>

#include <gtest/gtest.h>

#include <harmonics/base/error.h>

#include "error_testing.h"

namespace harmonics::inline in_text {
namespace {

std::string rendered(const std::string& text, Json variables = Json::object()) {
  return ChatTemplate(text, "t").render(variables);
}

TEST(ChatTemplate, WritesConversations) {
  const ChatTemplate chatml(
      "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
      "'<|im_start|>system\\nHelp.<|im_end|>\\n' }}{% endif %}{{'<|im_start|>' + message['role'] + "
      "'\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt "
      "%}{{ '<|im_start|>assistant\\n' }}{% endif %}",
      "chatml");
  EXPECT_EQ(chatml.render({{"user", "Hi"}}, {}),
            "<|im_start|>system\nHelp.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ(chatml.render({{"system", "S"}, {"user", "Hi"}}, {}),
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\n");
}

TEST(ChatTemplate, WritesWhatLlamaAndMistralWrite) {
  const ChatTemplate llama(
      "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
      "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | "
      "trim "
      "+ '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif "
      "%}{{ content }}{% endfor %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}",
      "llama");
  EXPECT_EQ(
      llama.render({{"user", "  Hi "}}, Json().set("bos_token", "<s>")),
      "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant"
      "<|end_header_id|>\n\n");
  const ChatTemplate mistral(
      "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != "
      "(loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}{% if "
      "message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif "
      "message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% else %}{{ "
      "raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}",
      "mistral");
  Json tokens;
  tokens.set("bos_token", "<s>").set("eos_token", "</s>");
  EXPECT_EQ(mistral.render({{"user", "a"}, {"assistant", "b"}, {"user", "c"}}, tokens),
            "<s>[INST] a [/INST]b</s>[INST] c [/INST]");
  expect_error(ErrorCode::kInvalidArgument, "refuses the conversation: roles must alternate", [&] {
    (void)mistral.render({{"assistant", "a"}}, tokens);
  });
}

TEST(ChatTemplate, TakesBlanksAwayAsTransformersDoes) {
  EXPECT_EQ(rendered("a\n  {% if true %}\n  b\n  {% endif %}\nc"), "a\n  b\nc");
  EXPECT_EQ(rendered("a  {%- if true -%}  b  {%- endif -%}  c"), "abc");
  EXPECT_EQ(rendered("a {{- 'x' -}} b"), "axb");
  EXPECT_EQ(rendered("{% if true %}\n  {% if true %}\n    x\n  {% endif %}\n{% endif %}\n"),
            "    x\n");
  EXPECT_EQ(rendered("a{# no #}\nb"), "ab");
}

TEST(ChatTemplate, WorksExpressionsOut) {
  Json variables;
  variables.set("n", 7).set("list", Json(Json::Array{Json("x"), Json("y"), Json("z")}));
  variables.set("object", Json().set("key", "value"));
  const auto value = [&](const std::string& expression) {
    return rendered("{{ " + expression + " }}", variables);
  };
  EXPECT_EQ(value("n // 2 + n % 4 * 2 - -1"), "10");
  EXPECT_EQ(value("'yes' if n > 3 and not n == 8 else 'no'"), "yes");
  EXPECT_EQ(value("list[1:] | join('-') ~ list[-1]"), "y-zz");
  EXPECT_EQ(value("list | length"), "3");
  EXPECT_EQ(value("object.key | upper + object['key'][1:3]"), "VALUEal");
  EXPECT_EQ(value("'x' in list and 'q' not in list and 'key' in object"), "True");
  EXPECT_EQ(value("missing is defined or n is not none"), "True");
  EXPECT_EQ(value("object | tojson"), "{\"key\": \"value\"}");
  EXPECT_EQ(value("' a,b '.strip().split(',')[1]"), "b");
  EXPECT_EQ(value("missing"), "");
  EXPECT_EQ(value("missing | default('d')"), "d");
  EXPECT_EQ(rendered("{% set ns = namespace(found=false) %}{% for x in [1, 2, 3] %}{% if x == 2 "
                     "%}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.found }}"),
            "True");
  EXPECT_EQ(rendered("{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}{{ v }}{{ ',' if not "
                     "loop.last }}{% endfor %}"),
            "a1,b2");
}

TEST(ChatTemplate, NamesWhatItDoesNotKnow) {
  const auto refuses = [](const std::string& text, const std::string& what) {
    expect_error(ErrorCode::kInvalidArgument, what, [&] { ChatTemplate(text, "t"); });
  };
  refuses("a\n{{ x | shout }}", "t, line 2: the filter 'shout' is not known");
  refuses("{{ cycler(1) }}", "the function 'cycler' is not known");
  refuses("{{ x.__class__() }}", "the method '__class__' is not known");
  refuses("{% include 'file' %}", "the tag 'include' is not known");
  refuses("{% for x in y if x %}{% endfor %}", "a condition in the head of a loop");
  refuses("{% if x %}", "'endif' is missing");
  refuses("{% endfor %}", "an end that nothing was begun for");
  refuses("{{ 'x }}", "no end");
  refuses("{{ 1 + }}", "something is missing");
  refuses("{{ " + std::string(200, '(') + "1" + std::string(200, ')') + " }}", "too deeply");
}

TEST(ChatTemplate, HasCeilings) {
  expect_error(ErrorCode::kInvalidArgument, "more than 1000000 steps", [] {
    (void)rendered(
        "{% for a in range(2000) %}{% for b in range(2000) %}{{ b }}{% endfor %}{% endfor %}");
  });
  expect_error(ErrorCode::kInvalidArgument, "too long",
               [] { (void)rendered("{{ range(100000000) }}"); });
  expect_error(ErrorCode::kResourceExhausted, "at most",
               [] { ChatTemplate(std::string(kMaxTemplateBytes + 1, 'x'), "t"); });
  expect_error(ErrorCode::kInvalidArgument, "not defined",
               [] { (void)rendered("{{ missing.member }}"); });
}

}  // namespace
}  // namespace harmonics::inline in_text
