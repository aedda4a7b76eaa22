// What an OpenClQueue holds: shared by opencl_queue.cc and opencl_blas.cc, which asks CLBlast
// (private to runtime).
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "opencl_context.h"
#include "opencl_queue.h"

namespace harmonics::inline in_runtime {

/// Most bytes that a queue keeps for reuse; what comes back beyond is released.
inline constexpr std::size_t kMaxKeptDeviceBytes = std::size_t{512} << 20;

/// Blocks of one queue that wait to be used again. All work on them goes through that one in-order
/// queue, so a block may be handed on while the device still reads it. One thread.
class MemoryPool {
 public:
  explicit MemoryPool(std::shared_ptr<OpenClContext> context) : context_(std::move(context)) {}
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  [[nodiscard]] cl_mem reuse(std::size_t bytes);
  void give_back(cl_mem block, std::size_t bytes);
  void drop();

 private:
  std::shared_ptr<OpenClContext> context_;
  std::map<std::size_t, std::vector<cl_mem>> kept_;
  std::size_t kept_bytes_ = 0;
};

class DeviceMemory {
 public:
  DeviceMemory(std::shared_ptr<MemoryPool> pool, cl_mem block, std::size_t bytes)
      : pool_(std::move(pool)), block_(block), bytes_(bytes) {}
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  [[nodiscard]] cl_mem block() const { return block_; }

 private:
  std::shared_ptr<MemoryPool> pool_;
  cl_mem block_;
  std::size_t bytes_;
};

struct OpenClQueue::State {
  State() = default;
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::shared_ptr<OpenClContext> context;
  std::shared_ptr<MemoryPool> pool;
  std::uint64_t memory_limit_bytes = 0;
  cl_command_queue queue = nullptr;
  std::map<std::string, cl_kernel, std::less<>> kernels;
  std::string operation = "the stage";
};

}  // namespace harmonics::inline in_runtime
