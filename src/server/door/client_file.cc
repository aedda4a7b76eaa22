#include <harmonics/server/client_file.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <vector>

#include <harmonics/base/environment.h>
#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/nearest_word.h>
#include <harmonics/base/user_folders.h>

namespace harmonics::inline in_server {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxClientFile = 64 << 10;

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

/// The scalar that stands after "key:": plain, with a comment behind it or not, or in quotes.
std::string scalar(const std::string& text, const std::string& where) {
  if (text.starts_with('"') || text.starts_with('\'')) {
    const std::size_t end = text.find(text.front(), 1);
    const std::string rest = end == text.npos ? "" : trimmed(text.substr(end + 1));
    if (end == text.npos || (!rest.empty() && !rest.starts_with('#')) || text.find('\\') < end) {
      fail(ErrorCode::kInvalidArgument,
           "{}: a value in quotes ends with its line and holds no backslash", where);
    }
    return text.substr(1, end - 1);
  }
  const std::size_t comment = text.starts_with('#') ? 0 : text.find(" #");
  return trimmed(text.substr(0, comment));
}

fs::path below(const fs::path& folder, const std::string& value) {
  const std::string home = environment_text("HOME");
  if (value.starts_with("~/") && !home.empty()) return fs::path(home) / value.substr(2);
  return (folder / value).lexically_normal();
}

}  // namespace

fs::path default_client_file() {
  const auto folder = user_config_folder();
  return folder ? *folder / "client.yml" : fs::path();
}

ClientFile read_client_file(const fs::path& path) {
  static const std::vector<std::string> kKeys = {"scheduler", "tls", "token_file"};
  const fs::path folder = fs::absolute(path).parent_path();
  ClientFile file;
  std::set<std::string> given;
  std::istringstream lines(read_text_file(path, kMaxClientFile));
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::string text = trimmed(line);
    if (text.empty() || text.starts_with('#') || text == "---") continue;
    const std::string where = format("{}:{}", path.string(), number);
    const std::size_t colon = text.find(':');
    const std::string key = trimmed(text.substr(0, colon));
    if (colon == text.npos || line.starts_with(' ') || line.starts_with('\t')) {
      fail(ErrorCode::kInvalidArgument, "{}: a line is 'key: value'", where);
    }
    if (std::ranges::find(kKeys, key) == kKeys.end()) {
      fail(ErrorCode::kInvalidArgument, "{}: there is no '{}': scheduler, tls or token_file{}",
           where, key, suggestion(key, kKeys));
    }
    if (!given.insert(key).second) {
      fail(ErrorCode::kInvalidArgument, "{}: '{}' is given twice", where, key);
    }
    const std::string value = scalar(trimmed(text.substr(colon + 1)), where);
    if (value.empty()) fail(ErrorCode::kInvalidArgument, "{}: '{}' has no value", where, key);
    if (key == "scheduler") {
      file.scheduler = value;
    } else {
      (key == "tls" ? file.tls : file.token_file) = below(folder, value);
    }
  }
  return file;
}

std::string client_file_text(const ClientFile& file) {
  std::string text =
      "# How to reach the cluster. Lies in ~/.config/harmonics; flags and HARMONICS_SCHEDULER,\n"
      "# HARMONICS_TLS, HARMONICS_TOKEN_FILE win over it.\n";
  if (!file.scheduler.empty()) text += format("scheduler: \"{}\"\n", file.scheduler);
  if (!file.tls.empty()) text += format("tls: \"{}\"\n", file.tls.string());
  if (!file.token_file.empty()) text += format("token_file: \"{}\"\n", file.token_file.string());
  return text;
}

}  // namespace harmonics::inline in_server
