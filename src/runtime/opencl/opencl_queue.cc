#include "opencl_queue.h"

#include <limits>
#include <map>
#include <utility>

#include <harmonics/base/error.h>

#include "opencl_context.h"
#include "opencl_queue_state.h"

namespace harmonics::inline in_runtime {
namespace {

bool is_out_of_memory(cl_int code) {
  return code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES ||
         code == CL_OUT_OF_HOST_MEMORY || code == CL_INVALID_BUFFER_SIZE;
}

std::string mib(std::uint64_t bytes) {
  return format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace

MemoryPool::~MemoryPool() { drop(); }

void MemoryPool::drop() {
  for (auto& [bytes, blocks] : kept_) {
    for (cl_mem block : blocks) {
      clReleaseMemObject(block);
      context_->taken_bytes -= bytes;
    }
  }
  kept_.clear();
  kept_bytes_ = 0;
}

cl_mem MemoryPool::reuse(std::size_t bytes) {
  const auto found = kept_.find(bytes);
  if (found == kept_.end() || found->second.empty()) return nullptr;
  cl_mem block = found->second.back();
  found->second.pop_back();
  kept_bytes_ -= bytes;
  return block;
}

void MemoryPool::give_back(cl_mem block, std::size_t bytes) {
  if (kept_bytes_ + bytes > kMaxKeptDeviceBytes) {
    clReleaseMemObject(block);
    context_->taken_bytes -= bytes;
    return;
  }
  kept_[bytes].push_back(block);
  kept_bytes_ += bytes;
}

DeviceMemory::~DeviceMemory() { pool_->give_back(block_, bytes_); }

KernelArgument::KernelArgument(std::int64_t number) : kind(Kind::kInt) {
  if (number < std::numeric_limits<std::int32_t>::min() ||
      number > std::numeric_limits<std::int32_t>::max()) {
    fail(ErrorCode::kUnimplemented,
         "an OpenCL kernel counts to 2^31 elements, {} are too many: use smaller micro-batches",
         number);
  }
  whole = static_cast<std::int32_t>(number);
}

OpenClQueue::OpenClQueue(std::size_t device, std::uint64_t memory_limit_bytes,
                         OpenClKernels kernels)
    : state_(std::make_unique<State>()) {
  state_->context = OpenClContext::of_device(device, kernels);
  state_->pool = std::make_shared<MemoryPool>(state_->context);
  state_->memory_limit_bytes = state_->context->memory_bytes;
  if (memory_limit_bytes > 0) {
    state_->memory_limit_bytes = std::min(state_->memory_limit_bytes, memory_limit_bytes);
  }
  cl_int code = CL_SUCCESS;
  state_->queue = clCreateCommandQueue(state_->context->context, state_->context->device, 0, &code);
  check_opencl(code, "making a queue");
}

OpenClQueue::~OpenClQueue() = default;

OpenClQueue::State::~State() {
  for (const auto& [name, kernel] : kernels) clReleaseKernel(kernel);
  if (queue != nullptr) {
    clFinish(queue);
    clReleaseCommandQueue(queue);
  }
}

const std::string& OpenClQueue::device_name() const { return state_->context->name; }

bool OpenClQueue::has_doubles() const { return state_->context->has_doubles; }

void OpenClQueue::at(std::string operation) { state_->operation = std::move(operation); }

cl_mem OpenClQueue::take(std::size_t bytes) {
  if (cl_mem block = state_->pool->reuse(bytes)) return block;
  OpenClContext& context = *state_->context;
  cl_int code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
  // What the pool keeps may be what is missing: the second try is without it.
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (attempt > 0) state_->pool->drop();
    const std::uint64_t before = context.taken_bytes.fetch_add(bytes);
    if (before + bytes <= state_->memory_limit_bytes && bytes <= context.max_allocation_bytes) {
      cl_mem block = clCreateBuffer(context.context, CL_MEM_READ_WRITE, bytes, nullptr, &code);
      if (code == CL_SUCCESS) return block;
    }
    context.taken_bytes -= bytes;
    if (!is_out_of_memory(code)) check_opencl(code, "taking device memory");
  }
  const std::uint64_t taken = context.taken_bytes;
  const std::uint64_t limit = state_->memory_limit_bytes;
  fail(ErrorCode::kResourceExhausted,
       "{} needs {} on OpenCL device '{}', but of {} only {} are free (one block: at most {}): use "
       "smaller micro-batches, or give this part fewer layers",
       state_->operation, mib(bytes), context.name, mib(limit),
       mib(taken < limit ? limit - taken : 0), mib(context.max_allocation_bytes));
}

DeviceTensor OpenClQueue::empty(Shape shape, DType dtype) {
  const auto elements = static_cast<std::size_t>(element_count(shape));
  const std::size_t bytes = std::max<std::size_t>(elements * dtype_size(dtype), 4);
  cl_mem block = take(bytes);
  return {std::move(shape), dtype, std::make_shared<DeviceMemory>(state_->pool, block, bytes)};
}

DeviceTensor OpenClQueue::zeros(Shape shape) {
  DeviceTensor tensor = empty(std::move(shape));
  clear(tensor);
  return tensor;
}

void OpenClQueue::clear(const DeviceTensor& tensor) { run("fill", tensor.size(), {tensor, 0.0f}); }

DeviceTensor OpenClQueue::upload(const Tensor& tensor) {
  DeviceTensor made = empty(tensor.shape(), tensor.dtype());
  write(made, tensor);
  return made;
}

void OpenClQueue::write(const DeviceTensor& to, const Tensor& from) {
  if (from.byte_size() == 0) return;
  check_opencl(clEnqueueWriteBuffer(state_->queue, to.memory->block(), CL_TRUE, 0, from.byte_size(),
                                    from.bytes().data(), 0, nullptr, nullptr),
               format("{}: copying to the device", state_->operation));
}

Tensor OpenClQueue::download(const DeviceTensor& tensor) {
  Tensor made = Tensor::empty(tensor.shape, tensor.dtype);
  if (made.byte_size() == 0) return made;
  check_opencl(
      clEnqueueReadBuffer(state_->queue, tensor.memory->block(), CL_TRUE, 0, made.byte_size(),
                          made.mutable_bytes().data(), 0, nullptr, nullptr),
      format("{}: copying from the device", state_->operation));
  return made;
}

void OpenClQueue::run(const char* kernel, std::int64_t items,
                      std::initializer_list<KernelArgument> arguments) {
  run(kernel, items, std::span(arguments.begin(), arguments.size()));
}

void OpenClQueue::run(const char* kernel, std::int64_t items,
                      std::span<const KernelArgument> arguments) {
  const std::size_t group = state_->context->group_size;
  launch(kernel, (static_cast<std::size_t>(items) + group - 1) / group * group, items, arguments);
}

void OpenClQueue::run_groups(const char* kernel, std::int64_t groups,
                             std::initializer_list<KernelArgument> arguments) {
  launch(kernel, static_cast<std::size_t>(groups) * state_->context->group_size, groups,
         std::span(arguments.begin(), arguments.size()));
}

void OpenClQueue::launch(const char* kernel, std::size_t global, std::int64_t items,
                         std::span<const KernelArgument> arguments) {
  if (items == 0) return;
  cl_kernel& entry = state_->kernels[kernel];
  if (entry == nullptr) {
    cl_int code = CL_SUCCESS;
    entry = clCreateKernel(state_->context->program, kernel, &code);
    check_opencl(code, format("finding kernel '{}'", kernel));
  }
  cl_uint place = 0;
  const auto set = [&](const KernelArgument& argument) {
    const void* value = &argument.whole;
    std::size_t size = sizeof argument.whole;
    cl_mem block = nullptr;
    if (argument.kind == KernelArgument::Kind::kMemory) {
      block = argument.memory->block();
      value = &block;
      size = sizeof block;
    } else if (argument.kind == KernelArgument::Kind::kUint) {
      value = &argument.bits;
    } else if (argument.kind == KernelArgument::Kind::kFloat) {
      value = &argument.real;
    }
    check_opencl(clSetKernelArg(entry, place, size, value),
                 format("{}: argument {} of kernel '{}'", state_->operation, place, kernel));
    ++place;
  };
  for (const KernelArgument& argument : arguments) set(argument);
  set(KernelArgument(items));
  const std::size_t local = state_->context->group_size;
  check_opencl(clEnqueueNDRangeKernel(state_->queue, entry, 1, nullptr, &global, &local, 0, nullptr,
                                      nullptr),
               format("{}: running kernel '{}'", state_->operation, kernel));
}

}  // namespace harmonics::inline in_runtime
