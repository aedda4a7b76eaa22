#include "openai/openai_json.h"

#include <harmonics/custody/base64.h>

namespace harmonics::inline in_serve {
namespace {

Json bytes_of_token(const std::string& text) {
  Json list = Json::array();
  for (const char c : text) list.push(static_cast<std::int64_t>(static_cast<unsigned char>(c)));
  return list;
}

Json token_json(const Tokenizer& tokenizer, std::int64_t id, double logprob) {
  const std::string text = tokenizer.decode(std::span(&id, 1), true);
  Json json;
  json.set("token", text).set("logprob", logprob);
  return json.set("bytes", bytes_of_token(text));
}

Json chat_logprobs(const Tokenizer& tokenizer, const std::vector<GeneratedToken>& tokens) {
  Json content = Json::array();
  for (const GeneratedToken& token : tokens) {
    Json each = token_json(tokenizer, token.id, token.logprob);
    Json top = Json::array();
    for (const TokenChoice& choice : token.likeliest) {
      top.push(token_json(tokenizer, choice.id, choice.logprob));
    }
    content.push(each.set("top_logprobs", std::move(top)));
  }
  return Json().set("content", std::move(content));
}

Json text_logprobs(const Tokenizer& tokenizer, const std::vector<GeneratedToken>& tokens) {
  Json texts = Json::array(), logprobs = Json::array(), tops = Json::array(),
       offsets = Json::array();
  std::int64_t offset = 0;
  for (const GeneratedToken& token : tokens) {
    const std::string text = tokenizer.decode(std::span(&token.id, 1), true);
    texts.push(text);
    logprobs.push(token.logprob);
    Json top = Json::object();
    for (const TokenChoice& choice : token.likeliest) {
      top.set(tokenizer.decode(std::span(&choice.id, 1), true), choice.logprob);
    }
    tops.push(std::move(top));
    offsets.push(offset);
    offset += static_cast<std::int64_t>(text.size());
  }
  Json json;
  json.set("tokens", std::move(texts)).set("token_logprobs", std::move(logprobs));
  json.set("top_logprobs", std::move(tops));
  return json.set("text_offset", std::move(offsets));
}

Json usage_json(const CompletionUsage& usage) {
  Json json;
  json.set("prompt_tokens", usage.prompt_tokens);
  json.set("completion_tokens", usage.completion_tokens);
  return json.set("total_tokens", usage.prompt_tokens + usage.completion_tokens);
}

Json head_json(const CompletionHead& head, bool chunk) {
  Json json;
  json.set("id", head.id);
  json.set("object", !head.chat ? "text_completion"
                     : chunk    ? "chat.completion.chunk"
                                : "chat.completion");
  return json.set("created", head.created).set("model", head.model);
}

Json choice_json(const CompletionHead& head, const Tokenizer& tokenizer,
                 const CompletionChoice& choice) {
  Json json;
  json.set("index", choice.index);
  Json logprobs;
  if (head.logprobs) {
    logprobs = head.chat ? chat_logprobs(tokenizer, choice.tokens)
                         : text_logprobs(tokenizer, choice.tokens);
  }
  json.set("logprobs", std::move(logprobs));
  return json.set("finish_reason", choice.finish.empty() ? Json() : Json(choice.finish));
}

std::string event(const Json& json) { return "data: " + json.dump() + "\n\n"; }

}  // namespace

std::string completion_json(const CompletionHead& head, const Tokenizer& tokenizer,
                            const std::vector<CompletionChoice>& choices,
                            const CompletionUsage& usage) {
  Json list = Json::array();
  for (const CompletionChoice& choice : choices) {
    Json each = choice_json(head, tokenizer, choice);
    if (head.chat) {
      each.set("message", Json().set("role", "assistant").set("content", choice.text));
    } else {
      each.set("text", choice.text);
    }
    list.push(std::move(each));
  }
  return head_json(head, false)
      .set("choices", std::move(list))
      .set("usage", usage_json(usage))
      .dump();
}

std::string chunk_event(const CompletionHead& head, const Tokenizer& tokenizer,
                        const CompletionChoice& choice, bool first) {
  Json each = choice_json(head, tokenizer, choice);
  if (head.chat) {
    Json delta = Json::object();
    if (first) delta.set("role", "assistant");
    if (first || !choice.text.empty()) delta.set("content", choice.text);
    each.set("delta", std::move(delta));
  } else {
    each.set("text", choice.text);
  }
  Json list = Json::array();
  list.push(std::move(each));
  return event(head_json(head, true).set("choices", std::move(list)));
}

std::string usage_event(const CompletionHead& head, const CompletionUsage& usage) {
  return event(head_json(head, true).set("choices", Json::array()).set("usage", usage_json(usage)));
}

std::string embeddings_json(const std::string& model, bool base64,
                            const std::vector<std::vector<float>>& vectors, std::int64_t tokens) {
  Json data = Json::array();
  for (const std::vector<float>& vector : vectors) {
    Json each, numbers = Json::array();
    each.set("object", "embedding").set("index", static_cast<std::int64_t>(data.as_array().size()));
    for (const float value : vector) {
      if (!base64) numbers.push(static_cast<double>(value));
    }
    if (base64) {
      each.set("embedding", to_base64(std::as_bytes(std::span(vector))));
    } else {
      each.set("embedding", std::move(numbers));
    }
    data.push(std::move(each));
  }
  Json usage;
  usage.set("prompt_tokens", tokens).set("total_tokens", tokens);
  Json json;
  json.set("object", "list").set("data", std::move(data)).set("model", model);
  return json.set("usage", std::move(usage)).dump();
}

std::string models_json(const std::string& name, std::int64_t created) {
  Json model;
  model.set("id", name).set("object", "model").set("created", created);
  Json list = Json::array();
  list.push(model.set("owned_by", "harmonics"));
  return Json().set("object", "list").set("data", std::move(list)).dump();
}

std::string openai_error(std::string_view what, int status) {
  const char* const type = status == 401   ? "authentication_error"
                           : status >= 500 ? "server_error"
                                           : "invalid_request_error";
  Json error;
  error.set("message", what).set("type", type).set("param", Json()).set("code", Json());
  return Json().set("error", std::move(error)).dump();
}

}  // namespace harmonics::inline in_serve
