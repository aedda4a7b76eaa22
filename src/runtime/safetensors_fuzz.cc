// Any bytes are a file of tensors or an Error, whatever its header promises.
#include <cstdint>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/runtime/safetensors.h>

#include <memory_file_testing.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const harmonics::MemoryFile file({reinterpret_cast<const char*>(data), size});
  try {
    (void)harmonics::read_safetensors_metadata(file.path());
    (void)harmonics::read_safetensors(file.path());
  } catch (const harmonics::Error&) {
  }
  return 0;
}
