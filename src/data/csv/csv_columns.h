// Which columns of a CSV file are wanted: the text "0-3,7,width" and what it means for a file.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace harmonics::inline in_data {

/// Whether the selection holds a name, so that the file must have a header.
[[nodiscard]] bool selects_by_name(std::string_view selection);

/// The numbers of the selected columns, in the order of the selection; all of them for an empty
/// one. `names` is the header, or empty. A column that is not there, is selected twice, or a range
/// that runs backwards is an Error that says what there is.
[[nodiscard]] std::vector<std::size_t> select_columns(std::string_view selection,
                                                      std::span<const std::string> names,
                                                      std::size_t column_count);

}  // namespace harmonics::inline in_data
