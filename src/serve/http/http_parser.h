// HttpParser: requests of HTTP/1.1 out of bytes (private to serve). Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <harmonics/serve/http_query.h>

namespace harmonics::inline in_serve {

/// Bytes in, requests out, one after another. Bodies need a Content-Length.
class HttpParser {
 public:
  static constexpr std::size_t kMaxHead = 16 << 10;
  static constexpr std::size_t kMaxHeaders = 100;

  enum class Stage { kHead, kBody, kWhole, kBroken };

  explicit HttpParser(std::size_t max_body) : max_body_(max_body) {}

  void feed(std::string_view bytes);
  [[nodiscard]] Stage stage() const { return stage_; }
  /// Nothing of the next request has come.
  [[nodiscard]] bool is_fresh() const { return stage_ == Stage::kHead && text_.empty(); }
  /// Of a request whose head is there.
  [[nodiscard]] std::size_t body_bytes() const { return body_bytes_; }
  /// Whoever asks waits for a word before it sends the body. True once.
  [[nodiscard]] bool take_expectation();
  /// Of what is broken: the status to answer with, and why.
  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] const std::string& problem() const { return problem_; }

  /// The whole request. What came behind it is looked at as the next.
  [[nodiscard]] HttpQuery take();

 private:
  void look();
  void read_head(std::string_view head);
  void read_request_line(std::string_view line);
  void read_header(std::string_view line);
  void read_meaning();
  void break_off(int status, std::string problem);

  const std::size_t max_body_;
  Stage stage_ = Stage::kHead;
  std::string text_;  // what was not understood yet
  HttpQuery query_;
  std::size_t body_bytes_ = 0;
  bool expects_ = false;
  int status_ = 0;
  std::string problem_;
};

}  // namespace harmonics::inline in_serve
