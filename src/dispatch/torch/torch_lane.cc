#include "torch_lane.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

#include <harmonics/base/error.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/tensor/torch.h>

namespace harmonics::inline in_dispatch {
namespace {

at::Tensor as_bytes(const at::Tensor& tensor) { return tensor.reshape({-1}).view(at::kByte); }

// libtorch 2 can sleep until an event; before that it could only be asked.
template <typename Event>
void await_event(const Event& event) {
  if constexpr (requires { event.synchronize(); }) {
    event.synchronize();
  } else {
    while (!event.query()) std::this_thread::yield();
  }
}

c10::DeviceType type_of(WorkDeviceKind kind) {
  switch (kind) {
    case WorkDeviceKind::kCuda: return c10::DeviceType::CUDA;
    case WorkDeviceKind::kMps: return c10::DeviceType::MPS;
    case WorkDeviceKind::kXpu: return c10::DeviceType::XPU;
    default: return c10::DeviceType::CPU;
  }
}

int count_of(c10::DeviceType type) {
  if (!c10::impl::hasDeviceGuardImpl(type)) return 0;
  return c10::impl::VirtualGuardImpl(type).deviceCount();
}

}  // namespace

// --- the ring ---

PinnedRing::PinnedRing(c10::Device device, std::size_t slot_bytes, std::size_t slots)
    : device_(device), slot_bytes_(slot_bytes), count_(slots) {}

// The next buffer, free of what it was used for before.
PinnedRing::Slot& PinnedRing::take() {
  if (slots_.size() < count_) {
    Slot& made = slots_.emplace_back();
    const auto options = at::TensorOptions().dtype(at::kByte).pinned_memory(device_.is_cuda());
    made.bytes = at::empty({static_cast<std::int64_t>(slot_bytes_)}, options);
    if (!device_.is_cpu()) made.used.emplace(device_.type());
    return made;
  }
  Slot& slot = slots_[next_++ % count_];
  settle(slot);
  return slot;
}

void PinnedRing::settle(Slot& slot) {
  if (slot.pending) await_event(*slot.used);
  slot.pending = false;
}

void PinnedRing::mark(Slot& slot, const std::optional<c10::Stream>& stream) {
  if (!slot.used || !stream) return;
  slot.used->record(*stream);
  slot.pending = true;
}

void PinnedRing::upload(const at::Tensor& from, const at::Tensor& to,
                        const std::optional<c10::Stream>& stream) {
  const at::Tensor target = as_bytes(to);
  const auto* source = static_cast<const std::byte*>(from.data_ptr());
  const std::size_t bytes = from.nbytes();
  for (std::size_t at = 0; at < bytes; at += slot_bytes_) {
    const std::size_t size = std::min(slot_bytes_, bytes - at);
    Slot& slot = take();
    std::memcpy(slot.bytes.data_ptr(), source + at, size);
    const auto length = static_cast<std::int64_t>(size);
    target.narrow(0, static_cast<std::int64_t>(at), length)
        .copy_(slot.bytes.narrow(0, 0, length), /*non_blocking=*/true);
    mark(slot, stream);
  }
}

void PinnedRing::download(const at::Tensor& from, const at::Tensor& to,
                          const std::optional<c10::Stream>& stream) {
  const at::Tensor source = as_bytes(from);
  auto* target = static_cast<std::byte*>(to.data_ptr());
  const std::size_t bytes = to.nbytes();
  struct Piece {
    Slot* slot;
    std::size_t at, size;
  };
  std::deque<Piece> flying;
  const auto land = [&] {
    const Piece& piece = flying.front();
    settle(*piece.slot);
    std::memcpy(target + piece.at, piece.slot->bytes.data_ptr(), piece.size);
    flying.pop_front();
  };
  slots_.reserve(count_);  // pieces point to them
  for (std::size_t at = 0; at < bytes; at += slot_bytes_) {
    if (flying.size() == count_) land();
    const std::size_t size = std::min(slot_bytes_, bytes - at);
    const auto length = static_cast<std::int64_t>(size);
    Slot& slot = take();
    slot.bytes.narrow(0, 0, length)
        .copy_(source.narrow(0, static_cast<std::int64_t>(at), length), /*non_blocking=*/true);
    mark(slot, stream);
    flying.push_back({&slot, at, size});
  }
  while (!flying.empty()) land();
}

// --- the lane ---

c10::Device torch_device(const WorkDevice& device) {
  const c10::DeviceType type = type_of(device.kind);
  if (type == c10::DeviceType::CPU) return {type};
  const int count = count_of(type);
  const int index = std::max(0, device.index);
  if (index >= count) {
    fail(ErrorCode::kFailedPrecondition,
         "device '{}' is not here: libtorch {} sees {} of its kind; take \"cpu\" or another one",
         device.name, torch_version(), count);
  }
  return {type, static_cast<c10::DeviceIndex>(index)};
}

namespace {

/// Lanes that their threads have left. Pinned memory cannot be given back while a thread ends, when
/// libtorch's own state of that thread is gone already: the next lane of the device takes the
/// lane over. So there are never more than worked at the same time. Lives as long as the process.
class SpareLanes {
 public:
  static SpareLanes& shared() {
    static auto* const the_one = new SpareLanes;
    return *the_one;
  }
  std::unique_ptr<TorchLane> take(c10::Device device) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(lanes_.begin(), lanes_.end(),
                                    [&](const auto& lane) { return lane->device == device; });
    if (found == lanes_.end()) return std::make_unique<TorchLane>();
    std::unique_ptr<TorchLane> lane = std::move(*found);
    lanes_.erase(found);
    return lane;
  }
  void keep(std::unique_ptr<TorchLane> lane) {
    if (!lane || lane->device.is_cpu()) return;
    lane->landings.clear();
    const std::lock_guard lock(mutex_);
    lanes_.push_back(std::move(lane));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<TorchLane>> lanes_;
};

/// The calling thread's lane, which goes to the spare ones when the thread ends.
struct OwnLane {
  std::unique_ptr<TorchLane> lane = std::make_unique<TorchLane>();
  ~OwnLane() { SpareLanes::shared().keep(std::move(lane)); }
};

OwnLane& own_lane() {
  thread_local OwnLane own;
  return own;
}

}  // namespace

TorchLane& torch_lane() { return *own_lane().lane; }

void init_torch_lane(const WorkDevice& device) {
  const c10::Device wanted = torch_device(device);
  OwnLane& own = own_lane();
  SpareLanes::shared().keep(std::move(own.lane));
  own.lane = SpareLanes::shared().take(wanted);
  TorchLane& lane = *own.lane;
  lane.device = wanted;
  if (device.compute_threads > 0) use_compute_threads(device.compute_threads);
  if (lane.device.is_cpu()) return;
  with_torch_errors([&] {
    const c10::impl::VirtualGuardImpl guard(lane.device.type());
    guard.setDevice(lane.device);
    if (!lane.device.is_cuda() && lane.device.type() != c10::DeviceType::XPU) return;
    lane.stream = guard.getStreamFromGlobalPool(lane.device, /*isHighPriority=*/false);
    guard.exchangeStream(*lane.stream);
    if (!lane.uploads) lane.uploads.emplace(lane.device);
    if (!lane.downloads) lane.downloads.emplace(lane.device);
  });
}

namespace {

at::Tensor brought_in(TorchLane& lane, const at::Tensor& here) {
  if (!lane.uploads || !here.device().is_cpu() || here.numel() == 0) {
    return here.device() == lane.device ? here : here.to(lane.device);
  }
  at::Tensor there = at::empty(here.sizes(), here.options().device(lane.device));
  if (here.is_pinned()) {
    there.copy_(here, /*non_blocking=*/true);
  } else {
    lane.uploads->upload(here, there, lane.stream);
  }
  return there;
}

}  // namespace

DeviceTensors copy_in(TensorMap&& tensors, const WorkDevice& /*device*/) {
  DeviceTensors result{std::make_shared<DeviceTensors::Held>()};
  TorchLane& lane = torch_lane();
  with_torch_errors([&] {
    for (const auto& [name, tensor] : tensors) {
      result.held->tensors.emplace(name, brought_in(lane, to_torch(tensor)));
    }
  });
  return result;
}

namespace {

at::Tensor landing(TorchLane& lane, const std::string& name, const at::Tensor& like) {
  at::Tensor& kept = lane.landings[name];
  const bool free = kept.defined() && kept.storage().use_count() == 1;
  if (!free || kept.sizes() != like.sizes() || kept.scalar_type() != like.scalar_type()) {
    kept = at::empty(like.sizes(), like.options().device(at::kCPU));
  }
  return kept;
}

}  // namespace

TensorMap copy_out(DeviceTensors&& tensors) {
  TensorMap result;
  TorchLane& lane = torch_lane();
  with_torch_errors([&] {
    for (auto& [name, tensor] : tensors.held->tensors) {
      const at::Tensor there = tensor.detach().contiguous();
      if (lane.downloads && !there.device().is_cpu() && there.numel() > 0) {
        const at::Tensor here = landing(lane, name, there);
        lane.downloads->download(there, here, lane.stream);
        result.emplace(name, from_torch(here));
      } else {
        result.emplace(name, from_torch(there.cpu()));
      }
    }
  });
  tensors.held.reset();
  return result;
}

ValuesAndDerivatives copy_derivatives_out(DeviceDerivatives&& result) {
  ValuesAndDerivatives out{copy_out(std::move(result.values)), {}};
  for (auto& [name, blocks] : result.derivatives) {
    out.derivatives.emplace(name, copy_out(std::move(blocks)));
  }
  return out;
}

namespace {

[[noreturn]] void fail_with(const std::string& text) {
  const auto says = [&](const char* words) { return text.find(words) != std::string::npos; };
  // Checked in this order: a GPU's "CUDA error: out of memory" is about memory.
  if (says("out of memory") || says("can't allocate memory")) {
    fail(ErrorCode::kResourceExhausted, "libtorch: {}", text);
  }
  if (says("CUDA error") || says("CUDNN") || says("CUBLAS") || says("device-side assert")) {
    fail(ErrorCode::kUnavailable, "libtorch: {}", text);
  }
  fail(ErrorCode::kUnknown, "libtorch: {}", text);
}

}  // namespace

void with_torch_errors(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const c10::Error& error) {
    fail_with(error.what_without_backtrace());
  } catch (const std::exception& error) {
    fail_with(error.what());  // a script's interpreter throws its own kind
  }
}

void compute_in_turn(const std::function<void()>& body) {
  struct Turn {
    std::mutex mutex;
    std::optional<c10::Event> last;
  };
  static std::mutex mutex;
  static auto* const turns = new std::map<std::string, Turn>;  // outlives every lane
  TorchLane& lane = torch_lane();
  with_torch_errors([&] {
    if (!lane.stream) return body();
    const auto turn_of = [&]() -> Turn& {
      const std::lock_guard lock(mutex);
      return (*turns)[lane.device.str()];
    };
    Turn& turn = turn_of();
    const std::lock_guard lock(turn.mutex);
    if (turn.last) {
      turn.last->block(*lane.stream);
    } else {
      turn.last.emplace(lane.device.type());
    }
    body();
    turn.last->record(*lane.stream);
  });
}

}  // namespace harmonics::inline in_dispatch
