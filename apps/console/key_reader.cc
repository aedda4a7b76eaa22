#include <harmonics/console/key_reader.h>

#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <thread>

namespace harmonics::inline in_console {

struct KeyReader::Before {
  termios settings{};
};

KeyReader::KeyReader() {
  // One in the background would be stopped for touching the terminal.
  const pid_t in_front = ::tcgetpgrp(STDIN_FILENO);
  if (in_front >= 0 && in_front != ::getpgrp()) return;
  auto before = std::make_unique<Before>();
  if (::tcgetattr(STDIN_FILENO, &before->settings) != 0) return;
  termios raw = before->settings;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  if (::tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0) before_ = std::move(before);
}

KeyReader::~KeyReader() {
  if (before_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_->settings);
}

int KeyReader::next(std::chrono::milliseconds patience) {
  if (!before_) {
    std::this_thread::sleep_for(patience);
    return 0;
  }
  pollfd input{STDIN_FILENO, POLLIN, 0};
  unsigned char byte = 0;
  if (::poll(&input, 1, static_cast<int>(patience.count())) <= 0) return 0;
  if (::read(STDIN_FILENO, &byte, 1) != 1) {
    before_.reset();  // it was closed
    return 0;
  }
  if (byte != 0x1b || ::poll(&input, 1, 0) <= 0) return byte;
  // An arrow is three bytes, which come together.
  unsigned char rest[2] = {0, 0};
  if (::read(STDIN_FILENO, rest, 2) != 2 || rest[0] != '[') return 0;
  return rest[1] == 'A' ? kKeyUp : rest[1] == 'B' ? kKeyDown : 0;
}

}  // namespace harmonics::inline in_console
