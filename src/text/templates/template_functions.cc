// Tests, filters and methods of chat templates.
#include <algorithm>
#include <functional>
#include <map>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>

#include "templates/template_tree.h"

namespace harmonics::inline in_text {
namespace {

using Kind = TemplateExpression::Kind;
using Values = std::vector<TemplateValue>;
using Function = std::function<TemplateValue(const TemplateValue& subject, const Values& rest)>;

constexpr std::string_view kSpaces = " \t\n\r\f\v";

const Json& needed(const TemplateValue& value) {
  static const Json kNone;
  return value ? *value : kNone;
}

std::string text_of_value(const TemplateValue& value) { return printed(value); }

std::string stripped(std::string text, const Values& rest, bool left, bool right) {
  const std::string what = rest.empty() ? std::string(kSpaces) : text_of_value(rest[0]);
  if (right) text.erase(text.find_last_not_of(what) + 1);
  if (left) text.erase(0, std::min(text.find_first_not_of(what), text.size()));
  return text;
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  if (what.empty()) return text;
  std::string out;
  std::size_t from = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, from)) {
    out += text.substr(from, at - from) + with;
    from = at + what.size();
    if (out.size() > kMaxTemplateOutput) {
      fail(ErrorCode::kResourceExhausted, "a chat template writes more than {} bytes",
           kMaxTemplateOutput);
    }
  }
  return out + text.substr(from);
}

Json split(const std::string& text, const Values& rest) {
  Json list = Json::array();
  if (rest.empty()) {  // at blanks
    for (std::size_t at = text.find_first_not_of(kSpaces); at != std::string::npos;) {
      const std::size_t end = std::min(text.find_first_of(kSpaces, at), text.size());
      list.push(text.substr(at, end - at));
      at = text.find_first_not_of(kSpaces, end);
    }
    return list;
  }
  const std::string mark = text_of_value(rest[0]);
  if (mark.empty()) fail(ErrorCode::kInvalidArgument, "split needs a text to split at");
  std::size_t from = 0;
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, from)) {
    list.push(text.substr(from, at - from));
    from = at + mark.size();
  }
  list.push(text.substr(from));
  return list;
}

std::string cased(std::string text, int (*function)(int)) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 128) c = static_cast<char>(function(c));
  }
  return text;
}

std::int64_t length_of(const Json& value) {
  if (value.is_string()) {  // in characters
    return std::ranges::count_if(
        value.as_string(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
  }
  if (value.is_object()) return static_cast<std::int64_t>(value.as_object().size());
  return static_cast<std::int64_t>(value.as_array().size());
}

Json items_of(const Json& value) {
  Json list = Json::array();
  for (const auto& [key, member] : value.as_object()) list.push(Json(Json::Array{key, member}));
  return list;
}

// As Python's json.dumps writes it: ", " and ": " between, text beyond ASCII as it is.
std::string dumped(const Json& value) {
  if (value.is_array()) {
    std::string out;
    for (const Json& each : value.as_array()) out += (out.empty() ? "" : ", ") + dumped(each);
    return "[" + out + "]";
  }
  if (value.is_object()) {
    std::string out;
    for (const auto& [key, member] : value.as_object()) {
      out += (out.empty() ? "" : ", ") + json_quote(key) + ": " + dumped(member);
    }
    return "{" + out + "}";
  }
  return value.dump();
}

std::string joined_items(const Json& list, const Values& rest) {
  std::string out;
  const std::string mark = rest.empty() ? "" : text_of_value(rest[0]);
  bool first = true;
  for (const Json& each : list.as_array()) {
    out += (first ? "" : mark) + printed(each);
    first = false;
  }
  return out;
}

const std::map<std::string, Function, std::less<>>& tests() {
  static const std::map<std::string, Function, std::less<>> kTests = {
      {"defined", [](const TemplateValue& v, const Values&) { return Json(v.has_value()); }},
      {"undefined", [](const TemplateValue& v, const Values&) { return Json(!v.has_value()); }},
      {"none", [](const TemplateValue& v, const Values&) { return Json(v && v->is_null()); }},
      {"string", [](const TemplateValue& v, const Values&) { return Json(v && v->is_string()); }},
      {"mapping", [](const TemplateValue& v, const Values&) { return Json(v && v->is_object()); }},
      {"sequence",
       [](const TemplateValue& v, const Values&) {
         return Json(v && (v->is_array() || v->is_string() || v->is_object()));
       }},
      {"iterable",
       [](const TemplateValue& v, const Values&) {
         return Json(v && (v->is_array() || v->is_string() || v->is_object()));
       }},
      {"true",
       [](const TemplateValue& v, const Values&) { return Json(v && v->dump() == "true"); }},
      {"false",
       [](const TemplateValue& v, const Values&) { return Json(v && v->dump() == "false"); }},
      {"odd",
       [](const TemplateValue& v, const Values&) { return Json(needed(v).as_integer() % 2 != 0); }},
      {"even",
       [](const TemplateValue& v, const Values&) { return Json(needed(v).as_integer() % 2 == 0); }},
  };
  return kTests;
}

const std::map<std::string, Function, std::less<>>& filters() {
  static const std::map<std::string, Function, std::less<>> kFilters = {
      {"trim", [](const TemplateValue& v,
                  const Values& rest) { return Json(stripped(printed(v), rest, true, true)); }},
      {"upper",
       [](const TemplateValue& v, const Values&) { return Json(cased(printed(v), std::toupper)); }},
      {"lower",
       [](const TemplateValue& v, const Values&) { return Json(cased(printed(v), std::tolower)); }},
      {"string", [](const TemplateValue& v, const Values&) { return Json(printed(v)); }},
      {"safe", [](const TemplateValue& v, const Values&) { return Json(printed(v)); }},
      {"length", [](const TemplateValue& v, const Values&) { return Json(length_of(needed(v))); }},
      {"count", [](const TemplateValue& v, const Values&) { return Json(length_of(needed(v))); }},
      {"tojson",
       [](const TemplateValue& v, const Values& rest) {
         if (!rest.empty()) fail(ErrorCode::kInvalidArgument, "tojson takes no indent here");
         return Json(dumped(needed(v)));
       }},
      {"list", [](const TemplateValue& v, const Values&) { return Json(needed(v).as_array()); }},
      {"items", [](const TemplateValue& v, const Values&) { return items_of(needed(v)); }},
      {"join", [](const TemplateValue& v,
                  const Values& rest) { return Json(joined_items(needed(v), rest)); }},
      {"first",
       [](const TemplateValue& v, const Values&) -> TemplateValue {
         const Json::Array& all = needed(v).as_array();
         return all.empty() ? TemplateValue() : TemplateValue(all.front());
       }},
      {"last",
       [](const TemplateValue& v, const Values&) -> TemplateValue {
         const Json::Array& all = needed(v).as_array();
         return all.empty() ? TemplateValue() : TemplateValue(all.back());
       }},
      {"default",
       [](const TemplateValue& v, const Values& rest) -> TemplateValue {
         if (v || rest.empty()) return v ? v : TemplateValue(Json(""));
         return rest[0];
       }},
      {"replace",
       [](const TemplateValue& v, const Values& rest) {
         if (rest.size() != 2) fail(ErrorCode::kInvalidArgument, "replace takes two texts");
         return Json(replaced(printed(v), printed(rest[0]), printed(rest[1])));
       }},
  };
  return kFilters;
}

const std::map<std::string, Function, std::less<>>& methods() {
  static const std::map<std::string, Function, std::less<>> kMethods = {
      {"strip",
       [](const TemplateValue& v, const Values& rest) {
         return Json(stripped(needed(v).as_string(), rest, true, true));
       }},
      {"lstrip",
       [](const TemplateValue& v, const Values& rest) {
         return Json(stripped(needed(v).as_string(), rest, true, false));
       }},
      {"rstrip",
       [](const TemplateValue& v, const Values& rest) {
         return Json(stripped(needed(v).as_string(), rest, false, true));
       }},
      {"upper", [](const TemplateValue& v,
                   const Values&) { return Json(cased(needed(v).as_string(), std::toupper)); }},
      {"lower", [](const TemplateValue& v,
                   const Values&) { return Json(cased(needed(v).as_string(), std::tolower)); }},
      {"startswith",
       [](const TemplateValue& v, const Values& rest) {
         return Json(!rest.empty() && needed(v).as_string().starts_with(printed(rest[0])));
       }},
      {"endswith",
       [](const TemplateValue& v, const Values& rest) {
         return Json(!rest.empty() && needed(v).as_string().ends_with(printed(rest[0])));
       }},
      {"split", [](const TemplateValue& v,
                   const Values& rest) { return split(needed(v).as_string(), rest); }},
      {"replace", filters().at("replace")},
      {"items", filters().at("items")},
      {"get",
       [](const TemplateValue& v, const Values& rest) -> TemplateValue {
         if (rest.empty()) fail(ErrorCode::kInvalidArgument, "get takes a key");
         const Json* const found = needed(v).find(printed(rest[0]));
         if (found != nullptr) return *found;
         return rest.size() > 1 ? rest[1] : TemplateValue(Json());
       }},
  };
  return kMethods;
}

constexpr std::array<std::string_view, 3> kCalls = {"raise_exception", "namespace", "range"};

}  // namespace

bool is_template_function(Kind kind, std::string_view word) {
  if (kind == Kind::kTest) return tests().contains(word);
  if (kind == Kind::kFilter) return filters().contains(word);
  if (kind == Kind::kMethod) return methods().contains(word);
  return std::ranges::find(kCalls, word) != kCalls.end();
}

TemplateValue apply_template_function(const TemplateExpression& at, const TemplateValue& subject,
                                      const std::vector<TemplateValue>& arguments) {
  const auto& table = at.kind == Kind::kTest     ? tests()
                      : at.kind == Kind::kFilter ? filters()
                                                 : methods();
  return table.find(at.word)->second(subject, arguments);
}

bool is_true(const TemplateValue& value) {
  if (!value || value->is_null()) return false;
  if (value->is_string()) return !value->as_string().empty();
  if (value->is_array()) return !value->as_array().empty();
  if (value->is_object()) return !value->as_object().empty();
  const std::string text = value->dump();
  return text != "false" && text != "0" && text != "0.0";
}

std::string printed(const TemplateValue& value) {
  if (!value) return {};
  if (value->is_string()) return value->as_string();
  if (value->is_null()) return "None";
  const std::string text = dumped(*value);
  return text == "true" ? "True" : text == "false" ? "False" : text;
}

}  // namespace harmonics::inline in_text
