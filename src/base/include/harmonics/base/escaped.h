// Text of others on a terminal or in a log: a name, an error, a line of progress may hold what
// moves the cursor, sets the window's title or begins a line that we never wrote.
#pragma once

#include <string>
#include <string_view>

namespace harmonics::inline in_base {

/// `text` on one line, as it is safe to show: control characters as `\n`, `\t`, `\r`, `\x1b`; bytes
/// that are no UTF-8 as `\xff`; characters that break the line or turn its direction as `\u202e`.
/// The rest stays, a backslash too: this is for people and cannot be undone.
[[nodiscard]] std::string escaped(std::string_view text);

/// The same for text of several lines: ends of lines and tabs stay as they are.
[[nodiscard]] std::string escaped_lines(std::string_view text);

/// JSON that says the same and holds no such character: what its strings may hold as it is (DEL,
/// controls of eight bits, what turns a line) becomes `\u009b`.
[[nodiscard]] std::string escaped_json(std::string_view json);

}  // namespace harmonics::inline in_base
