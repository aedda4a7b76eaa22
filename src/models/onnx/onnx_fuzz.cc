// Any bytes are an ONNX model or an Error, whatever they claim.
#include <cstdint>

#include <harmonics/base/error.h>

#include "onnx_importer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace harmonics;
  // With the batch where the rule finds it, as the first axis, and without one.
  for (const std::optional<std::int64_t> batch :
       {std::optional<std::int64_t>(), std::optional<std::int64_t>(0),
        std::optional<std::int64_t>(-1)}) {
    try {
      const OnnxModel model = read_onnx({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
      OnnxChoices choices;
      choices.batch = batch;
      (void)OnnxImporter(model, "fuzz", choices).run();
    } catch (const Error&) {
    }
  }
  return 0;
}
