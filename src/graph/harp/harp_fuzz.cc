// Any bytes are a graph or an Error; a graph survives being written as text and read again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/graph/harp.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  harmonics::HarmonicGraph graph;
  try {
    graph = harmonics::parse_harp({reinterpret_cast<const char*>(data), size});
  } catch (const harmonics::Error&) {
    return 0;
  }
  if (harmonics::parse_harp(harmonics::to_harp(graph)) != graph) std::abort();
  return 0;
}
