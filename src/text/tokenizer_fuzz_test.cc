// A fixed slice of what the fuzzer of tokenizer.json does, in every build.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include <harmonics/base/random.h>

#include "small_tokenizers_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_text {
namespace {

// Parts of the known kinds, put where others stood.
constexpr std::string_view kParts[] = {
    R"({"type": "NFKC"})",
    R"({"type": "Prepend", "prepend": "▁"})",
    R"({"type": "Replace", "pattern": {"Regex": "(a|b)*c?"}, "content": "xy"})",
    R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true})",
    R"({"type": "Split", "pattern": {"Regex": "\\s*|\\w+"}, "behavior": "Contiguous", "invert": true})",
    R"({"type": "Digits", "individual_digits": false})",
    R"({"type": "ByteFallback"})",
    R"({"type": "Strip", "content": " ", "start": 1, "stop": 2})",
    R"({"type": "Strip", "strip_left": true, "strip_right": true})",
    R"({"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}]})",
    R"({"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]})",
    "null",
    "[]",
    "1e9",
};
constexpr std::string_view kKeys[] = {"normalizer", "pre_tokenizer", "post_processor", "decoder",
                                      "model",      "padding",       "truncation"};

void replace_part(std::string& file, Random& random) {
  const std::string_view key = kKeys[random.below(std::size(kKeys))];
  const std::string_view part = kParts[random.below(std::size(kParts))];
  const std::size_t at = file.find("\"" + std::string(key) + "\":");
  if (at != std::string::npos) {
    const std::size_t end = file.find_first_of("\n", at);
    file.replace(at, end - at, "\"" + std::string(key) + "\": " + std::string(part) + ",");
  }
}

TEST(TokenizerFuzz, MutationsOfSmallFiles) {
  Random random(1, "tokenizer fuzz");
  for (int i = 0; i < 20000; ++i) {
    std::string file(random.below(2) == 0 ? kSmallBert : kSmallBytes);
    if (random.below(3) == 0) replace_part(file, random);
    for (std::uint64_t n = random.below(4); n > 0; --n) {
      file[random.below(file.size())] = static_cast<char>(random.below(256));
    }
    if (random.below(8) == 0) file.resize(random.below(file.size() + 1));
    std::string text;
    for (std::uint64_t n = random.below(40); n > 0; --n) {
      text +=
          random.below(4) == 0 ? static_cast<char>(random.below(256)) : "low er,é"[random.below(8)];
    }
    const std::string input = static_cast<char>(text.size()) + text + file;
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
}

}  // namespace
}  // namespace harmonics::inline in_text
