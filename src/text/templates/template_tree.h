// A chat template as a tree (private to text).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/text/chat_template.h>

namespace harmonics::inline in_text {

/// A piece of a template's tags.
struct TemplateToken {
  enum class Kind { kName, kText, kNumber, kSign, kEnd } kind = Kind::kEnd;
  std::string text;
  int line = 1;
};

/// Plain text, or what stands within {{ }} or {% %}.
struct TemplatePiece {
  enum class Kind { kPlain, kPrint, kTag } kind = Kind::kPlain;
  std::string text;
  std::vector<TemplateToken> tokens = {};
  int line = 1;
};

/// Cuts a template into pieces, with the line breaks after tags and the blanks before them taken
/// away, as transformers does.
[[nodiscard]] std::vector<TemplatePiece> template_pieces(std::string_view text,
                                                         std::string_view name);

struct TemplateExpression {
  enum class Kind {
    kLiteral,   // value
    kVariable,  // word
    kMember,    // parts[0] . word
    kItem,      // parts[0] [ parts[1] ]
    kSlice,     // parts[0] [ parts[1] : parts[2] ], literals null where left out
    kList,      // [ parts ]
    kObject,    // { parts[0]: parts[1], … }
    kUnary,     // word parts[0]
    kBinary,    // parts[0] word parts[1]
    kTest,      // parts[0] is word
    kFilter,    // parts[0] | word ( parts[1…] )
    kMethod,    // parts[0] . word ( parts[1…] )
    kCall,      // word ( parts )
    kChoice,    // parts[1] if parts[0] else parts[2]
  } kind = Kind::kLiteral;
  std::string word = {};
  Json value = {};
  std::vector<TemplateExpression> parts = {};
  /// Names of the arguments of a call; empty where one has none.
  std::vector<std::string> names = {};
  int line = 1;
};

struct TemplateNode {
  enum class Kind { kPlain, kPrint, kSet, kIf, kFor } kind = Kind::kPlain;
  std::string text = {};  // plain text; what is set ("ns.x" too); names of the loop
  std::vector<TemplateExpression> expressions = {};
  /// Of an if: one body for each expression, and one more for else.
  std::vector<std::vector<TemplateNode>> bodies = {};
  int line = 1;
};

struct ChatTemplate::Program {
  std::string name;
  std::vector<TemplateNode> nodes;
};

[[nodiscard]] std::vector<TemplateNode> parse_template(std::string_view text,
                                                       std::string_view name);
[[nodiscard]] std::string run_template(const ChatTemplate::Program& program, const Json& variables);

/// Undefined: none at all.
using TemplateValue = std::optional<Json>;

/// What a filter, a method or a test makes of a value; whether there is one of that name.
[[nodiscard]] bool is_template_function(TemplateExpression::Kind kind, std::string_view word);
[[nodiscard]] TemplateValue apply_template_function(const TemplateExpression& at,
                                                    const TemplateValue& subject,
                                                    const std::vector<TemplateValue>& arguments);
[[nodiscard]] bool is_true(const TemplateValue& value);
[[nodiscard]] std::string printed(const TemplateValue& value);

}  // namespace harmonics::inline in_text
