#include "normalizer.h"

#include <vector>

#include "replacement.h"
#include "unicode.h"
#include "utf8.h"

namespace harmonics::inline in_text {
namespace {

class FormNormalizer final : public Normalizer {
 public:
  explicit FormNormalizer(NormalForm form) : form_(form) {}
  [[nodiscard]] std::string apply(std::string_view text) const override {
    if (point_count(text) == text.size()) return std::string(text);  // all ASCII
    std::string out;
    append_normal_form(out, form_, text);
    return out;
  }

 private:
  NormalForm form_;
};

class LowercaseNormalizer final : public Normalizer {
 public:
  [[nodiscard]] std::string apply(std::string_view text) const override {
    std::string out;
    for (std::size_t at = 0; at < text.size();) append_lower(out, next_point(text, at));
    return out;
  }
};

class StripAccentsNormalizer final : public Normalizer {
 public:
  [[nodiscard]] std::string apply(std::string_view text) const override {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const char32_t point = next_point(text, at);
      if (!is_mark(point)) append_point(out, point);
    }
    return out;
  }
};

class StripNormalizer final : public Normalizer {
 public:
  explicit StripNormalizer(const Section& section)
      : left_(section.flag("strip_left")), right_(section.flag("strip_right")) {
    section.only({"strip_left", "strip_right"});
  }
  [[nodiscard]] std::string apply(std::string_view text) const override {
    while (left_ && !text.empty()) {
      std::size_t after = 0;
      if (!is_space(next_point(text, after))) break;
      text.remove_prefix(after);
    }
    while (right_ && !text.empty()) {
      const char32_t last = point_before(text, text.size());
      if (!is_space(last)) break;
      std::string spelled;
      append_point(spelled, last);
      text.remove_suffix(spelled.size());
    }
    return std::string(text);
  }

 private:
  bool left_;
  bool right_;
};

class PrependNormalizer final : public Normalizer {
 public:
  explicit PrependNormalizer(const Section& section) : before_(section.text("prepend")) {
    section.only({"prepend"});
  }
  [[nodiscard]] std::string apply(std::string_view text) const override {
    return text.empty() ? std::string() : before_ + std::string(text);
  }

 private:
  std::string before_;
};

class ReplaceNormalizer final : public Normalizer {
 public:
  explicit ReplaceNormalizer(const Section& section)
      : finder_(section.at("pattern")), content_(section.text("content")) {
    section.only({"pattern", "content"});
  }
  [[nodiscard]] std::string apply(std::string_view text) const override {
    return finder_.replaced(text, content_);
  }

 private:
  Finder finder_;
  std::string content_;
};

class NormalizerSequence final : public Normalizer {
 public:
  explicit NormalizerSequence(const Section& section) {
    section.only({"normalizers"});
    for (const Section& each : section.items("normalizers")) {
      steps_.push_back(read_normalizer(each));
    }
  }
  [[nodiscard]] std::string apply(std::string_view text) const override {
    std::string now(text);
    for (const NormalizerPtr& step : steps_) now = step->apply(now);
    return now;
  }

 private:
  std::vector<NormalizerPtr> steps_;
};

}  // namespace

NormalizerPtr read_normalizer(const Section& section) {
  const std::string& type = section.text("type");
  if (type == "BertNormalizer") return read_bert_normalizer(section);
  if (type == "Strip") return std::make_unique<StripNormalizer>(section);
  if (type == "Prepend") return std::make_unique<PrependNormalizer>(section);
  if (type == "Replace") return std::make_unique<ReplaceNormalizer>(section);
  if (type == "Sequence") return std::make_unique<NormalizerSequence>(section);
  const bool form = type.starts_with("NF");
  if (form || type == "Lowercase" || type == "StripAccents") section.only({});
  if (type == "Lowercase") return std::make_unique<LowercaseNormalizer>();
  if (type == "StripAccents") return std::make_unique<StripAccentsNormalizer>();
  if (type == "NFC") return std::make_unique<FormNormalizer>(NormalForm::kC);
  if (type == "NFD") return std::make_unique<FormNormalizer>(NormalForm::kD);
  if (type == "NFKC") return std::make_unique<FormNormalizer>(NormalForm::kKC);
  if (type == "NFKD") return std::make_unique<FormNormalizer>(NormalForm::kKD);
  section.refuse_type({"BertNormalizer", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents",
                       "Strip", "Prepend", "Replace", "Sequence"});
}

}  // namespace harmonics::inline in_text
