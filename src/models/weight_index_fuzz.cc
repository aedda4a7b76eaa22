// Any text is an index, a map or an Error.
#include <cstdint>

#include <harmonics/base/error.h>

#include "weight_index.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    (void)harmonics::parse_weight_index(text, "index");
  } catch (const harmonics::Error&) {
  }
  try {
    // What was read once is written and read again.
    const harmonics::WeightMap map = harmonics::parse_weight_map(text, "map");
    const harmonics::WeightMap again =
        harmonics::parse_weight_map(harmonics::weight_map_text(map), "again");
    if (again.entries.size() != map.entries.size()) __builtin_trap();
  } catch (const harmonics::Error&) {
  }
  return 0;
}
