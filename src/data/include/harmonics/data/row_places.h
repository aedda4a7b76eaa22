// RowPlaces: a source that can say where its values stand, for messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace harmonics::inline in_data {

/// What producers over files are besides: any thread.
class RowPlaces {
 public:
  virtual ~RowPlaces() = default;
  /// Where that element of that sample stands: "'points.csv' line 3, column 4".
  [[nodiscard]] virtual std::string place_of(std::int64_t row, std::size_t element) const = 0;
};

}  // namespace harmonics::inline in_data
