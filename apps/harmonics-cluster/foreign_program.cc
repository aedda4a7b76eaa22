#include "foreign_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

#include <harmonics/base/descriptor.h>
#include <harmonics/base/environment.h>
#include <harmonics/base/error.h>
#include <harmonics/base/escaped.h>
#include <harmonics/base/subprocess.h>

namespace harmonics::inline in_cluster_program {
namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Between two looks at whether a program has ended that closed its streams.
constexpr milliseconds kEndPeriod(10);
/// Of what a failed program said.
constexpr std::size_t kMaxFailureText = 500;

struct ForeignPipe {
  Descriptor ours;
  Descriptor theirs;
};

ForeignPipe open_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_errno(errno, "cannot make a pipe");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

/// A file without a name that holds the text, read from its start.
Descriptor input_file(const std::string& input) {
  Descriptor file(::memfd_create("input", MFD_CLOEXEC));
  if (!file) fail_errno(errno, "cannot make a file in memory");
  for (std::size_t done = 0; done < input.size();) {
    const ssize_t written = ::write(file.get(), input.data() + done, input.size() - done);
    if (written <= 0) fail_errno(errno, "cannot write to a file in memory");
    done += static_cast<std::size_t>(written);
  }
  if (::lseek(file.get(), 0, SEEK_SET) != 0) fail_errno(errno, "cannot go back in a file");
  return file;
}

/// Reads what is there; false at the end.
bool read_some(int descriptor, std::string& into) {
  std::array<char, 65536> bytes;
  const ssize_t count = ::read(descriptor, bytes.data(), bytes.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  const std::size_t room = kMaxForeignOutput - std::min(into.size(), kMaxForeignOutput);
  into.append(bytes.data(), std::min(static_cast<std::size_t>(count), room));
  return count > 0;
}

/// Until both streams have ended or the time is over; false: it is over.
bool read_streams(ForeignPipe& out, ForeignPipe& err, ForeignAnswer& answer,
                  Steady::time_point end) {
  while (out.ours || err.ours) {
    std::array<pollfd, 2> looked{pollfd{out.ours.get(), POLLIN, 0},
                                 pollfd{err.ours.get(), POLLIN, 0}};
    const auto left = std::chrono::ceil<milliseconds>(end - Steady::now());
    if (left.count() <= 0) return false;
    if (::poll(looked.data(), looked.size(),
               static_cast<int>(std::min<std::int64_t>(left.count(), 60'000))) < 0) {
      if (errno == EINTR) continue;
      fail_errno(errno, "cannot wait for a program");
    }
    if (looked[0].revents != 0 && !read_some(out.ours.get(), answer.out)) out.ours.reset();
    if (looked[1].revents != 0 && !read_some(err.ours.get(), answer.err)) err.ours.reset();
  }
  return true;
}

/// Its status; nothing: it still runs at the end of the time.
std::optional<int> await_end(pid_t child, Steady::time_point end) {
  while (true) {
    if (const auto status = ended_program(child)) return status;
    if (Steady::now() >= end) return std::nullopt;
    ::poll(nullptr, 0, static_cast<int>(kEndPeriod.count()));
  }
}

}  // namespace

std::filesystem::path find_foreign(const std::string& name, const std::string& advice) {
  const std::string folders = environment_text("PATH");
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t colon = std::min(folders.find(':', begin), folders.size());
    const std::filesystem::path path =
        std::filesystem::path(folders.substr(begin, colon - begin)) / name;
    if (colon > begin && ::access(path.c_str(), X_OK) == 0) return path;
    begin = colon + 1;
  }
  fail(ErrorCode::kNotFound, "there is no '{}' in PATH: {}", name, advice);
}

ForeignAnswer ask_foreign(const std::filesystem::path& program, std::vector<std::string> words,
                          const std::string& input, milliseconds patience) {
  const Steady::time_point end = Steady::now() + patience;
  const Descriptor file = input_file(input);
  ForeignPipe out = open_pipe();
  ForeignPipe err = open_pipe();
  words.insert(words.begin(), program.filename().string());
  const pid_t child = ProgramStart(program, std::move(words))
                          .place(file.get(), STDIN_FILENO)
                          .place(out.theirs.get(), STDOUT_FILENO)
                          .place(err.theirs.get(), STDERR_FILENO)
                          .own_group()
                          .hold_back({})
                          .start();
  out.theirs.reset();
  err.theirs.reset();
  ForeignAnswer answer;
  const bool read = read_streams(out, err, answer, end);
  std::optional<int> status = read ? await_end(child, end) : std::nullopt;
  if (!status) {
    answer.timed_out = true;
    ::kill(-child, SIGKILL);
    status = wait_for_program(child);
  }
  if (WIFEXITED(*status)) answer.exit_code = WEXITSTATUS(*status);
  return answer;
}

std::string failure_text(const ForeignAnswer& answer) {
  std::string text = answer.err.empty() ? answer.out : answer.err;
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  if (text.size() > kMaxFailureText) text = "…" + text.substr(text.size() - kMaxFailureText);
  std::ranges::replace(text, '\n', ' ');
  if (answer.timed_out) return "no answer in time" + (text.empty() ? "" : ": " + escaped(text));
  if (!text.empty()) return escaped(text);
  return answer.exit_code < 0 ? "a signal ended it" : format("exit code {}", answer.exit_code);
}

std::string shell_quoted(const std::string& word) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_./:=,@%+").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, plain)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::vector<std::string> shell_words(const std::string& text) {
  std::vector<std::string> words;
  std::optional<std::string> word;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0 ? c == quote : c == '\'' || c == '"') {
      quote = quote != 0 ? '\0' : c;
      if (!word) word.emplace();
    } else if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      word = word.value_or("") + text[++i];
    } else if (quote == 0 && (c == ' ' || c == '\t')) {
      if (word) words.push_back(*std::exchange(word, std::nullopt));
    } else {
      word = word.value_or("") + c;
    }
  }
  if (quote != 0) fail(ErrorCode::kInvalidArgument, "'{}': a quote has no partner", text);
  if (word) words.push_back(*word);
  return words;
}

}  // namespace harmonics::inline in_cluster_program
