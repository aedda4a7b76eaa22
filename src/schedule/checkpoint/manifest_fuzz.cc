// Any bytes are a manifest or an Error; a manifest that was read is written and read again
// unchanged, and names only files beside it.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/schedule/manifest.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  harmonics::Manifest manifest;
  try {
    manifest = harmonics::decode_manifest({reinterpret_cast<const char*>(data), size}, "input");
  } catch (const harmonics::Error&) {
    return 0;
  }
  for (const harmonics::StageFile& stage : manifest.latest.stages) {
    if (stage.file.find('/') != std::string::npos || stage.sha256.size() != 64) std::abort();
  }
  if (harmonics::decode_manifest(encode_manifest(manifest), "again") != manifest) std::abort();
  return 0;
}
