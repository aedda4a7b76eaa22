#include <harmonics/yaml/yaml_text.h>

#include <algorithm>
#include <array>
#include <cctype>

#include <harmonics/base/json.h>

namespace harmonics::inline in_yaml {
namespace {

constexpr std::size_t kColumns = 90;

bool is_plain(std::string_view name) {
  static constexpr std::array kWords = {"null", "true", "false", "yes", "no",
                                        "on",   "off",  "y",     "n"};
  if (name.empty() || (std::isalnum(static_cast<unsigned char>(name.front())) == 0)) return false;
  std::string lower;
  bool only_number = true;
  for (const char letter : name) {
    const auto code = static_cast<unsigned char>(letter);
    if (std::isalnum(code) == 0 && std::string_view("_./@+-").find(letter) == std::string::npos) {
      return false;
    }
    lower += static_cast<char>(std::tolower(code));
    only_number &= std::isdigit(code) != 0 || letter == '.' || letter == 'e' || letter == '-';
  }
  const bool address = std::ranges::count(name, '.') > 1;
  if (only_number && !address) return false;
  return std::ranges::find(kWords, lower) == kWords.end();
}

}  // namespace

// A JSON string is a double-quoted YAML scalar.
std::string yaml_name(std::string_view name) {
  return is_plain(name) ? std::string(name) : json_quote(name);
}

void YamlFlowList::add(std::string_view item) {
  if (!first_) {
    text_ += ',';
    if (text_.size() - line_start_ + item.size() + 2 > kColumns) {
      text_ += '\n';
      line_start_ = text_.size();
      text_.append(static_cast<std::size_t>(indent_), ' ');
    } else {
      text_ += ' ';
    }
  }
  first_ = false;
  text_ += item;
}

std::string YamlFlowList::finish() { return text_ + "]\n"; }

}  // namespace harmonics::inline in_yaml
