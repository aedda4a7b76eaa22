#include <algorithm>

#include <harmonics/base/check.h>
#include <harmonics/base/escaped.h>
#include <harmonics/server/page_files.h>

namespace harmonics::inline in_server {
namespace {

constexpr std::string_view kStyleMark = "<link rel=\"stylesheet\" href=\"page.css\">";
constexpr std::string_view kScriptMark = "<script src=\"page.js\" defer></script>";
constexpr std::string_view kIconMark = "<link rel=\"icon\" href=\"icon.svg\">";
constexpr std::string_view kReportPolicy =
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">";

std::string_view file_at(std::string_view path) {
  const auto files = page_files();
  const auto found = std::ranges::find(files, path, &PageFile::path);
  HARMONICS_CHECK(found != files.end(), "a file of the page is missing");
  return found->bytes;
}

void put(std::string& text, std::string_view mark, const std::string& instead) {
  const std::size_t at = text.find(mark);
  HARMONICS_CHECK(at != text.npos, "index.html lacks what a report puts its own in place of");
  text.replace(at, mark.size(), instead);
}

/// JSON that ends no script: every '<' is spelt out.
std::string inert(const std::string& json) {
  std::string text;
  for (const char byte : json) {
    if (byte == '<') {
      text += "\\u003c";
    } else {
      text += byte;
    }
  }
  return text;
}

}  // namespace

std::string report_page(const Json& data) {
  std::string text(file_at("/index.html"));
  put(text, kIconMark, std::string(kReportPolicy));
  put(text, kStyleMark, "<style>" + std::string(file_at("/page.css")) + "</style>");
  // At the end of the body, where all of the page is there.
  put(text, kScriptMark, "");
  put(text, "</body>",
      "<script type=\"application/json\" id=\"report\">" + inert(escaped_json(data.dump())) +
          "</script>\n<script>" + std::string(file_at("/page.js")) + "</script>\n</body>");
  return text;
}

}  // namespace harmonics::inline in_server
