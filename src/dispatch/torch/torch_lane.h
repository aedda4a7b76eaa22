// What a lane of a libtorch device keeps: its stream and its ring of pinned buffers.
#pragma once

#include <ATen/core/Tensor.h>

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/dispatch/device.h>
#include <harmonics/dispatch/torch_work.h>

namespace harmonics::inline in_dispatch {

/// Pieces in which large tensors travel, and how many of them are under way at a time.
inline constexpr std::size_t kRingSlotBytes = std::size_t{8} << 20;
inline constexpr std::size_t kRingSlots = 4;

struct DeviceTensors::Held {
  std::map<std::string, at::Tensor, std::less<>> tensors;
};

/// Copies between pageable memory and a device through a few buffers that the device can read and
/// write by itself: while one piece travels, the next one is copied into its buffer. On a CPU the
/// buffers are ordinary memory and nothing is asynchronous. One thread.
class PinnedRing {
 public:
  PinnedRing(c10::Device device, std::size_t slot_bytes = kRingSlotBytes,
             std::size_t slots = kRingSlots);

  /// `from` lies on the CPU, `to` on the device; both contiguous, of equal size. On return `from`
  /// may change; the copy itself is queued on `stream`.
  void upload(const at::Tensor& from, const at::Tensor& to,
              const std::optional<c10::Stream>& stream);
  /// The other way round; on return the bytes are there.
  void download(const at::Tensor& from, const at::Tensor& to,
                const std::optional<c10::Stream>& stream);

 private:
  struct Slot {
    at::Tensor bytes;
    std::optional<c10::Event> used;
    bool pending = false;
  };
  Slot& take();
  static void settle(Slot& slot);
  void mark(Slot& slot, const std::optional<c10::Stream>& stream);

  c10::Device device_;
  std::size_t slot_bytes_;
  std::size_t count_;
  std::vector<Slot> slots_;
  std::size_t next_ = 0;
};

/// The device that libtorch knows by this name; emulated devices are the CPU. One that is not here
/// is an Error (kFailedPrecondition).
[[nodiscard]] c10::Device torch_device(const WorkDevice& device);

/// The calling lane's own; made by init_torch_lane.
struct TorchLane {
  c10::Device device{c10::kCPU};
  std::optional<c10::Stream> stream;
  std::optional<PinnedRing> uploads;
  std::optional<PinnedRing> downloads;
  /// Where results land, by name, used again once nobody holds the last one: memory of that size
  /// is costly to get from the system.
  std::map<std::string, at::Tensor, std::less<>> landings;
};
[[nodiscard]] TorchLane& torch_lane();

/// Runs `body` and turns what libtorch throws into an Error.
void with_torch_errors(const std::function<void()>& body);

/// The same for computing. The lanes of a GPU compute in turn, in the order in which they come:
/// if they shared it, all of them would compute at the same time and then copy at the same time.
/// `body` queues its work; one that reads a value back from the GPU makes the others wait for it.
void compute_in_turn(const std::function<void()>& body);

}  // namespace harmonics::inline in_dispatch
