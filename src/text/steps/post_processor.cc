#include "post_processor.h"

#include <algorithm>

namespace harmonics::inline in_text {
namespace {

constexpr std::int64_t kMaxTypeId = 255;
constexpr std::size_t kMaxSpecial = 64;
constexpr auto kMaxId = static_cast<std::int64_t>(kMaxVocabulary) - 1;

std::vector<std::int64_t> ids_of(const Section& tokens, const std::string& name) {
  const Section token = tokens.at(name);
  token.only({"id", "ids", "tokens"});
  const Json& ids = token.value("ids");
  if (!ids.is_array()) token.refuse("needs a list as 'ids'");
  std::vector<std::int64_t> out;
  for (const Json& id : ids.as_array()) {
    const bool fits = id.is_integer() && id.as_integer() >= 0 && id.as_integer() <= kMaxId;
    if (!fits) token.refuse("has an id that is none");
    out.push_back(id.as_integer());
  }
  return out;
}

}  // namespace

PostProcessor::PostProcessor(const Section& section) {
  read(section);
  if (special_count() > kMaxSpecial) {
    section.refuse(format("adds {} tokens, at most {}", special_count(), kMaxSpecial));
  }
}

void PostProcessor::read(const Section& section) {
  const std::string& type = section.text("type");
  if (type == "ByteLevel") {
    section.only({"add_prefix_space", "trim_offsets", "use_regex"});
  } else if (type == "Sequence") {
    section.only({"processors"});
    for (const Section& each : section.items("processors")) read(each);
  } else if (type == "TemplateProcessing") {
    read_template(section);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    section.only({"sep", "cls", "trim_offsets", "add_prefix_space"});
    check_unset(section);
    set_ = true;
    read_pair(section, before_, "cls");
    read_pair(section, behind_, "sep");
  } else {
    section.refuse_type(
        {"TemplateProcessing", "BertProcessing", "RobertaProcessing", "ByteLevel", "Sequence"});
  }
}

void PostProcessor::check_unset(const Section& section) const {
  if (set_) section.refuse("adds tokens around those that another one added");
}

void PostProcessor::read_pair(const Section& section, std::vector<Special>& out,
                              std::string_view key) const {
  const Json& pair = section.value(key);
  const bool fits = pair.is_array() && pair.as_array().size() == 2 &&
                    pair.as_array()[1].is_integer() && pair.as_array()[1].as_integer() >= 0 &&
                    pair.as_array()[1].as_integer() <= kMaxId;
  if (!fits) section.refuse(format("needs a token and its id as '{}'", key));
  out.push_back({pair.as_array()[1].as_integer(), 0});
}

void PostProcessor::read_template(const Section& section) {
  section.only({"single", "pair", "special_tokens"});
  check_unset(section);
  set_ = true;
  const Section tokens = section.at("special_tokens");
  bool seen = false;
  for (const Section& item : section.items("single")) {
    item.only({"SpecialToken", "Sequence"});
    const bool special = item.has("SpecialToken");
    const Section what = item.at(special ? "SpecialToken" : "Sequence");
    what.only({"id", "type_id"});
    const std::int64_t type = what.count("type_id", kMaxTypeId);
    if (special) {
      for (const std::int64_t id : ids_of(tokens, what.text("id"))) {
        (seen ? behind_ : before_).push_back({id, type});
      }
      continue;
    }
    if (seen || what.text("id") != "A") what.refuse("repeats the text, or is not text A");
    seen = true;
    type_ = type;
  }
  if (!seen) section.refuse("has no place for the text in 'single'");
}

Encoding PostProcessor::dress(std::vector<std::int64_t> ids, bool special_tokens) const {
  Encoding row;
  const std::size_t added = special_tokens ? special_count() : 0;
  row.ids.reserve(ids.size() + added);
  row.type_ids.reserve(ids.size() + added);
  const auto add = [&](const std::vector<Special>& specials) {
    for (const Special& special : specials) {
      row.ids.push_back(special.id);
      row.type_ids.push_back(special.type);
    }
  };
  if (special_tokens) add(before_);
  row.ids.insert(row.ids.end(), ids.begin(), ids.end());
  row.type_ids.resize(row.ids.size(), type_);
  if (special_tokens) add(behind_);
  row.mask.assign(row.ids.size(), 1);
  return row;
}

}  // namespace harmonics::inline in_text
