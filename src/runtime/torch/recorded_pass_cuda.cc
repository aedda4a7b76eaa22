#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/version.h>

#include "torch/recorded_pass.h"

namespace harmonics::inline in_runtime {
namespace {

class CudaPass final : public RecordedPass {
 public:
  void launch() override { graph_.replay(); }
  void mark() override { reached_.record(); }
  void wait() override { reached_.synchronize(); }

  void begin(at::cuda::MempoolId_t pool) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1)
    // Other stages go on in their threads meanwhile.
    graph_.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
#else
    graph_.capture_begin(pool);
#endif
  }
  void end() { graph_.capture_end(); }

 private:
  at::cuda::CUDAGraph graph_;
  at::cuda::CUDAEvent reached_;
};

class CudaRecorder final : public PassRecorder {
 public:
  explicit CudaRecorder(c10::DeviceIndex device)
      : stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device)),
        pool_(at::cuda::graph_pool_handle()) {}

  void begin_set() override { pool_ = at::cuda::graph_pool_handle(); }

  std::unique_ptr<RecordedPass> record(const std::function<void()>& work) override {
    auto pass = std::make_unique<CudaPass>();
    c10::cuda::getCurrentCUDAStream(stream_.device_index()).synchronize();
    // The backward pass runs on the stream of its forward pass, so all share one.
    const c10::cuda::CUDAStreamGuard guard(stream_);
    pass->begin(pool_);
    try {
      work();
    } catch (...) {
      abandon(*pass);
      throw;
    }
    pass->end();
    return pass;
  }

  void rehearse(const std::function<void()>& work) override {
    c10::cuda::getCurrentCUDAStream(stream_.device_index()).synchronize();
    const c10::cuda::CUDAStreamGuard guard(stream_);
    work();
    stream_.synchronize();
  }

 private:
  static void abandon(CudaPass& pass) {
    try {
      pass.end();
    } catch (const std::exception&) {
      // What made the work fail is told instead.
    }
  }

  c10::cuda::CUDAStream stream_;
  at::cuda::MempoolId_t pool_;
};

}  // namespace

std::unique_ptr<PassRecorder> make_pass_recorder(Device device) {
  if (device.kind != DeviceKind::kCuda) return nullptr;
  return std::make_unique<CudaRecorder>(static_cast<c10::DeviceIndex>(device.index));
}

}  // namespace harmonics::inline in_runtime
