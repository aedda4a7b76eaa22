#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/uregex.h>
#include <unicode/uset.h>
#include <unicode/ustring.h>
#include <unicode/utext.h>

#include <algorithm>
#include <array>

#include <harmonics/base/error.h>

#include "steps/pattern_dialect.h"
#include "unicode.h"
#include "utf8.h"

namespace harmonics::inline in_text {
namespace {

constexpr std::uint8_t kBertVersion = 8;      // of the Rust crate unicode_categories
constexpr std::uint8_t kNormalVersion = 9;    // of the normal forms of the package
constexpr std::uint8_t kPatternVersion = 14;  // of its Oniguruma

UChar32 icu(char32_t point) { return static_cast<UChar32>(point); }

bool known_in(char32_t point, std::uint8_t version) {
  UVersionInfo age;
  u_charAge(icu(point), age);
  return age[0] != 0 && (age[0] < version || (age[0] == version && age[1] == 0));
}

std::uint32_t category_bit(char32_t point) { return U_GET_GC_MASK(icu(point)); }

void check_icu(UErrorCode status, std::string_view what) {
  if (U_FAILURE(status)) {
    fail(ErrorCode::kInternal, "ICU cannot {}: {}", what, std::string_view(u_errorName(status)));
  }
}

// The form, blind to characters that are younger than kNormalVersion. Made once, never given back.
const UNormalizer2* normalizer_of(NormalForm form) {
  static const std::array<const UNormalizer2*, 4> kForms = [] {
    UErrorCode status = U_ZERO_ERROR;
    constexpr char16_t kOldCharacters[] = u"[:age=9.0:]";
    static_assert(kNormalVersion == 9);
    USet* old = uset_openPattern(kOldCharacters, -1, &status);
    check_icu(status, "read a set of characters");
    uset_freeze(old);
    std::array<const UNormalizer2*, 4> made = {
        unorm2_getNFCInstance(&status), unorm2_getNFDInstance(&status),
        unorm2_getNFKCInstance(&status), unorm2_getNFKDInstance(&status)};
    for (const UNormalizer2*& each : made) each = unorm2_openFiltered(each, old, &status);
    check_icu(status, "load its normal forms");
    return made;
  }();
  return kForms[static_cast<std::size_t>(form)];
}

std::u16string utf16_of(std::string_view text) {
  std::u16string out(text.size(), u'\0');
  std::int32_t length = 0;
  UErrorCode status = U_ZERO_ERROR;
  u_strFromUTF8(out.data(), static_cast<std::int32_t>(out.size()), &length, text.data(),
                static_cast<std::int32_t>(text.size()), &status);
  if (status == U_STRING_NOT_TERMINATED_WARNING) status = U_ZERO_ERROR;
  check_icu(status, "read UTF-8");
  out.resize(static_cast<std::size_t>(length));
  return out;
}

void append_utf8(std::string& out, std::u16string_view text) {
  std::int32_t i = 0;
  const auto length = static_cast<std::int32_t>(text.size());
  while (i < length) {
    UChar32 point = 0;
    U16_NEXT(text.data(), i, length, point);
    append_point(out, static_cast<char32_t>(point));
  }
}

// Categories that changed after kBertVersion.
bool was_bert_accent(char32_t point, bool now) {
  switch (point) {
    case 0x1734: return true;
    case 0x1885:
    case 0x1886:
    case 0xA9BD:
    case 0x111C9: return false;
    default: return now;
  }
}

}  // namespace

CharKind kind_of(char32_t point) {
  if (is_space(point)) return CharKind::kSpace;
  const std::uint32_t category = category_bit(point);
  const bool letter = (category & U_GC_L_MASK) != 0;
  if (!letter && (category & U_GC_N_MASK) == 0) return CharKind::kOther;
  if (!known_in(point, kPatternVersion)) return CharKind::kOther;
  return letter ? CharKind::kLetter : CharKind::kNumber;
}

bool is_space(char32_t point) { return u_hasBinaryProperty(icu(point), UCHAR_WHITE_SPACE) != 0; }
bool is_numeric(char32_t point) { return (category_bit(point) & U_GC_N_MASK) != 0; }

bool is_word(char32_t point) {
  constexpr std::uint32_t kWord = U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  return (category_bit(point) & kWord) != 0 || u_isUAlphabetic(icu(point)) != 0 ||
         u_hasBinaryProperty(icu(point), UCHAR_JOIN_CONTROL) != 0;
}

bool is_mark(char32_t point) {
  return (category_bit(point) & U_GC_M_MASK) != 0 && known_in(point, kNormalVersion) &&
         point != 0x111C9;
}

bool is_bert_punctuation(char32_t point) {
  if (point < 0x80) return point > 0x20 && point < 0x7F && u_isalnum(icu(point)) == 0;
  if (point == 0x166D || point == 0x111C9) return true;
  return (category_bit(point) & U_GC_P_MASK) != 0 && known_in(point, kBertVersion);
}

bool is_bert_control(char32_t point) {
  constexpr std::uint32_t kControl = U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK;
  if (point == '\t' || point == '\n' || point == '\r') return false;
  return (category_bit(point) & kControl) != 0 && known_in(point, kBertVersion);
}

bool is_bert_accent(char32_t point) {
  return was_bert_accent(point, (category_bit(point) & U_GC_MN_MASK) != 0) &&
         known_in(point, kBertVersion);
}

void append_lower(std::string& out, char32_t point) {
  if (point == 0x130) {  // the one character whose lower case is two
    out += "i\xCC\x87";
    return;
  }
  append_point(out, static_cast<char32_t>(u_tolower(icu(point))));
}

void append_normal_form(std::string& out, NormalForm form, std::string_view text) {
  const std::u16string wide = utf16_of(text);
  const auto length = static_cast<std::int32_t>(wide.size());
  std::u16string normal(wide.size() + wide.size() / 2 + 16, u'\0');
  UErrorCode status = U_ZERO_ERROR;
  const auto write = [&] {
    status = U_ZERO_ERROR;
    return unorm2_normalize(normalizer_of(form), wide.data(), length, normal.data(),
                            static_cast<std::int32_t>(normal.size()), &status);
  };
  std::int32_t written = write();
  if (status == U_BUFFER_OVERFLOW_ERROR) {
    normal.resize(static_cast<std::size_t>(written));
    written = write();
  }
  if (status == U_STRING_NOT_TERMINATED_WARNING) status = U_ZERO_ERROR;
  check_icu(status, "normalise a text");
  append_utf8(out, std::u16string_view(normal).substr(0, static_cast<std::size_t>(written)));
}

namespace {

constexpr std::int32_t kPatternStackBytes = 8 << 20;
// ICU counts ten thousand steps at a time. Usual patterns take one such tick for a thousand bytes.
constexpr std::int64_t kPatternTicks = 500;
constexpr std::int64_t kBytesPerTick = 64;

struct TextClose {
  void operator()(UText* text) const { utext_close(text); }
};

UBool U_CALLCONV spend_work(const void* left, std::int32_t) {
  auto& work = *static_cast<std::int64_t*>(const_cast<void*>(left));
  return --work > 0 ? 1 : 0;
}

}  // namespace

struct Pattern::Compiled {
  std::string source;
  std::unique_ptr<URegularExpression, void (*)(URegularExpression*)> regex{nullptr, uregex_close};
};

Pattern::Pattern(std::string_view source) : compiled_(std::make_unique<Compiled>()) {
  const std::u16string wide = utf16_of(icu_spelling(source));
  UErrorCode status = U_ZERO_ERROR;
  UParseError place;
  compiled_->source = source;
  compiled_->regex.reset(
      uregex_open(wide.data(), static_cast<std::int32_t>(wide.size()), 0, &place, &status));
  if (U_FAILURE(status)) {
    fail(ErrorCode::kInvalidArgument, "'{}' is no pattern that can be read: {}", source,
         std::string_view(u_errorName(status)));
  }
}

Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;

std::vector<Span> Pattern::matches(std::string_view text) const {
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<URegularExpression, void (*)(URegularExpression*)> regex(
      uregex_clone(compiled_->regex.get(), &status), uregex_close);
  std::int64_t work = kPatternTicks + static_cast<std::int64_t>(text.size()) / kBytesPerTick;
  uregex_setStackLimit(regex.get(), kPatternStackBytes, &status);
  uregex_setMatchCallback(regex.get(), spend_work, &work, &status);
  const std::unique_ptr<UText, TextClose> wrapped(
      utext_openUTF8(nullptr, text.data(), static_cast<std::int64_t>(text.size()), &status));
  uregex_setUText(regex.get(), wrapped.get(), &status);
  check_icu(status, "prepare a pattern");
  std::vector<Span> found;
  while (uregex_findNext(regex.get(), &status) != 0) {
    found.push_back({static_cast<std::uint32_t>(uregex_start64(regex.get(), 0, &status)),
                     static_cast<std::uint32_t>(uregex_end64(regex.get(), 0, &status))});
  }
  if (U_FAILURE(status)) {
    fail(ErrorCode::kResourceExhausted,
         "the pattern '{}' takes too long on a text of {} bytes ({}): split the text, or use "
         "another tokenizer",
         compiled_->source, text.size(), std::string_view(u_errorName(status)));
  }
  return found;
}

}  // namespace harmonics::inline in_text
