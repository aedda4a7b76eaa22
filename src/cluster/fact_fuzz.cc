// Any bytes are facts or an Error; facts that were read are written and read again unchanged.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/cluster/fact_codec.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace harmonics;
  std::vector<Fact> facts;
  try {
    read_facts(std::as_bytes(std::span(data, size)), "fuzz",
               [&](Fact&& fact) { facts.push_back(std::move(fact)); });
  } catch (const Error&) {
  }
  FactWriter writer;
  for (const Fact& fact : facts) writer.add(fact);
  std::size_t at = 0;
  read_facts(writer.take(), "fuzz", [&](Fact&& fact) {
    if (at == facts.size() || !(facts[at++] == fact)) std::abort();
  });
  if (at != facts.size()) std::abort();
  return 0;
}
