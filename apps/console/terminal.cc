#include <harmonics/console/terminal.h>

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <exception>
#include <new>

#include <harmonics/base/error.h>

namespace harmonics {
namespace {

constexpr int kUsualWidth = 80;
constexpr int kExitCodeFailed = 1;

int descriptor_of(Stream stream) { return static_cast<int>(stream); }

int report(std::string_view message) {
  const std::string name =
      wants_colour(Stream::kError) ? "\x1b[1;31mharmonics:\x1b[0m" : "harmonics:";
  try {
    write_text(Stream::kError, format("{} {}\n", name, message));
  } catch (const Error&) {
    // Nobody listens; the exit code has to do.
  }
  return kExitCodeFailed;
}

}  // namespace

bool is_terminal(Stream stream) { return ::isatty(descriptor_of(stream)) == 1; }

bool wants_colour(Stream stream) {
  const char* refused = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  if (refused != nullptr && *refused != '\0') return false;
  return is_terminal(stream) && terminal != nullptr && std::string_view(terminal) != "dumb";
}

int terminal_width(Stream stream) {
  winsize size{};
  if (::ioctl(descriptor_of(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return kUsualWidth;
  }
  return size.ws_col;
}

std::string bold(std::string_view text, bool colour) {
  return colour ? format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}

void write_text(Stream stream, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_of(stream), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      fail_errno(errno, stream == Stream::kOutput ? "cannot write to standard output"
                                                  : "cannot write to standard error");
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

int run_reporting_errors(const std::function<int()>& body) {
  try {
    return body();
  } catch (const Error& error) {
    return report(error.what());
  } catch (const std::bad_alloc&) {
    return report("there is not enough memory");
  } catch (const std::exception& error) {
    // Of a library: its first line; what follows there is a trace for its own developers.
    const std::string_view text = error.what();
    return report(text.substr(0, text.find('\n')));
  }
}

}  // namespace harmonics
