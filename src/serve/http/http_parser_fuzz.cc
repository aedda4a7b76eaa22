// Any bytes, in pieces of any size, are requests or what breaks off; the pieces do not matter. The
// first byte says how large the pieces are.
#include <cstdint>
#include <string>
#include <string_view>

#include "http_parser.h"

namespace {

using namespace harmonics;

std::string told(std::string_view bytes, std::size_t piece) {
  constexpr std::size_t kMaxBody = 64;
  HttpParser parser(kMaxBody);
  std::string all;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    parser.feed(bytes.substr(at, piece));
    while (parser.stage() == HttpParser::Stage::kWhole) {
      const HttpQuery query = parser.take();
      if (query.body.size() > kMaxBody) __builtin_trap();
      all += query.method + " " + query.path + " " + query.body + "\n";
    }
  }
  if (parser.stage() == HttpParser::Stage::kBroken) all += std::to_string(parser.status());
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (told(bytes, static_cast<std::size_t>(data[0]) + 1) != told(bytes, bytes.size() + 1)) {
    __builtin_trap();
  }
  return 0;
}
