#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include <harmonics/base/error.h>

#include "cuda_driver.h"
#include "exact_device.h"
#include "exact_sources.h"
#include "kernels/program_cache.h"

namespace harmonics::inline in_runtime {
namespace {

// Numbers of cuDeviceGetAttribute.
constexpr int kMajorAttribute = 75, kMinorAttribute = 76;
constexpr unsigned kStreamOfItsOwn = 1;  // it does not wait for the default stream
/// Most bytes that a queue keeps for reuse; what comes back beyond is released.
constexpr std::size_t kMaxKeptBytes = std::size_t{4} << 30;
constexpr std::size_t kBlockBytes = 512;  // sizes are rounded up to it, so that more of them agree

/// Makes a GPU's context the thread's, and the former one again.
class InContext {
 public:
  explicit InContext(CudaContext context) {
    cuda_driver().check(cuda_driver().cuCtxPushCurrent(context), "binding the thread to its GPU");
  }
  ~InContext() {
    CudaContext ended = nullptr;
    cuda_driver().cuCtxPopCurrent(&ended);
  }
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;
};

/// One GPU with its program, made once per process. Thread safe.
struct CudaGpu {
  explicit CudaGpu(std::size_t given) : number(given) {
    const CudaDriver& cuda = cuda_driver();
    int count = 0, device = 0;
    cuda.check(cuda.cuDeviceGetCount(&count), "counting the GPUs");
    if (number >= static_cast<std::size_t>(count)) {
      fail(ErrorCode::kFailedPrecondition, "there is no GPU {}: {} answer", number, count);
    }
    cuda.check(cuda.cuDeviceGet(&device, static_cast<int>(number)), "asking for the GPU");
    int major = 0, minor = 0;
    cuda.check(cuda.cuDeviceGetAttribute(&major, kMajorAttribute, device), "asking the GPU");
    cuda.check(cuda.cuDeviceGetAttribute(&minor, kMinorAttribute, device), "asking the GPU");
    cuda.check(cuda.cuDevicePrimaryCtxRetain(&context, device), "opening the GPU");
    const InContext here(context);
    load(format("sm_{}{}", major, minor));
  }

  [[nodiscard]] static std::shared_ptr<CudaGpu> of(std::size_t number) {
    // Never torn down: the driver may unload its own state before static destructors run.
    static auto& gpus = *new std::map<std::size_t, std::shared_ptr<CudaGpu>>();
    static std::mutex one_at_a_time;
    const std::lock_guard lock(one_at_a_time);
    std::shared_ptr<CudaGpu>& gpu = gpus[number];
    if (gpu == nullptr) gpu = std::make_shared<CudaGpu>(number);
    return gpu;
  }

  std::size_t number;
  CudaContext context = nullptr;
  CudaModule program = nullptr;
  /// Bytes that all queues of this process hold.
  std::atomic<std::uint64_t> taken_bytes = 0;

 private:
  void load(const std::string& architecture) {
    std::vector<std::string> parts = exact_cuda_options(architecture);
    parts.push_back(exact_source(kExactCudaPrelude));
    parts.push_back("nvrtc " + cuda_compiler_version());
    const ProgramCache cache(ProgramCache::standard_folder("cuda"));
    const std::string key = ProgramCache::key(parts);
    if (const auto kept = cache.load(key)) {
      if (cuda_driver().cuModuleLoadData(&program, kept->data()) == 0) return;
      cache.remove(key);
    }
    const std::string binary = exact_cuda_binary(architecture);
    cuda_driver().check(cuda_driver().cuModuleLoadData(&program, binary.data()),
                        "loading the reproducible kernels");
    cache.store(key, binary);
  }
};

/// Blocks of one queue that wait to be used again. All work on them goes through that queue's
/// stream, so a block may be handed on while the GPU still reads it. One thread.
class CudaMemory {
 public:
  CudaMemory(std::shared_ptr<CudaGpu> gpu, std::uint64_t limit_bytes)
      : gpu_(std::move(gpu)), limit_bytes_(limit_bytes) {}
  ~CudaMemory() { drop(); }
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  /// 0 where there is none left.
  [[nodiscard]] CudaAddress take(std::size_t bytes) {
    const auto found = kept_.find(bytes);
    if (found != kept_.end() && !found->second.empty()) {
      const CudaAddress address = found->second.back();
      found->second.pop_back();
      kept_bytes_ -= bytes;
      return address;
    }
    if (const CudaAddress address = make(bytes)) return address;
    drop();  // what is kept may be what is missing
    return make(bytes);
  }
  void give_back(CudaAddress address, std::size_t bytes) {
    if (kept_bytes_ + bytes > kMaxKeptBytes) {
      release(address, bytes);
      return;
    }
    kept_[bytes].push_back(address);
    kept_bytes_ += bytes;
  }

 private:
  [[nodiscard]] CudaAddress make(std::size_t bytes) {
    const std::uint64_t before = gpu_->taken_bytes.fetch_add(bytes);
    CudaAddress address = 0;
    if (limit_bytes_ == 0 || before + bytes <= limit_bytes_) {
      const InContext here(gpu_->context);
      const int error = cuda_driver().cuMemAlloc(&address, bytes);
      if (error == 0) return address;
      if (error != kCudaOutOfMemory) cuda_driver().check(error, "taking memory of the GPU");
    }
    gpu_->taken_bytes -= bytes;
    return 0;
  }
  void release(CudaAddress address, std::size_t bytes) {
    const InContext here(gpu_->context);
    cuda_driver().cuMemFree(address);
    gpu_->taken_bytes -= bytes;
  }
  void drop() {
    for (const auto& [bytes, blocks] : kept_) {
      for (const CudaAddress address : blocks) release(address, bytes);
    }
    kept_.clear();
    kept_bytes_ = 0;
  }

  std::shared_ptr<CudaGpu> gpu_;
  std::uint64_t limit_bytes_;
  std::map<std::size_t, std::vector<CudaAddress>> kept_;
  std::size_t kept_bytes_ = 0;
};

struct CudaBlock {
  CudaBlock(std::shared_ptr<CudaMemory> owner, CudaAddress at, std::size_t size)
      : memory(std::move(owner)), address(at), bytes(size) {}
  ~CudaBlock() { memory->give_back(address, bytes); }
  CudaBlock(const CudaBlock&) = delete;
  CudaBlock& operator=(const CudaBlock&) = delete;

  std::shared_ptr<CudaMemory> memory;
  CudaAddress address;
  std::size_t bytes;
};

CudaAddress address_of(const ExactArray& array) {
  return static_cast<const CudaBlock*>(array.there.get())->address;
}

class ExactCudaDevice final : public ExactDevice {
 public:
  ExactCudaDevice(std::size_t number, std::uint64_t memory_limit_bytes)
      : gpu_(CudaGpu::of(number)), memory_(std::make_shared<CudaMemory>(gpu_, memory_limit_bytes)) {
    const InContext here(gpu_->context);
    cuda_.check(cuda_.cuStreamCreate(&stream_, kStreamOfItsOwn), "making a stream");
  }
  ~ExactCudaDevice() override {
    const InContext here(gpu_->context);
    cuda_.cuStreamSynchronize(stream_);
    cuda_.cuStreamDestroy(stream_);
  }
  ExactCudaDevice(const ExactCudaDevice&) = delete;
  ExactCudaDevice& operator=(const ExactCudaDevice&) = delete;

  std::string name() const override { return format("cuda:{}", gpu_->number); }
  bool has_doubles() const override { return true; }
  void at(std::string operation) override { operation_ = std::move(operation); }

  using ExactDevice::empty;
  ExactArray empty(const Shape& shape, DType dtype) override {
    const auto count = static_cast<std::size_t>(element_count(shape));
    const std::size_t wanted = std::max<std::size_t>(count * dtype_size(dtype), 1);
    const std::size_t bytes = (wanted + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
    const CudaAddress address = memory_->take(bytes);
    if (address == 0) refuse(bytes);
    return {shape, dtype, Tensor(), std::make_shared<CudaBlock>(memory_, address, bytes)};
  }

  void write(const ExactArray& to, const Tensor& from) override {
    if (from.byte_size() == 0) return;
    const InContext here(gpu_->context);
    check(cuda_.cuMemcpyHtoDAsync(address_of(to), from.bytes().data(), from.byte_size(), stream_),
          "copying to the GPU");
    check(cuda_.cuStreamSynchronize(stream_), "copying to the GPU");
  }

  Tensor download(const ExactArray& array) override {
    Tensor made = Tensor::empty(array.shape, array.dtype);
    if (made.byte_size() == 0) return made;
    const InContext here(gpu_->context);
    check(cuda_.cuMemcpyDtoHAsync(made.mutable_bytes().data(), address_of(array), made.byte_size(),
                                  stream_),
          "copying from the GPU");
    check(cuda_.cuStreamSynchronize(stream_), "computing");
    return made;
  }

  void run(const char* kernel, std::int64_t items,
           std::initializer_list<DeviceArgument> arguments) override {
    if (items == 0) return;
    const InContext here(gpu_->context);
    CudaFunction& function = kernels_[kernel];
    if (function == nullptr) {
      check(cuda_.cuModuleGetFunction(&function, gpu_->program, kernel), kernel);
    }
    std::vector<DeviceArgument> all(arguments);
    all.emplace_back(items);
    std::vector<void*> places;
    for (DeviceArgument& argument : all) places.push_back(place_of(argument));
    const auto groups = static_cast<unsigned>((items + kExactGroup - 1) / kExactGroup);
    check(cuda_.cuLaunchKernel(function, groups, 1, 1, kExactGroup, 1, 1, 0, stream_, places.data(),
                               nullptr),
          kernel);
  }

 private:
  static void* place_of(DeviceArgument& argument) {
    switch (argument.kind) {
      case DeviceArgument::Kind::kMemory: return &static_cast<CudaBlock*>(argument.memory)->address;
      case DeviceArgument::Kind::kInt: return &argument.whole;
      case DeviceArgument::Kind::kUint: return &argument.bits;
      case DeviceArgument::Kind::kFloat: break;
    }
    return &argument.real;
  }

  void check(int result, const char* what) const {
    cuda_.check(result, format("{} of {}", std::string(what), operation_));
  }

  [[noreturn]] void refuse(std::size_t bytes) const {
    const InContext here(gpu_->context);
    std::size_t free_bytes = 0, all_bytes = 0;
    cuda_.cuMemGetInfo(&free_bytes, &all_bytes);
    fail(ErrorCode::kResourceExhausted,
         "{} needs {:.1f} MiB on GPU {}, but only {:.1f} MiB are free: use smaller micro-batches, "
         "or give this part fewer layers",
         operation_, static_cast<double>(bytes) / (1 << 20), gpu_->number,
         static_cast<double>(free_bytes) / (1 << 20));
  }

  const CudaDriver& cuda_ = cuda_driver();
  std::shared_ptr<CudaGpu> gpu_;
  std::shared_ptr<CudaMemory> memory_;
  CudaStream stream_ = nullptr;
  std::map<std::string, CudaFunction, std::less<>> kernels_;
  std::string operation_ = "the stage";
};

}  // namespace

std::unique_ptr<ExactDevice> make_exact_cuda_device(std::size_t number,
                                                    std::uint64_t memory_limit_bytes) {
  return std::make_unique<ExactCudaDevice>(number, memory_limit_bytes);
}

}  // namespace harmonics::inline in_runtime
