// harmonics generate: a language model goes on with texts.
#include <deque>

#include <harmonics/base/error.h>
#include <harmonics/console/terminal.h>
#include <harmonics/data/byte_source.h>
#include <harmonics/options/command_line.h>
#include <harmonics/text/text_rows.h>

#include "generate_report.h"
#include "subcommands.h"
#include "text_model.h"

namespace harmonics::inline in_text_program {
namespace {

// Lines of --prompts that are read ahead of the answers that are printed.
constexpr std::size_t kReadAhead = 256;

class Generating {
 public:
  explicit Generating(const GenerateCommand& command)
      : command_(command),
        model_(open_text_model(command.model)),
        generator_(*model_.pipeline,
                   {.max_sequences = static_cast<std::size_t>(command.model.sequences),
                    .max_waiting = kReadAhead,
                    .prefill_chunk = command.model.chunk}) {}

  void run() {
    if (command_.prompt) {
      add(own_prompt(*command_.prompt));
      while (!answers_.empty()) advance();
      return;
    }
    const TextRows rows(open_file(command_.prompts.string()));
    for (std::int64_t row = 0; row < rows.count() || !answers_.empty();) {
      while (row < rows.count() && answers_.size() < kReadAhead) add_row(rows, row++);
      advance();
    }
  }

 private:
  std::vector<std::int64_t> own_prompt(const std::string& text) const {
    return command_.chat ? model_.texts.prompt(conversation({{"user", text}}))
                         : model_.texts.prompt(text);
  }

  std::vector<ChatMessage> conversation(std::vector<ChatMessage> messages) const {
    if (!command_.system.empty()) messages.insert(messages.begin(), {"system", command_.system});
    return messages;
  }

  void add_row(const TextRows& rows, std::int64_t row) {
    try {
      add(row_prompt(rows.json(row)));
    } catch (const Error& error) {
      const std::string_view what = error.what();
      if (what.starts_with(rows.place_of(row))) throw;
      fail(error.code(), "{}: {}", rows.place_of(row), what);
    }
  }

  std::vector<std::int64_t> row_prompt(const Json& json) const {
    if (json.is_string()) return own_prompt(json.as_string());
    if (const Json* const text = json.find("prompt")) return own_prompt(text->as_string());
    if (const Json* const ids = json.find("input_ids")) {
      std::vector<std::int64_t> prompt;
      for (const Json& id : ids->as_array()) prompt.push_back(id.as_integer());
      return prompt;
    }
    if (const Json* const list = json.find("messages")) {
      std::vector<ChatMessage> messages;
      for (const Json& each : list->as_array()) {
        messages.push_back({each.at("role").as_string(), each.at("content").as_string()});
      }
      return model_.texts.prompt(conversation(std::move(messages)));
    }
    fail(ErrorCode::kInvalidArgument,
         "neither a text nor an object with \"prompt\", \"messages\" or \"input_ids\"");
  }

  void add(std::vector<std::int64_t> prompt) {
    GenerationRequest request;
    request.max_tokens = command_.max_tokens;
    request.sampling = {command_.temperature, command_.top_p, command_.top_k,
                        static_cast<std::uint64_t>(command_.seed)};
    if (!command_.ignore_end) request.end_ids = model_.texts.end_ids();
    request.logprobs = command_.output == OutputStyle::kJson;
    answers_.emplace_back(model_.texts, prompt.size(), command_.stop);
    GrowingAnswer* const answer = &answers_.back();  // a deque's items stay where they are
    const bool streams = command_.prompt && command_.output != OutputStyle::kJson;
    request.prompt = std::move(prompt);
    request.on_token = [answer, streams](const GeneratedToken& token) {
      const std::string fresh = answer->add(token);
      if (streams) write_text(TextStream::kOutput, fresh);
      return !answer->stopped();
    };
    request.on_end = [answer, streams](Ending ending) {
      const std::string rest = answer->end(ending);
      if (streams) write_text(TextStream::kOutput, rest + "\n");
    };
    try {
      (void)generator_.add(std::move(request));
    } catch (const Error&) {
      answers_.pop_back();
      throw;
    }
  }

  // Answers are printed in the order of their prompts.
  void advance() {
    generator_.advance();
    for (; !answers_.empty() && answers_.front().over(); answers_.pop_front()) {
      const GrowingAnswer& answer = answers_.front();
      if (command_.output == OutputStyle::kJson) {
        Json json = answer.json();
        if (!model_.backend.empty()) json.set("backend", model_.backend);
        write_json(json);
      } else if (!command_.prompt) {
        write_text(TextStream::kOutput, json_quote(answer.text()) + "\n");
      }
    }
  }

  const GenerateCommand& command_;
  TextModel model_;
  Generator generator_;
  std::deque<GrowingAnswer> answers_;
};

}  // namespace

int generate(const GenerateCommand& command) {
  if (!command.system.empty() && !command.chat && command.prompts.empty()) {
    fail(ErrorCode::kInvalidArgument, "--system needs --chat");
  }
  Generating(command).run();
  return kExitDone;
}

}  // namespace harmonics::inline in_text_program
