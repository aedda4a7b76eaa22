#include "metaspace.h"

#include "pre_tokenizer.h"
#include "replacement.h"
#include "split_behavior.h"
#include "utf8.h"

namespace harmonics::inline in_text {
namespace {

/// Spaces become a visible character, which begins the pieces.
class Metaspace final : public PreTokenizer {
 public:
  explicit Metaspace(MetaspaceSettings settings) : settings_(std::move(settings)) {}

  void apply(Pieces& pieces) const override {
    const std::string& mark = settings_.replacement;
    Pieces out;
    bool first = pieces.at_start;
    for (const Span span : pieces.spans) {
      const auto begin = static_cast<std::uint32_t>(out.text.size());
      const std::string marked = with_replaced(pieces.piece(span), " ", mark);
      const bool wanted = settings_.prepend == PrependScheme::kAlways ||
                          (settings_.prepend == PrependScheme::kFirst && first);
      if (wanted && !marked.starts_with(mark)) out.text += mark;
      out.text += marked;
      const Span whole{begin, static_cast<std::uint32_t>(out.text.size())};
      divide(out, whole);
      first = false;
    }
    out.at_start = pieces.at_start;
    pieces = std::move(out);
  }

 private:
  void divide(Pieces& out, Span whole) const {
    if (!settings_.split) {
      out.spans.push_back(whole);
      return;
    }
    std::vector<Span> marks = places_of(out.piece(whole), settings_.replacement);
    for (Span& mark : marks) mark = {mark.begin + whole.begin, mark.end + whole.begin};
    append_pieces(stretches_of(whole, marks), SplitBehavior::kMergedWithNext, out.spans);
  }

  MetaspaceSettings settings_;
};

}  // namespace

MetaspaceSettings read_metaspace_settings(const Section& section) {
  section.only({"replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
  MetaspaceSettings settings;
  settings.replacement = section.text("replacement");
  if (point_count(settings.replacement) != 1) section.refuse("needs one character as replacement");
  const bool prefix = section.flag("add_prefix_space", true);
  settings.prepend = prefix ? PrependScheme::kAlways : PrependScheme::kNever;
  if (section.has("prepend_scheme")) {
    settings.prepend =
        static_cast<PrependScheme>(section.choice("prepend_scheme", {"always", "first", "never"}));
    if (!prefix && settings.prepend != PrependScheme::kNever) {
      section.refuse("has add_prefix_space=false and a prepend_scheme that adds one");
    }
  }
  settings.split = section.flag("split", true);
  return settings;
}

PreTokenizerPtr read_metaspace(const Section& section) {
  return std::make_unique<Metaspace>(read_metaspace_settings(section));
}

}  // namespace harmonics::inline in_text
