#include "section.h"

#include <algorithm>

#include <harmonics/base/listed.h>

namespace harmonics::inline in_text {

Section::Section(const Json& json, std::string place) : json_(&json), place_(std::move(place)) {
  if (!json.is_object()) refuse("must be an object");
}

void Section::refuse(std::string_view what) const {
  fail(ErrorCode::kInvalidArgument, "{} {}", place_, what);
}

void Section::refuse_type(std::initializer_list<std::string_view> known) const {
  fail(ErrorCode::kUnimplemented, "{} is of the type '{}', which is not known here; known are {}",
       place_, text("type"), listed(known));
}

void Section::only(std::initializer_list<std::string_view> known) const {
  for (const auto& [key, value] : json_->as_object()) {
    if (key == "type" || std::ranges::find(known, std::string_view(key)) != known.end()) continue;
    fail(ErrorCode::kUnimplemented,
         "{} has the setting '{}', which is not known here; known are {}", place_, key,
         listed(known));
  }
}

bool Section::has(std::string_view key) const {
  const Json* found = json_->find(key);
  return found != nullptr && !found->is_null();
}

const Json& Section::value(std::string_view key) const {
  const Json* found = json_->find(key);
  if (found == nullptr) refuse(format("has no '{}'", key));
  return *found;
}

const std::string& Section::text(std::string_view key) const {
  const Json& found = value(key);
  if (!found.is_string()) refuse(format("needs a text as '{}'", key));
  return found.as_string();
}

std::string Section::text_or_empty(std::string_view key) const {
  return has(key) ? text(key) : std::string();
}

bool Section::flag(std::string_view key) const {
  try {
    return value(key).as_bool();
  } catch (const Error&) {
    refuse(format("needs true or false as '{}'", key));
  }
}

bool Section::flag(std::string_view key, bool otherwise) const {
  return has(key) ? flag(key) : otherwise;
}

std::int64_t Section::count(std::string_view key, std::int64_t most) const {
  const Json& found = value(key);
  if (!found.is_integer() || found.as_integer() < 0 || found.as_integer() > most) {
    refuse(format("needs a whole number of 0 to {} as '{}'", most, key));
  }
  return found.as_integer();
}

Section Section::at(std::string_view key) const {
  return {value(key), format("{}.{}", place_, key)};
}

std::vector<Section> Section::items(std::string_view key) const {
  const Json& found = value(key);
  if (!found.is_array()) refuse(format("needs a list as '{}'", key));
  std::vector<Section> out;
  for (const Json& item : found.as_array()) {
    out.emplace_back(item, format("{}.{}[{}]", place_, key, out.size()));
  }
  return out;
}

std::size_t Section::choice(std::string_view key,
                            std::initializer_list<std::string_view> names) const {
  const std::string& spelled = text(key);
  const auto found = std::ranges::find(names, std::string_view(spelled));
  if (found == names.end()) {
    refuse(format("has {}={}; known are {}", key, spelled, listed(names)));
  }
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace harmonics::inline in_text
