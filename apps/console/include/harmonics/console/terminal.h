// What the standard streams are connected to, and the rim of a program: writing and failing.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <harmonics/base/json.h>

namespace harmonics::inline in_console {

enum class TextStream { kOutput = 1, kError = 2 };

[[nodiscard]] bool is_terminal(TextStream stream);
/// True on a terminal that shows colours, unless NO_COLOR is set.
[[nodiscard]] bool wants_colour(TextStream stream);
/// Columns of the terminal; 80 where that cannot be known.
[[nodiscard]] int terminal_width(TextStream stream);

/// Rows of the terminal; 24 where that cannot be known.
[[nodiscard]] int terminal_height(TextStream stream);

/// The lines of `text` that a terminal of this size shows without scrolling, each cut to the
/// columns; what does not fit below is counted in the last line.
[[nodiscard]] std::string cut_to_size(std::string_view text, int columns, int rows);

/// `text` in bold, or as it is when `colour` is false.
[[nodiscard]] std::string bold(std::string_view text, bool colour);

/// Writes all of `text` at once; a stream that does not take it (a full disk, a closed pipe) is an
/// Error.
void write_text(TextStream stream, std::string_view text);

/// Writes `json` and a line break to standard output, with \u escapes for what a terminal would
/// obey.
void write_json(const Json& json, int indent = 0);

/// Runs the body of a program and gives its exit code. An exception becomes one message on standard
/// error, "harmonics: …", with control characters escaped, and exit code 1.
[[nodiscard]] int run_reporting_errors(const std::function<int()>& body);

}  // namespace harmonics::inline in_console
