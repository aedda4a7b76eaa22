#include "opencl_context.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <harmonics/base/log.h>
#include <harmonics/runtime/opencl_devices.h>

#include "exact_device/exact_sources.h"
#include "kernels/program_cache.h"
#include "opencl_kernels.h"

namespace harmonics::inline in_runtime {
namespace {

// The loader answers with this when no platform is installed (cl_khr_icd).
constexpr cl_int kPlatformNotFound = -1001;
constexpr std::size_t kGroupSize = 64;

std::string text_of(cl_device_id device, cl_device_info what) {
  std::size_t size = 0;
  if (clGetDeviceInfo(device, what, 0, nullptr, &size) != CL_SUCCESS || size == 0) return {};
  std::string text(size, '\0');
  clGetDeviceInfo(device, what, size, text.data(), nullptr);
  text.resize(text.find('\0') == std::string::npos ? size : text.find('\0'));
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

std::string text_of(cl_platform_id platform, cl_platform_info what) {
  std::size_t size = 0;
  if (clGetPlatformInfo(platform, what, 0, nullptr, &size) != CL_SUCCESS || size == 0) return {};
  std::string text(size, '\0');
  clGetPlatformInfo(platform, what, size, text.data(), nullptr);
  text.resize(text.find('\0') == std::string::npos ? size : text.find('\0'));
  return text;
}

template <typename Value>
Value value_of(cl_device_id device, cl_device_info what) {
  Value value{};
  clGetDeviceInfo(device, what, sizeof value, &value, nullptr);
  return value;
}

OpenClType type_of(cl_device_id device) {
  const auto type = value_of<cl_device_type>(device, CL_DEVICE_TYPE);
  if ((type & CL_DEVICE_TYPE_ACCELERATOR) != 0) return OpenClType::kAccelerator;
  if ((type & CL_DEVICE_TYPE_GPU) != 0) return OpenClType::kGpu;
  if ((type & CL_DEVICE_TYPE_CPU) != 0) return OpenClType::kCpu;
  return OpenClType::kOther;
}

struct Found {
  cl_device_id id;
  OpenClDevice description;
};

std::vector<Found> find_devices() {
  // Drivers set themselves up at the first question, and PoCL does not survive two at once.
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  cl_uint count = 0;
  const cl_int code = clGetPlatformIDs(0, nullptr, &count);
  if (code == kPlatformNotFound || count == 0) return {};
  check_opencl(code, "listing the platforms");
  std::vector<cl_platform_id> platforms(count);
  check_opencl(clGetPlatformIDs(count, platforms.data(), nullptr), "listing the platforms");
  std::vector<Found> found;
  for (std::size_t p = 0; p < platforms.size(); ++p) {
    cl_uint devices = 0;
    if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 0, nullptr, &devices) != CL_SUCCESS) {
      continue;  // a platform without devices
    }
    std::vector<cl_device_id> ids(devices);
    check_opencl(clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, devices, ids.data(), nullptr),
                 "listing the devices");
    for (const cl_device_id id : ids) {
      if (found.size() == kMaxOpenClDevices) return found;
      found.push_back({id,
                       {.platform = text_of(platforms[p], CL_PLATFORM_NAME),
                        .platform_index = p,
                        .name = text_of(id, CL_DEVICE_NAME),
                        .driver = text_of(id, CL_DRIVER_VERSION),
                        .type = type_of(id),
                        .memory_bytes = value_of<cl_ulong>(id, CL_DEVICE_GLOBAL_MEM_SIZE)}});
    }
  }
  return found;
}

std::string build_log(cl_program program, cl_device_id device) {
  std::size_t size = 0;
  clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
  std::string text(size, '\0');
  clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, text.data(), nullptr);
  return text;
}

std::string binary_of(cl_program program) {
  std::size_t size = 0;
  if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr) !=
      CL_SUCCESS) {
    return {};
  }
  std::string binary(size, '\0');
  auto* bytes = reinterpret_cast<unsigned char*>(binary.data());
  if (clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof bytes, &bytes, nullptr) != CL_SUCCESS) {
    return {};
  }
  return binary;
}

/// What a program is made of.
struct ProgramText {
  std::string source;
  std::string options;
};

ProgramText ordinary_text(std::size_t group_size) {
  return {opencl_kernel_source(), format("-cl-std=CL1.2 -D GROUP={}", group_size)};
}

// The device has to do what the arithmetic asks for, and to do it in groups of one size.
ProgramText exact_text(cl_device_id device, std::size_t group_size, bool has_doubles) {
  struct Need {
    cl_device_fp_config bit;
    const char* what;
  };
  constexpr Need kNeeds[] = {
      {CL_FP_DENORM, "keep subnormal numbers (CL_FP_DENORM)"},
      {CL_FP_ROUND_TO_NEAREST, "round to nearest (CL_FP_ROUND_TO_NEAREST)"},
      {CL_FP_FMA, "fuse a multiplication and an addition (CL_FP_FMA)"},
      {CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT,
       "round divisions and square roots (CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT)"}};
  const auto bits = value_of<cl_device_fp_config>(device, CL_DEVICE_SINGLE_FP_CONFIG);
  for (const Need& need : kNeeds) {
    if ((bits & need.bit) != 0) continue;
    fail(ErrorCode::kFailedPrecondition,
         "OpenCL device '{}' does not {}, which a reproducible run asks of float32: take another "
         "device or the CPU",
         text_of(device, CL_DEVICE_NAME), std::string(need.what));
  }
  if (group_size != kExactGroup) {
    fail(ErrorCode::kFailedPrecondition,
         "OpenCL device '{}' runs groups of {} work items, a reproducible run takes {}: take "
         "another device or the CPU",
         text_of(device, CL_DEVICE_NAME), group_size, kExactGroup);
  }
  return {exact_source(kExactOpenClPrelude),
          format("-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt{}",
                 std::string(has_doubles ? " -D HAS_DOUBLE" : ""))};
}

/// Builds the kernels for one device, from the cache where it has them.
class ProgramBuilder {
 public:
  ProgramBuilder(cl_context context, cl_device_id device, ProgramText text)
      : context_(context),
        device_(device),
        options_(std::move(text.options)),
        source_(std::move(text.source)),
        cache_(ProgramCache::standard_folder("opencl")) {
    cl_platform_id platform = value_of<cl_platform_id>(device, CL_DEVICE_PLATFORM);
    const std::array<std::string, 7> parts = {source_,
                                              options_,
                                              text_of(platform, CL_PLATFORM_NAME),
                                              text_of(platform, CL_PLATFORM_VERSION),
                                              text_of(device, CL_DEVICE_NAME),
                                              text_of(device, CL_DEVICE_VERSION),
                                              text_of(device, CL_DRIVER_VERSION)};
    key_ = ProgramCache::key(parts);
  }

  cl_program build() {
    if (const auto binary = cache_.load(key_)) {
      if (cl_program program = from_binary(*binary)) return program;
      log_warn("runtime", "the driver refused a kept OpenCL program: it is built again");
      cache_.remove(key_);
    }
    cl_program program = from_source();
    if (const std::string binary = binary_of(program); !binary.empty()) cache_.store(key_, binary);
    return program;
  }

 private:
  cl_program from_binary(const std::string& binary) {
    const std::size_t size = binary.size();
    const auto* bytes = reinterpret_cast<const unsigned char*>(binary.data());
    cl_int status = CL_SUCCESS, code = CL_SUCCESS;
    cl_program program =
        clCreateProgramWithBinary(context_, 1, &device_, &size, &bytes, &status, &code);
    if (code != CL_SUCCESS || status != CL_SUCCESS) return nullptr;
    if (clBuildProgram(program, 1, &device_, options_.c_str(), nullptr, nullptr) == CL_SUCCESS) {
      return program;
    }
    clReleaseProgram(program);
    return nullptr;
  }

  cl_program from_source() {
    const char* text = source_.c_str();
    const std::size_t size = source_.size();
    cl_int code = CL_SUCCESS;
    cl_program program = clCreateProgramWithSource(context_, 1, &text, &size, &code);
    check_opencl(code, "making the program");
    code = clBuildProgram(program, 1, &device_, options_.c_str(), nullptr, nullptr);
    if (code != CL_SUCCESS) {
      const std::string log = build_log(program, device_);
      clReleaseProgram(program);
      fail(ErrorCode::kInternal, "OpenCL device '{}' cannot build the kernels ({}):\n{}",
           text_of(device_, CL_DEVICE_NAME), opencl_error_name(code), log);
    }
    return program;
  }

  cl_context context_;
  cl_device_id device_;
  std::string options_;
  std::string source_;
  ProgramCache cache_;
  std::string key_;
};

}  // namespace

bool opencl_is_built() { return true; }

std::vector<OpenClDevice> list_opencl_devices() {
  std::vector<OpenClDevice> devices;
  for (Found& found : find_devices()) devices.push_back(std::move(found.description));
  return devices;
}

std::string opencl_error_name(cl_int code) {
  switch (code) {
    case CL_DEVICE_NOT_AVAILABLE: return "CL_DEVICE_NOT_AVAILABLE";
    case CL_MEM_OBJECT_ALLOCATION_FAILURE: return "CL_MEM_OBJECT_ALLOCATION_FAILURE";
    case CL_OUT_OF_RESOURCES: return "CL_OUT_OF_RESOURCES";
    case CL_OUT_OF_HOST_MEMORY: return "CL_OUT_OF_HOST_MEMORY";
    case CL_BUILD_PROGRAM_FAILURE: return "CL_BUILD_PROGRAM_FAILURE";
    case CL_INVALID_VALUE: return "CL_INVALID_VALUE";
    case CL_INVALID_BINARY: return "CL_INVALID_BINARY";
    case CL_INVALID_KERNEL_NAME: return "CL_INVALID_KERNEL_NAME";
    case CL_INVALID_KERNEL_ARGS: return "CL_INVALID_KERNEL_ARGS";
    case CL_INVALID_WORK_GROUP_SIZE: return "CL_INVALID_WORK_GROUP_SIZE";
    case CL_INVALID_BUFFER_SIZE: return "CL_INVALID_BUFFER_SIZE";
    default: return format("error {}", code);
  }
}

OpenClContext::OpenClContext(cl_device_id given, OpenClKernels kernels) : device(given) {
  name = text_of(device, CL_DEVICE_NAME);
  memory_bytes = value_of<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE);
  max_allocation_bytes = value_of<cl_ulong>(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  const auto most = value_of<std::size_t>(device, CL_DEVICE_MAX_WORK_GROUP_SIZE);
  group_size = kGroupSize;
  while (group_size > 1 && group_size > most) group_size /= 2;
  has_doubles = value_of<cl_device_fp_config>(device, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
  ProgramText text = kernels == OpenClKernels::kExact ? exact_text(device, group_size, has_doubles)
                                                      : ordinary_text(group_size);
  cl_int code = CL_SUCCESS;
  context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code);
  check_opencl(code, "opening the device");
  try {
    program = ProgramBuilder(context, device, std::move(text)).build();
  } catch (...) {
    clReleaseContext(context);
    throw;
  }
}

OpenClContext::~OpenClContext() {
  clReleaseProgram(program);
  clReleaseContext(context);
}

std::shared_ptr<OpenClContext> OpenClContext::of_device(std::size_t number, OpenClKernels kernels) {
  using Key = std::pair<cl_device_id, OpenClKernels>;
  // Never torn down: a driver may unload its own state before static destructors run.
  static auto& contexts = *new std::map<Key, std::shared_ptr<OpenClContext>>();
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const std::vector<Found> devices = find_devices();
  if (number >= devices.size()) {
    fail(ErrorCode::kFailedPrecondition, "there is no OpenCL device {}: {} answer", number,
         devices.size());
  }
  std::shared_ptr<OpenClContext>& context = contexts[{devices[number].id, kernels}];
  if (context == nullptr) context = std::make_shared<OpenClContext>(devices[number].id, kernels);
  return context;
}

}  // namespace harmonics::inline in_runtime
