// A program that answers each line with one, beginning with "ok" or "failed".
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/types.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include <harmonics/base/descriptor.h>
#include <harmonics/base/error.h>
#include <harmonics/base/subprocess.h>

namespace bench {

/// Owns the program, and kills it at the end. One thread.
class LinePeer {
 public:
  /// How long an answer may take: the first one may install packages and make models.
  static constexpr int kPatienceMs = 280'000;

  /// `words` are the program, which is looked for as a shell does, and its arguments; `variables`
  /// ("NAME=value") come on top of ours.
  LinePeer(std::vector<std::string> words, std::vector<std::string> variables) {
    words.insert(words.begin(), variables.begin(), variables.end());
    words.insert(words.begin(), "env");
    int down[2], up[2];
    if (::pipe2(down, O_CLOEXEC) != 0 || ::pipe2(up, O_CLOEXEC) != 0) {
      harmonics::fail(harmonics::ErrorCode::kUnavailable, "no pipe to the reference");
    }
    to_ = harmonics::Descriptor(down[1]);
    from_ = harmonics::Descriptor(up[0]);
    const harmonics::Descriptor its_input(down[0]), its_output(up[1]);
    pid_ = harmonics::ProgramStart("/usr/bin/env", std::move(words))
               .place(its_input.get(), 0)
               .place(its_output.get(), 1)
               .start();
  }
  ~LinePeer() { harmonics::kill_program(pid_); }
  LinePeer(const LinePeer&) = delete;
  LinePeer& operator=(const LinePeer&) = delete;

  /// What follows "ok"; nothing where it failed, and `failure` says why.
  std::optional<std::string> ask(std::string line) {
    line += '\n';
    if (::write(to_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      failure_ = "the reference has ended";
      return std::nullopt;
    }
    const std::string answer = read_line();
    if (answer.starts_with("ok ")) return answer.substr(3);
    failure_ = answer.empty() ? "the reference did not answer" : answer;
    return std::nullopt;
  }
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  std::string read_line() {
    std::string line;
    char next = 0;
    pollfd waiting{from_.get(), POLLIN, 0};
    while (line.size() < 4096 && ::poll(&waiting, 1, kPatienceMs) == 1 &&
           ::read(from_.get(), &next, 1) == 1 && next != '\n') {
      line += next;
    }
    return line;
  }

  harmonics::Descriptor to_, from_;
  pid_t pid_ = -1;
  std::string failure_;
};

}  // namespace bench
