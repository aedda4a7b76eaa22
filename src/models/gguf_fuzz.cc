// Any bytes are a GGUF file or an Error, whatever its head promises.
#include <cstdint>

#include <harmonics/base/error.h>
#include <harmonics/models/gguf.h>

#include <memory_file_testing.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const harmonics::MemoryFile bytes({reinterpret_cast<const char*>(data), size});
  try {
    const auto file = std::make_shared<const harmonics::MappedFile>(bytes.path());
    const harmonics::GgufFile opened = harmonics::open_gguf(file);
    for (const auto& [name, entry] : opened.weights.entries()) {
      (void)opened.weights.read(name);
    }
  } catch (const harmonics::Error&) {
  }
  return 0;
}
