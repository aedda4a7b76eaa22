// What must hold, said where it is relied upon: checked in every build, release included.
//
// A broken check is a bug of this program, never a mistake of its user or peer: for those there is
// `fail`. It is loud whoever catches it: it writes an error line that names file, line and
// condition, then throws an `Error` (kInternal), so that nothing goes on from a state that cannot
// be. With HARMONICS_BUGS=abort in the environment, as in the tests of this tree, it ends the
// process instead, with the stack still standing.
#pragma once

#include <string>

#include <harmonics/base/format.h>

namespace harmonics::inline in_base {

/// Where a check stands and what it asks for.
struct CheckPlace {
  const char* file;
  int line;
  const char* condition;
};

/// What HARMONICS_CHECK does once it is broken. Any thread.
[[noreturn]] void check_failed(const CheckPlace& place, const std::string& text);

/// Whether a broken check ends the process: HARMONICS_BUGS=abort, until it is set here. Returns
/// what held before. Any thread.
bool set_abort_on_bugs(bool abort);

}  // namespace harmonics::inline in_base

/// HARMONICS_CHECK(condition, "task {} is queued twice", id): the text says what is broken, as
/// `fail` does. The condition is evaluated once; the text's arguments only when it is false.
#define HARMONICS_CHECK(condition, ...)                                                     \
  (static_cast<bool>(condition)                                                             \
       ? static_cast<void>(0)                                                               \
       : ::harmonics::check_failed(::harmonics::CheckPlace{__FILE__, __LINE__, #condition}, \
                                   ::harmonics::format(__VA_ARGS__)))
