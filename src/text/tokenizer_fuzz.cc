// Fuzzes tokenizer.json: the first byte says how many of the following bytes are a text, the rest
// is the file. Whatever the bytes, it answers with an Error, or makes ids that it can turn back.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/text/tokenizer.h>

namespace harmonics::inline in_text {
namespace {

void fuzz(std::string_view input) {
  if (input.empty()) return;
  const std::string_view text = input.substr(1, static_cast<unsigned char>(input[0]));
  try {
    const Tokenizer tokenizer = Tokenizer::parse(input.substr(1 + text.size()), "fuzzed");
    const Encoding row = tokenizer.encode(text, {.max_length = 64, .pad_to = 16});
    const bool rows = row.ids.size() == row.mask.size() && row.ids.size() == row.type_ids.size();
    if (!rows || row.ids.size() < 16 || row.ids.size() > 64) std::abort();
    static_cast<void>(tokenizer.decode(row.ids));
  } catch (const Error&) {
  }
}

}  // namespace
}  // namespace harmonics::inline in_text

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  harmonics::fuzz({reinterpret_cast<const char*>(data), size});
  return 0;
}
