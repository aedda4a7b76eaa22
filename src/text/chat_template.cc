#include <harmonics/text/chat_template.h>

#include "templates/template_tree.h"

namespace harmonics::inline in_text {

ChatTemplate::ChatTemplate(std::string_view text, std::string_view name)
    : program_(
          std::make_unique<const Program>(Program{std::string(name), parse_template(text, name)})) {
}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

std::string ChatTemplate::render(const Json& variables) const {
  return run_template(*program_, variables);
}

std::string ChatTemplate::render(const std::vector<ChatMessage>& messages,
                                 const Json& variables) const {
  Json all = variables.is_object() ? variables : Json::object();
  Json list = Json::array();
  for (const ChatMessage& message : messages) {
    list.push(Json().set("role", message.role).set("content", message.content));
  }
  all.set("messages", std::move(list)).set("add_generation_prompt", true);
  return render(all);
}

}  // namespace harmonics::inline in_text
