// Any bytes are an ONNX model or an Error, whatever they claim.
#include <cstdint>

#include <harmonics/base/error.h>

#include "onnx_importer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace harmonics;
  try {
    const OnnxModel model = read_onnx({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
    const OnnxChoices choices;
    (void)OnnxImporter(model, "fuzz", choices).run();
  } catch (const Error&) {
  }
  return 0;
}
