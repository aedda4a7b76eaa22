#include "torch/fused_program.h"

#include <ATen/cuda/CUDAContext.h>
#include <dlfcn.h>
#include <nvrtc.h>

#include <memory>
#include <mutex>
#include <optional>
#include <tuple>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/base/log.h>

#include "kernels/program_cache.h"

namespace harmonics::inline in_runtime {
namespace {

// Both libraries come with libtorch and the driver, and neither is linked: a program of ours starts
// on a machine that has none of them.
template <typename Function>
Function* symbol(void* library, const char* name) {
  void* const found = dlsym(library, name);
  if (found == nullptr) fail(ErrorCode::kUnavailable, "the library has no {}", std::string(name));
  return reinterpret_cast<Function*>(found);
}

void* opened(const std::string& name) {
  if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  fail(ErrorCode::kUnavailable, "{}", std::string(dlerror()));
}

// libtorch has a library of its own that brings the compiler with it, wherever that lies.
void* opened_compiler() {
  const std::string name = format("libnvrtc.so.{}", CUDA_VERSION / 1000);
  if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  if (dlopen("libcaffe2_nvrtc.so", RTLD_NOW | RTLD_LOCAL) == nullptr) {
    Dl_info torch;
    if (dladdr(reinterpret_cast<void*>(&at::cuda::getCurrentDeviceProperties), &torch) != 0) {
      const std::string path = torch.dli_fname;
      dlopen((path.substr(0, path.rfind('/') + 1) + "libcaffe2_nvrtc.so").c_str(),
             RTLD_NOW | RTLD_LOCAL);
    }
  }
  return opened(name);
}

#define HARMONICS_OF(library, name) \
  decltype(::name)* name = symbol<decltype(::name)>(library, #name)

struct Compiler {
  void* library = opened_compiler();
  HARMONICS_OF(library, nvrtcVersion);
  HARMONICS_OF(library, nvrtcCreateProgram);
  HARMONICS_OF(library, nvrtcCompileProgram);
  HARMONICS_OF(library, nvrtcDestroyProgram);
  HARMONICS_OF(library, nvrtcGetProgramLogSize);
  HARMONICS_OF(library, nvrtcGetProgramLog);
  HARMONICS_OF(library, nvrtcGetCUBINSize);
  HARMONICS_OF(library, nvrtcGetCUBIN);

  std::string compiled(const std::string& source, const std::vector<std::string>& options) const {
    nvrtcProgram program = nullptr;
    if (nvrtcCreateProgram(&program, source.c_str(), "fused", 0, nullptr, nullptr) !=
        NVRTC_SUCCESS) {
      fail(ErrorCode::kUnavailable, "NVRTC took no program");
    }
    const std::unique_ptr<nvrtcProgram, decltype(nvrtcDestroyProgram)> ended(&program,
                                                                             nvrtcDestroyProgram);
    std::vector<const char*> words;
    for (const std::string& option : options) words.push_back(option.c_str());
    if (nvrtcCompileProgram(program, static_cast<int>(words.size()), words.data()) !=
        NVRTC_SUCCESS) {
      std::size_t size = 0;
      nvrtcGetProgramLogSize(program, &size);
      std::string text(size, ' ');
      nvrtcGetProgramLog(program, text.data());
      fail(ErrorCode::kUnavailable, "NVRTC: {}", text.substr(0, 2000));
    }
    std::size_t size = 0;
    nvrtcGetCUBINSize(program, &size);
    std::string binary(size, '\0');
    if (size == 0 || nvrtcGetCUBIN(program, binary.data()) != NVRTC_SUCCESS) {
      fail(ErrorCode::kUnavailable, "NVRTC made no binary");
    }
    return binary;
  }
};

struct Driver {
  void* library = opened("libcuda.so.1");
  HARMONICS_OF(library, cuModuleLoadData);
  HARMONICS_OF(library, cuModuleGetFunction);
  HARMONICS_OF(library, cuLaunchKernel);
  HARMONICS_OF(library, cuGetErrorString);
  HARMONICS_OF(library, cuCtxGetCurrent);
  HARMONICS_OF(library, cuCtxSetCurrent);
  HARMONICS_OF(library, cuDevicePrimaryCtxRetain);

  void check(CUresult result, const char* what) const {
    if (result == CUDA_SUCCESS) return;
    const char* text = nullptr;
    cuGetErrorString(result, &text);
    fail(ErrorCode::kUnavailable, "{}: {}", std::string(what),
         std::string(text == nullptr ? "unknown error" : text));
  }

  // libtorch's calls bind a thread to its device by themselves, the driver's do not: the first
  // thing that autograd's own thread does may be a kernel of ours.
  void bind_thread() const {
    CUcontext context = nullptr;
    check(cuCtxGetCurrent(&context), "looking for the thread's device");
    if (context != nullptr) return;
    check(cuDevicePrimaryCtxRetain(&context, c10::cuda::current_device()), "taking the device");
    check(cuCtxSetCurrent(context), "binding the thread to its device");
  }
};

#undef HARMONICS_OF

const Driver& driver() {
  static const Driver instance;
  return instance;
}

CUmodule loaded(const std::string& source, std::vector<std::string> options) {
  const cudaDeviceProp& device = *at::cuda::getCurrentDeviceProperties();
  options.push_back(format("--gpu-architecture=sm_{}{}", device.major, device.minor));
  options.push_back("--std=c++17");
  static const Compiler compiler;
  int major = 0, minor = 0;
  compiler.nvrtcVersion(&major, &minor);
  std::vector<std::string> parts = options;
  parts.push_back(source);
  parts.push_back(format("nvrtc {}.{}", major, minor));
  driver().bind_thread();
  const ProgramCache cache(ProgramCache::standard_folder("cuda"));
  const std::string key = ProgramCache::key(parts);
  CUmodule made = nullptr;
  if (const auto kept = cache.load(key)) {
    if (driver().cuModuleLoadData(&made, kept->data()) == CUDA_SUCCESS) return made;
    cache.remove(key);
  }
  const std::string binary = compiler.compiled(source, options);
  driver().check(driver().cuModuleLoadData(&made, binary.data()), "loading a fused kernel");
  cache.store(key, binary);
  return made;
}

}  // namespace

const FusedProgram* FusedProgram::find(const std::string& source,
                                       std::vector<std::string> options) {
  static std::mutex mutex;
  using Name = std::tuple<const std::string*, int, std::vector<std::string>>;
  static std::map<Name, std::optional<FusedProgram>> programs;
  const std::lock_guard lock(mutex);
  const auto [at, is_new] =
      programs.try_emplace(Name(&source, static_cast<int>(c10::cuda::current_device()), options));
  if (is_new) {
    try {
      at->second = FusedProgram(loaded(source, std::move(options)));
    } catch (const Error& error) {
      log_warn("runtime", "layers are not fused on this GPU, which costs speed: {}",
               std::string_view(error.what()));
    }
  }
  return at->second ? &*at->second : nullptr;
}

void FusedProgram::start(const char* kernel, const LaunchShape& shape, void** arguments) const {
  driver().bind_thread();
  CUfunction function = nullptr;
  driver().check(driver().cuModuleGetFunction(&function, module_, kernel), kernel);
  driver().check(driver().cuLaunchKernel(function, shape.blocks_x, shape.blocks_y, 1,
                                         shape.threads_x, shape.threads_y, 1, 0,
                                         at::cuda::getCurrentCUDAStream(), arguments, nullptr),
                 kernel);
}

}  // namespace harmonics::inline in_runtime
