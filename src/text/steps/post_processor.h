// The fourth step: what stands around the tokens of a text ([CLS] … [SEP]).
#pragma once

#include <cstdint>
#include <vector>

#include <harmonics/text/tokenizer.h>

#include "section.h"

namespace harmonics::inline in_text {

/// Ids before and behind those of the text, each with the type ids of its row.
class PostProcessor {
 public:
  /// Adds nothing.
  PostProcessor() = default;
  /// Reads a section: TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel (which only
  /// moves offsets) or a Sequence of them. Another type is an Error.
  explicit PostProcessor(const Section& section);

  [[nodiscard]] std::size_t special_count() const { return before_.size() + behind_.size(); }
  /// The row of `ids`.
  [[nodiscard]] Encoding dress(std::vector<std::int64_t> ids, bool special_tokens) const;

 private:
  struct Special {
    std::int64_t id;
    std::int64_t type;
  };
  void read(const Section& section);
  void read_template(const Section& section);
  void read_pair(const Section& section, std::vector<Special>& out, std::string_view key) const;
  void check_unset(const Section& section) const;

  std::vector<Special> before_;
  std::vector<Special> behind_;
  std::int64_t type_ = 0;
  bool set_ = false;
};

}  // namespace harmonics::inline in_text
