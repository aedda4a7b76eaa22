// Unlike devices that the scheduler learns about while it runs, one of which dies half way. They
// are emulated, so this runs anywhere.
//   dispatch_adaptive [TRACE.json]     then: harmonics dispatch-trace TRACE.json --svg
#include <harmonics/harmonics.h>

#include <iostream>

using namespace harmonics;

int main(int argc, char** argv) {
  const auto time = std::make_shared<RealTimeline>();
  const auto trace = std::make_shared<DispatchTrace>(argc > 1 ? argv[1] : "");
  AdaptiveScheduler scheduler(
      std::vector<std::string>{"emulated:2e6,1ms", "emulated:1e6,1ms", "emulated:1e5,100us"});
  const Nanoseconds start = time->now();
  WorkDispatcher<Slice, std::size_t> dispatcher(
      scheduler,
      {.run =
           [&](Slice&& rows, const WorkDevice& device) {
             if (device.name == "emulated:1e6,1ms" &&
                 time->now() - start > std::chrono::milliseconds(150)) {
               fail(ErrorCode::kUnavailable, "the device has fallen off the bus");
             }
             return rows.size();
           }},
      {.timeline = time, .trace = trace});

  SliceGenerator rows(0, 1'000'000);
  std::size_t done = 0;
  for (const std::size_t part : dispatcher.run(rows)) done += part;
  std::cout << done << " rows\n";
  for (const DeviceKnowledge& one : scheduler.knowledge()) {
    std::cout << one.device << ": " << static_cast<long>(one.rows_per_second)
              << " rows/s, sub-batches of " << one.best_batch
              << (one.quarantined ? ", quarantined" : "") << '\n';
  }
}
