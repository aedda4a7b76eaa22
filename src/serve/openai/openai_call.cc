#include "openai/openai_call.h"

#include <functional>
#include <map>

#include <harmonics/base/error.h>

namespace harmonics::inline in_serve {
namespace {

[[noreturn]] void refuse(std::string_view member, const std::string& why) {
  fail(ErrorCode::kInvalidArgument, "'{}' {}", member, why);
}

std::int64_t whole(std::string_view member, const Json& value, std::int64_t least,
                   std::int64_t most) {
  if (!value.is_integer() || value.as_integer() < least || value.as_integer() > most) {
    refuse(member, format("is {}: a whole number from {} to {} can be", value.dump().substr(0, 80),
                          least, most));
  }
  return value.as_integer();
}

// A text, or a list of parts of the kind "text".
std::string content_of(const Json& content) {
  if (content.is_null()) return {};
  if (content.is_string()) return content.as_string();
  std::string text;
  for (const Json& part : content.as_array()) {
    if (part.at("type").as_string() != "text") {
      refuse("messages",
             format("have a part of the kind '{}': texts are taken", part.at("type").as_string()));
    }
    text += part.at("text").as_string();
  }
  return text;
}

void read_messages(const Json& value, CompletionCall& call) {
  for (const Json& each : value.as_array()) {
    for (const auto& [key, member] : each.as_object()) {
      if (key != "role" && key != "content" && key != "name") {
        refuse("messages", format("have a member '{}', which is not honoured", key));
      }
    }
    const Json* const content = each.find("content");
    call.messages.push_back({each.at("role").as_string(), content ? content_of(*content) : ""});
  }
  if (call.messages.empty()) refuse("messages", "are none");
}

std::vector<std::int64_t> ids_of(const Json& list) {
  std::vector<std::int64_t> ids;
  for (const Json& id : list.as_array()) ids.push_back(id.as_integer());
  return ids;
}

std::vector<PromptText> prompt_texts(std::string_view member, const Json& value) {
  if (value.is_string()) return {value.as_string()};
  const Json::Array& list = value.as_array();
  if (list.empty()) refuse(member, "is an empty list");
  if (list.front().is_integer()) return {ids_of(value)};
  std::vector<PromptText> texts;
  for (const Json& each : list) {
    if (each.is_string()) {
      texts.emplace_back(each.as_string());
    } else {
      texts.emplace_back(ids_of(each));
    }
  }
  return texts;
}

void read_prompt(const Json& value, CompletionCall& call) {
  call.prompts = prompt_texts("prompt", value);
}

void read_stop(const Json& value, CompletionCall& call) {
  if (value.is_null()) return;
  if (value.is_string()) {
    call.stops.push_back(value.as_string());
  } else {
    for (const Json& each : value.as_array()) call.stops.push_back(each.as_string());
  }
  if (call.stops.size() > kMaxStops) {
    refuse("stop", format("lists {} texts, at most {}", call.stops.size(), kMaxStops));
  }
  for (const std::string& stop : call.stops) {
    if (stop.empty() || stop.size() > kMaxStopBytes) {
      refuse("stop", format("has a text of {} bytes: 1 to {} can be", stop.size(), kMaxStopBytes));
    }
  }
}

// Members that say what happens anyway.
bool says_nothing(std::string_view key, const Json& value) {
  const std::string text = value.dump();
  if (text == "null" || key == "user" || key == "metadata" || key == "store") return true;
  if (key == "presence_penalty" || key == "frequency_penalty") return value.as_number() == 0;
  if (key == "logit_bias") return text == "{}";
  if (key == "echo" || key == "parallel_tool_calls") return text == "false";
  if (key == "best_of") return text == "1";
  if (key == "suffix") return text == "\"\"";
  if (key == "response_format") return value.at("type").as_string() == "text";
  if (key == "tools") return text == "[]";
  return key == "tool_choice" && text == "\"none\"";
}

using Reader = void (*)(const Json& value, CompletionCall& call);

void read_logprobs(const Json& value, CompletionCall& call) {
  if (value.is_null()) return;
  if (call.chat) {
    call.logprobs = value.as_bool();
    return;
  }
  call.logprobs = true;
  call.likeliest = static_cast<std::size_t>(whole("logprobs", value, 0, kMaxTopLogprobs));
}

void read_stream_options(const Json& value, CompletionCall& call) {
  if (value.is_null()) return;
  for (const auto& [key, member] : value.as_object()) {
    if (key == "include_usage") {
      call.include_usage = member.as_bool();
    } else {
      refuse("stream_options", format("has a member '{}', which is not known", key));
    }
  }
}

void read_max_tokens(const Json& value, CompletionCall& call) {
  if (!value.is_null()) call.max_tokens = whole("max_tokens", value, 1, std::int64_t{1} << 31);
}

const std::map<std::string, Reader, std::less<>>& readers() {
  static const std::map<std::string, Reader, std::less<>> kReaders = {
      {"model", [](const Json& v, CompletionCall& c) { c.model = v.as_string(); }},
      {"messages", read_messages},
      {"prompt", read_prompt},
      {"max_tokens", read_max_tokens},
      {"max_completion_tokens", read_max_tokens},
      {"n",
       [](const Json& v, CompletionCall& c) {
         if (!v.is_null()) c.choices = whole("n", v, 1, kMaxChoices);
       }},
      {"temperature",
       [](const Json& v, CompletionCall& c) {
         if (!v.is_null()) c.sampling.temperature = v.as_number();
       }},
      {"top_p",
       [](const Json& v, CompletionCall& c) {
         if (!v.is_null()) c.sampling.top_p = v.as_number();
       }},
      {"top_k",
       [](const Json& v, CompletionCall& c) {
         if (!v.is_null()) c.sampling.top_k = whole("top_k", v, 0, std::int64_t{1} << 31);
       }},
      {"seed",
       [](const Json& v, CompletionCall& c) {
         if (v.is_null()) return;
         c.sampling.seed = static_cast<std::uint64_t>(v.as_integer());
         c.seeded = true;
       }},
      {"stop", read_stop},
      {"stream", [](const Json& v, CompletionCall& c) { c.stream = !v.is_null() && v.as_bool(); }},
      {"stream_options", read_stream_options},
      {"logprobs", read_logprobs},
      {"top_logprobs",
       [](const Json& v, CompletionCall& c) {
         if (v.is_null()) return;
         c.likeliest = static_cast<std::size_t>(whole("top_logprobs", v, 0, kMaxTopLogprobs));
       }},
  };
  return kReaders;
}

void read_embedding_member(std::string_view key, const Json& value, EmbeddingCall& call) {
  if (key == "model") {
    call.model = value.as_string();
  } else if (key == "input") {
    call.inputs = prompt_texts("input", value);
  } else if (key == "encoding_format") {
    const std::string& format_name = value.as_string();
    if (format_name != "float" && format_name != "base64") {
      refuse(key, format("is '{}': float and base64 can be", format_name.substr(0, 80)));
    }
    call.base64 = format_name == "base64";
  } else if (key == "dimensions" && !value.is_null()) {
    call.dimensions = whole(key, value, 1, std::int64_t{1} << 20);
  } else if (!value.is_null() && key != "user") {
    refuse(key, "is not honoured here: leave it out");
  }
}

}  // namespace

EmbeddingCall read_embedding_call(std::string_view body) {
  EmbeddingCall call;
  try {
    const Json json = Json::parse(body, "the request");
    for (const auto& [key, value] : json.as_object()) read_embedding_member(key, value, call);
  } catch (const Error& error) {  // whatever it is, the request is at fault
    fail(ErrorCode::kInvalidArgument, "{}", error.what());
  }
  if (call.inputs.empty()) refuse("input", "is missing");
  if (call.inputs.size() > kMaxEmbeddingInputs) {
    refuse("input", format("lists {} texts, at most {}", call.inputs.size(), kMaxEmbeddingInputs));
  }
  return call;
}

CompletionCall read_completion_call(std::string_view body, bool chat) {
  CompletionCall call;
  call.chat = chat;
  call.sampling.temperature = 1;  // what their API says
  try {
    const Json json = Json::parse(body, "the request");
    for (const auto& [key, value] : json.as_object()) {
      const auto reader = readers().find(key);
      const bool elsewhere = key == (chat ? "prompt" : "messages");
      if (reader != readers().end() && !elsewhere) {
        reader->second(value, call);
      } else if (!says_nothing(key, value)) {
        refuse(key, "is not honoured here: leave it out");
      }
    }
    call.sampling.check();
  } catch (const Error& error) {  // whatever it is, the request is at fault
    fail(ErrorCode::kInvalidArgument, "{}", error.what());
  }
  if (chat ? call.messages.empty() : call.prompts.empty()) {
    refuse(chat ? "messages" : "prompt", "is missing");
  }
  if (static_cast<std::int64_t>(call.prompts.size()) * call.choices > kMaxChoices) {
    refuse("prompt", format("asks for more than {} answers", kMaxChoices));
  }
  return call;
}

}  // namespace harmonics::inline in_serve
