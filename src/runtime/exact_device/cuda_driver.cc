#include "cuda_driver.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <memory>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>

#include "exact_sources.h"

namespace harmonics::inline in_runtime {
namespace {

constexpr const char* kDriverName = "libcuda.so.1";
// By their major version; that of CUDA 11 kept the name of 11.2.
constexpr const char* kCompilerNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                          "libnvrtc.so"};

template <typename Function>
void find(void* library, const char* name, Function*& to) {
  to = reinterpret_cast<Function*>(dlsym(library, name));
  if (to == nullptr) {
    fail(ErrorCode::kFailedPrecondition,
         "CUDA has no {} here, it is too old: install a newer driver", std::string(name));
  }
}

void* driver_library() {
  if (void* library = dlopen(kDriverName, RTLD_NOW | RTLD_LOCAL)) return library;
  fail(ErrorCode::kFailedPrecondition, "no driver of CUDA answers ({})", std::string(dlerror()));
}

void* opened_compiler(int flags) {
  for (const char* name : kCompilerNames) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL | flags)) return library;
  }
  return nullptr;
}

// libtorch has a library of its own that brings the compiler with it, wherever that lies; what is
// loaded already is found by its name.
void* compiler_library() {
  Dl_info torch;
  if (dladdr(reinterpret_cast<void*>(&at::get_num_threads), &torch) != 0) {
    const std::string path = torch.dli_fname;
    dlopen((path.substr(0, path.rfind('/') + 1) + "libcaffe2_nvrtc.so").c_str(),
           RTLD_NOW | RTLD_LOCAL);
  }
  if (void* library = opened_compiler(RTLD_NOLOAD)) return library;
  if (void* library = opened_compiler(0)) return library;
  fail(ErrorCode::kFailedPrecondition,
       "CUDA's compiler NVRTC was not found ({}): it comes with a libtorch for CUDA",
       std::string(dlerror()));
}

struct Compiler {
  using Program = void*;

  Compiler() {
    void* const library = compiler_library();
    find(library, "nvrtcVersion", nvrtcVersion);
    find(library, "nvrtcCreateProgram", nvrtcCreateProgram);
    find(library, "nvrtcCompileProgram", nvrtcCompileProgram);
    find(library, "nvrtcDestroyProgram", nvrtcDestroyProgram);
    find(library, "nvrtcGetProgramLogSize", nvrtcGetProgramLogSize);
    find(library, "nvrtcGetProgramLog", nvrtcGetProgramLog);
    find(library, "nvrtcGetCUBINSize", nvrtcGetCUBINSize);
    find(library, "nvrtcGetCUBIN", nvrtcGetCUBIN);
  }

  int (*nvrtcVersion)(int* major, int* minor);
  int (*nvrtcCreateProgram)(Program* program, const char* source, const char* name, int headers,
                            const char* const* texts, const char* const* names);
  int (*nvrtcCompileProgram)(Program program, int count, const char* const* options);
  int (*nvrtcDestroyProgram)(Program* program);
  int (*nvrtcGetProgramLogSize)(Program program, std::size_t* size);
  int (*nvrtcGetProgramLog)(Program program, char* text);
  int (*nvrtcGetCUBINSize)(Program program, std::size_t* size);
  int (*nvrtcGetCUBIN)(Program program, char* binary);
};

const Compiler& compiler() {
  static const Compiler instance;
  return instance;
}

std::string log_of(const Compiler& nvrtc, Compiler::Program program) {
  std::size_t size = 0;
  nvrtc.nvrtcGetProgramLogSize(program, &size);
  std::string text(size, ' ');
  nvrtc.nvrtcGetProgramLog(program, text.data());
  return text.substr(0, 2000);
}

}  // namespace

CudaDriver::CudaDriver() {
  void* const library = driver_library();
  find(library, "cuInit", cuInit);
  find(library, "cuDeviceGetCount", cuDeviceGetCount);
  find(library, "cuDeviceGet", cuDeviceGet);
  find(library, "cuDeviceGetAttribute", cuDeviceGetAttribute);
  find(library, "cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain);
  find(library, "cuCtxPushCurrent_v2", cuCtxPushCurrent);
  find(library, "cuCtxPopCurrent_v2", cuCtxPopCurrent);
  find(library, "cuMemAlloc_v2", cuMemAlloc);
  find(library, "cuMemFree_v2", cuMemFree);
  find(library, "cuMemGetInfo_v2", cuMemGetInfo);
  find(library, "cuMemcpyHtoDAsync_v2", cuMemcpyHtoDAsync);
  find(library, "cuMemcpyDtoHAsync_v2", cuMemcpyDtoHAsync);
  find(library, "cuStreamCreate", cuStreamCreate);
  find(library, "cuStreamSynchronize", cuStreamSynchronize);
  find(library, "cuStreamDestroy_v2", cuStreamDestroy);
  find(library, "cuModuleLoadData", cuModuleLoadData);
  find(library, "cuModuleGetFunction", cuModuleGetFunction);
  find(library, "cuLaunchKernel", cuLaunchKernel);
  find(library, "cuGetErrorString", cuGetErrorString);
  if (const int error = cuInit(0); error != 0) {
    fail(ErrorCode::kFailedPrecondition, "CUDA's driver does not start: {}", text_of(error));
  }
}

std::string CudaDriver::text_of(int error) const {
  const char* text = nullptr;
  cuGetErrorString(error, &text);
  return text == nullptr ? format("error {}", error) : std::string(text);
}

void CudaDriver::check(int result, const std::string& what) const {
  if (result != 0) fail(ErrorCode::kInternal, "CUDA: {}: {}", what, text_of(result));
}

const CudaDriver& cuda_driver() {
  static const CudaDriver instance;
  return instance;
}

std::vector<std::string> exact_cuda_options(const std::string& architecture) {
  return {"--gpu-architecture=" + architecture,
          "--std=c++17",
          "--fmad=false",
          "--prec-div=true",
          "--prec-sqrt=true",
          "--ftz=false"};
}

std::string exact_cuda_binary(const std::string& architecture) {
  const Compiler& nvrtc = compiler();
  const std::string source = exact_source(kExactCudaPrelude);
  const std::vector<std::string> options = exact_cuda_options(architecture);
  Compiler::Program program = nullptr;
  if (nvrtc.nvrtcCreateProgram(&program, source.c_str(), "exact", 0, nullptr, nullptr) != 0) {
    fail(ErrorCode::kFailedPrecondition, "NVRTC took no program");
  }
  const std::unique_ptr<Compiler::Program, int (*)(Compiler::Program*)> ended(
      &program, nvrtc.nvrtcDestroyProgram);
  std::vector<const char*> words;
  for (const std::string& option : options) words.push_back(option.c_str());
  if (nvrtc.nvrtcCompileProgram(program, static_cast<int>(words.size()), words.data()) != 0) {
    fail(ErrorCode::kFailedPrecondition, "NVRTC {} does not compile the reproducible kernels: {}",
         cuda_compiler_version(), log_of(nvrtc, program));
  }
  std::size_t size = 0;
  nvrtc.nvrtcGetCUBINSize(program, &size);
  std::string binary(size, '\0');
  if (size == 0 || nvrtc.nvrtcGetCUBIN(program, binary.data()) != 0) {
    fail(ErrorCode::kFailedPrecondition, "NVRTC {} made no binary", cuda_compiler_version());
  }
  return binary;
}

std::string cuda_compiler_version() {
  int major = 0, minor = 0;
  compiler().nvrtcVersion(&major, &minor);
  return format("{}.{}", major, minor);
}

}  // namespace harmonics::inline in_runtime
