// Stand-ins where ICU was left out of the build.
#include <harmonics/base/error.h>

#include "unicode.h"

namespace harmonics::inline in_text {
namespace {

[[noreturn]] void no_unicode() {
  fail(ErrorCode::kUnimplemented,
       "this build has no tokenizers: install ICU (libicu-dev) and configure with "
       "-DHARMONICS_WITH_TEXT=ON");
}

}  // namespace

struct Pattern::Compiled {};

CharKind kind_of(char32_t) { no_unicode(); }
bool is_space(char32_t) { no_unicode(); }
bool is_numeric(char32_t) { no_unicode(); }
bool is_word(char32_t) { no_unicode(); }
bool is_mark(char32_t) { no_unicode(); }
bool is_bert_punctuation(char32_t) { no_unicode(); }
bool is_bert_control(char32_t) { no_unicode(); }
bool is_bert_accent(char32_t) { no_unicode(); }
void append_lower(std::string&, char32_t) { no_unicode(); }
void append_normal_form(std::string&, NormalForm, std::string_view) { no_unicode(); }

Pattern::Pattern(std::string_view) { no_unicode(); }
Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
std::vector<Span> Pattern::matches(std::string_view) const { no_unicode(); }

}  // namespace harmonics::inline in_text
