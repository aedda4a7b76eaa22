#include "text_program.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

namespace harmonics::inline in_front {
namespace {

// Whether a GPU answers is for libtorch to find out; without a driver none does.
bool has_cuda_driver() {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) ::dlclose(driver);
  return driver != nullptr;
}

}  // namespace

const SiblingProgram& text_program(TextBackend backend) {
  std::error_code error;
  if (backend == TextBackend::kCpu || !std::filesystem::exists(path_of(kTextTorchProgram), error) ||
      (backend == TextBackend::kAuto && !has_cuda_driver())) {
    return kTextProgram;
  }
  return kTextTorchProgram;
}

}  // namespace harmonics::inline in_front
