#include <harmonics/runtime/device_queue.h>

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <deque>
#include <mutex>
#include <utility>

#include <harmonics/base/check.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/tensor/torch.h>

namespace harmonics::inline in_runtime {
namespace {

// The queue of the calling thread.
c10::Stream stream_of(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

class StreamQueue final : public DeviceQueue {
 public:
  explicit StreamQueue(at::Device device)
      : stream_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)) {}

  void follow_caller() override { put_behind(stream_, stream_of(stream_.device())); }
  void lead_caller() override { put_behind(stream_of(stream_.device()), stream_); }

 private:
  static void put_behind(const c10::Stream& later, const c10::Stream& earlier) {
    c10::Event event(earlier.device_type());
    event.record(earlier);
    event.block(later);
  }

  [[nodiscard]] std::shared_ptr<void> hold() const override {
    return std::make_shared<c10::StreamGuard>(stream_);
  }

  const c10::Stream stream_;
};

}  // namespace

std::unique_ptr<DeviceQueue> DeviceQueue::make(Device device) {
  if (device.kind != DeviceKind::kCuda) return nullptr;
  return std::make_unique<StreamQueue>(
      at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device.index)));
}

DeviceQueue::Use::Use(const DeviceQueue* queue) {
  if (queue != nullptr) held_ = queue->hold();
}
DeviceQueue::Use::~Use() = default;

struct DeviceHandover::Marks {
  // What was given and is still read.
  struct Lent {
    Tensor tensor;
    c10::Event read;
  };

  std::mutex mutex;
  std::deque<std::unique_ptr<c10::Event>> given;  // none where the tensor lies in main memory
  std::deque<Lent> lent;                          // of the thread that takes
};

DeviceHandover::DeviceHandover() : marks_(std::make_unique<Marks>()) {}

DeviceHandover::~DeviceHandover() {
  if (!marks_->lent.empty()) wait_for_device(marks_->lent.back().tensor.device());
}

void DeviceHandover::give(const Tensor& tensor) {
  std::unique_ptr<c10::Event> made;
  if (tensor.defined() && tensor.device().kind == DeviceKind::kCuda) {
    const at::Device device = to_torch(tensor).device();
    made = std::make_unique<c10::Event>(device.type());
    made->record(stream_of(device));
  }
  const std::lock_guard lock(marks_->mutex);
  marks_->given.push_back(std::move(made));
}

// The giver's queue may take the memory again as soon as nobody holds it, so it is held until it
// has been read.
Tensor DeviceHandover::take(const Tensor& tensor) {
  std::unique_ptr<c10::Event> made;
  {
    const std::lock_guard lock(marks_->mutex);
    HARMONICS_CHECK(!marks_->given.empty(), "what is taken was given");
    made = std::move(marks_->given.front());
    marks_->given.pop_front();
  }
  std::deque<Marks::Lent>& lent = marks_->lent;
  while (!lent.empty() && lent.front().read.query()) lent.pop_front();
  if (made == nullptr) return tensor;
  const at::Tensor value = to_torch(tensor);
  const c10::Stream here = stream_of(value.device());
  made->block(here);
  Tensor copy = from_torch(value.clone());
  lent.push_back({tensor, c10::Event(value.device().type())});
  lent.back().read.record(here);
  return copy;
}

}  // namespace harmonics::inline in_runtime
