#include <harmonics/console/terminal.h>

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include <harmonics/base/environment.h>
#include <harmonics/base/error.h>
#include <harmonics/base/escaped.h>
#include <harmonics/base/exception_text.h>

namespace harmonics::inline in_console {
namespace {

constexpr int kUsualWidth = 80;
constexpr int kUsualHeight = 24;
constexpr int kExitCodeFailed = 1;

int descriptor_of(TextStream stream) { return static_cast<int>(stream); }

winsize size_of(TextStream stream) {
  winsize size{};
  return ::ioctl(descriptor_of(stream), TIOCGWINSZ, &size) == 0 ? size : winsize{};
}

// Escapes such as ESC[1m take no column, nor do the further bytes of a letter in UTF-8.
std::string cut_line(std::string_view line, int columns) {
  constexpr std::string_view kPlain = "\x1b[0m";
  int column = 0;
  bool escape = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const auto byte = static_cast<unsigned char>(line[i]);
    if (byte == 0x1b) escape = true;
    const bool takes_column = !escape && (byte & 0xc0) != 0x80;
    if (takes_column && ++column > columns) {
      const bool styled = line.substr(0, i).find('\x1b') != line.npos;
      return std::string(line.substr(0, i)).append(styled ? kPlain : "");
    }
    if (escape && byte == 'm') escape = false;
  }
  return std::string(line);
}

int report(std::string_view message) {
  const std::string name =
      wants_colour(TextStream::kError) ? "\x1b[1;31mharmonics:\x1b[0m" : "harmonics:";
  try {
    write_text(TextStream::kError, format("{} {}\n", name, escaped_lines(message)));
  } catch (const Error&) {
    // Nobody listens; the exit code has to do.
  }
  return kExitCodeFailed;
}

}  // namespace

bool is_terminal(TextStream stream) { return ::isatty(descriptor_of(stream)) == 1; }

bool wants_colour(TextStream stream) {
  if (!environment_text("NO_COLOR").empty()) return false;
  return is_terminal(stream) && environment_value("TERM").value_or("dumb") != "dumb";
}

int terminal_width(TextStream stream) {
  const int columns = size_of(stream).ws_col;
  return columns == 0 ? kUsualWidth : columns;
}

int terminal_height(TextStream stream) {
  const int rows = size_of(stream).ws_row;
  return rows == 0 ? kUsualHeight : rows;
}

std::string cut_to_size(std::string_view text, int columns, int rows) {
  const auto lines = std::ranges::count(text, '\n');
  // The cursor stands in a row of its own below the text.
  const auto room = static_cast<std::ptrdiff_t>(std::max(rows, 3)) - 1;
  const auto shown = lines <= room ? lines : room - 1;
  std::string cut;
  for (std::ptrdiff_t i = 0; i < shown; ++i) {
    const std::size_t end = text.find('\n');
    cut += cut_line(text.substr(0, end), columns);
    cut += '\n';
    text.remove_prefix(end + 1);
  }
  if (shown < lines) cut += cut_line(format("… {} more lines", lines - shown), columns) + "\n";
  return cut;
}

std::string bold(std::string_view text, bool colour) {
  return colour ? format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}

void write_text(TextStream stream, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_of(stream), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      fail_errno(errno, stream == TextStream::kOutput ? "cannot write to standard output"
                                                      : "cannot write to standard error");
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void write_json(const Json& json, int indent) {
  write_text(TextStream::kOutput, escaped_json(json.dump(indent)) + "\n");
}

int run_reporting_errors(const std::function<int()>& body) {
  try {
    return body();
  } catch (...) {
    return report(current_exception_text());
  }
}

}  // namespace harmonics::inline in_console
