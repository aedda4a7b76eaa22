// A fixed slice of what the fuzzer does, in every build: damaged records and chains through its
// entry. Every second chain gets its checks mended, so that damage reaches what lies behind them.
#include <gtest/gtest.h>

#include <harmonics/base/random.h>

#include "custody_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_custody {
namespace {

void run_fuzzer(ByteSpan bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

void damage(Bytes& bytes, Random& random) {
  if (bytes.empty()) return;
  const std::size_t at = random.below(bytes.size());
  switch (random.below(3)) {
    case 0: bytes[at] ^= static_cast<std::byte>(1u << random.below(8)); break;
    case 1: bytes.resize(at); break;
    default: bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), 4, std::byte{0xff});
  }
}

TEST(ChainFuzz, DamagedRecordsAndChainsAreErrors) {
  const Chain honest = line_chain(line_keys(2), 1);
  Random random(5, "chain fuzz");
  for (int i = 0; i < 4000; ++i) {
    Chain chain = honest;
    ChainRecord& record = chain.records[random.below(chain.records.size())];
    damage(record.body, random);
    run_fuzzer(record.body);
    Bytes bytes = encode_chain(chain);
    if (i % 2 == 0) damage(bytes, random);
    run_fuzzer(bytes);
  }
}

}  // namespace
}  // namespace harmonics::inline in_custody
