// Any bytes are a graph or an Error; a graph that was read is written and read again unchanged.
#include <cstdint>
#include <cstdlib>
#include <span>

#include <harmonics/base/error.h>
#include <harmonics/graph/blob.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  harmonics::HarmonicGraph graph;
  try {
    graph = harmonics::decode_graph(std::as_bytes(std::span(data, size)));
  } catch (const harmonics::Error&) {
    return 0;
  }
  if (harmonics::decode_graph(harmonics::encode_graph(graph)) != graph) std::abort();
  return 0;
}
