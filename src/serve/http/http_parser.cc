#include "http_parser.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <utility>

#include <harmonics/base/format.h>
#include <harmonics/base/number_text.h>

namespace harmonics::inline in_serve {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kHeadEnd = "\r\n\r\n";

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

}  // namespace

std::string_view HttpQuery::header(std::string_view name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

void HttpParser::break_off(int status, std::string problem) {
  stage_ = Stage::kBroken;
  status_ = status;
  problem_ = std::move(problem);
  text_.clear();
}

void HttpParser::feed(std::string_view bytes) {
  if (stage_ == Stage::kBroken) return;
  text_ += bytes;
  look();
}

void HttpParser::look() {
  if (stage_ == Stage::kHead) {
    const std::size_t end = text_.find(kHeadEnd);
    if (end == text_.npos) {
      if (text_.size() > kMaxHead) break_off(431, "the head of the request is too long");
      return;
    }
    if (end > kMaxHead) return break_off(431, "the head of the request is too long");
    query_ = {};
    read_head(std::string_view(text_).substr(0, end));
    if (stage_ == Stage::kBroken) return;
    text_.erase(0, end + kHeadEnd.size());
    stage_ = Stage::kBody;
  }
  if (stage_ == Stage::kBody && text_.size() >= body_bytes_) {
    if (text_.size() == body_bytes_) {
      query_.body = std::exchange(text_, {});
    } else {
      query_.body = text_.substr(0, body_bytes_);
      text_.erase(0, body_bytes_);
    }
    stage_ = Stage::kWhole;
  }
}

void HttpParser::read_head(std::string_view head) {
  std::size_t at = head.find(kLineEnd);
  read_request_line(head.substr(0, at));
  while (at != head.npos && stage_ != Stage::kBroken) {
    const std::size_t begin = at + kLineEnd.size();
    at = head.find(kLineEnd, begin);
    read_header(head.substr(begin, at == head.npos ? head.npos : at - begin));
  }
  if (stage_ != Stage::kBroken) read_meaning();
}

void HttpParser::read_request_line(std::string_view line) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == line.npos || last == first || !is_token(line.substr(0, first))) {
    return break_off(400, "this is no HTTP request");
  }
  const std::string_view version = line.substr(last + 1);
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    return break_off(505, "HTTP/1.1 is spoken here");
  }
  const std::string_view target = line.substr(first + 1, last - first - 1);
  if (target.empty() || target.front() != '/' || target.find(' ') != target.npos) {
    return break_off(400, "this is no HTTP request");
  }
  query_.method = line.substr(0, first);
  const std::size_t mark = target.find('?');
  query_.path = target.substr(0, mark);
  if (mark != target.npos) query_.arguments = target.substr(mark + 1);
  query_.keep_alive = version == "HTTP/1.1";
}

void HttpParser::read_header(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == line.npos || !is_token(line.substr(0, colon))) {
    return break_off(400, "a line of the head is no header");
  }
  if (query_.headers.size() >= kMaxHeaders) return break_off(431, "there are too many headers");
  const auto [known, is_new] = query_.headers.emplace(in_lower_case(line.substr(0, colon)),
                                                      std::string(trimmed(line.substr(colon + 1))));
  if (!is_new && known->first == "content-length") {
    break_off(400, "the length of the body is given twice");
  }
}

void HttpParser::read_meaning() {
  body_bytes_ = 0;
  if (!query_.header("transfer-encoding").empty()) {
    return break_off(411, "give the length of the body: chunked bodies are not taken");
  }
  const auto length = query_.headers.find("content-length");
  if (length != query_.headers.end()) {
    const auto bytes = number_from<std::uint64_t>(length->second);
    if (!bytes) return break_off(400, "Content-Length is no number");
    if (*bytes > max_body_) {
      return break_off(
          413, format("the body has {} bytes; a request here has at most {}", *bytes, max_body_));
    }
    body_bytes_ = static_cast<std::size_t>(*bytes);
  }
  const std::string connection = in_lower_case(query_.header("connection"));
  if (connection == "close") query_.keep_alive = false;
  if (connection == "keep-alive") query_.keep_alive = true;
  expects_ = in_lower_case(query_.header("expect")) == "100-continue";
}

bool HttpParser::take_expectation() { return std::exchange(expects_, false); }

HttpQuery HttpParser::take() {
  stage_ = Stage::kHead;
  HttpQuery query = std::exchange(query_, {});
  body_bytes_ = 0;
  expects_ = false;
  look();
  return query;
}

}  // namespace harmonics::inline in_serve
