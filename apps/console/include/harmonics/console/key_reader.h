// Keys of a person at the terminal, one by one.
#pragma once

#include <chrono>
#include <memory>

namespace harmonics::inline in_console {

/// What arrow keys are beside letters.
inline constexpr int kKeyUp = 256;
inline constexpr int kKeyDown = 257;

/// While it lives standard input gives keys at once and shows none; afterwards the terminal is as
/// it was. Ctrl-C stays a signal. Where standard input is no terminal there are no keys. One
/// thread.
class KeyReader {
 public:
  KeyReader();
  ~KeyReader();
  KeyReader(const KeyReader&) = delete;
  KeyReader& operator=(const KeyReader&) = delete;

  /// The next key within that time: a byte, kKeyUp or kKeyDown; 0: none.
  [[nodiscard]] int next(std::chrono::milliseconds patience);

 private:
  struct Before;
  std::unique_ptr<Before> before_;  ///< Null: no terminal.
};

}  // namespace harmonics::inline in_console
