#include "generate_report.h"

namespace harmonics::inline in_text_program {
namespace {

double seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

std::string GrowingAnswer::add(const GeneratedToken& token) {
  if (tokens_.empty()) first_ = std::chrono::steady_clock::now();
  tokens_.push_back(token);
  return flow_.add(token.id);
}

std::string GrowingAnswer::end(Ending ending) {
  ended_ = std::chrono::steady_clock::now();
  if (tokens_.empty()) first_ = ended_;
  ending_ = ending;
  over_ = true;
  return flow_.finish();
}

Json GrowingAnswer::json() const {
  Json ids = Json::array(), logprobs = Json::array();
  for (const GeneratedToken& token : tokens_) {
    ids.push(token.id);
    logprobs.push(token.logprob);
  }
  Json json;
  json.set("text", flow_.text()).set("tokens", std::move(ids));
  json.set("logprobs", std::move(logprobs)).set("end", std::string(ending_name(ending_)));
  json.set("prompt_tokens", static_cast<std::int64_t>(prompt_tokens_));
  json.set("first_token_s", seconds(first_ - started_));
  return json.set("seconds", seconds(ended_ - started_));
}

}  // namespace harmonics::inline in_text_program
