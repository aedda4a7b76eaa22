// The dispatcher: cost per sub-batch against a plain hand-over, how fully it uses unlike devices,
// and what failures and tracing cost. Emulated devices, on simulated time (exact) and on the
// machine's.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/format.h>
#include <harmonics/base/log.h>
#include <harmonics/dispatch/adaptive_scheduler.h>
#include <harmonics/dispatch/static_hybrid_scheduler.h>
#include <harmonics/dispatch/work_dispatcher.h>

#include "reference/hand_over.h"
#include "rounds.h"

namespace {

using namespace harmonics;
using bench::median;
using bench::row;
using bench::seconds;

using Devices = std::vector<std::string>;
const Devices kTwo = {"emulated:2e6,1ms", "emulated:1e5,100us"};
const Devices kThree = {"emulated:2e6,1ms", "emulated:1e6,1ms", "emulated:1e5,100us"};

// --- the cost of a sub-batch ---

bool chunk_cost(int rounds, std::size_t chunks) {
  constexpr std::size_t kBatch = 10;
  StaticHybridScheduler scheduler({"cpu", "cuda:0"}, {kBatch});
  WorkDispatcher<Slice, int> ours(scheduler, {.run = [](Slice&&, const WorkDevice&) { return 1; }},
                                  {.lanes = 1});
  reference::HandOver theirs(2, kBatch, [](reference::Range) { return 1; });
  std::vector<double> our_us, their_us;
  for (int round = 0; round < rounds; ++round) {
    SliceGenerator slices(0, chunks * kBatch);
    double start = seconds(CLOCK_MONOTONIC);
    if (ours.run(slices).size() != chunks) std::exit(2);
    our_us.push_back(1e6 * (seconds(CLOCK_MONOTONIC) - start) / static_cast<double>(chunks));
    start = seconds(CLOCK_MONOTONIC);
    if (theirs.run(chunks * kBatch, kBatch).size() != chunks) std::exit(2);
    their_us.push_back(1e6 * (seconds(CLOCK_MONOTONIC) - start) / static_cast<double>(chunks));
  }
  const double mine = median(our_us);
  const double other = median(their_us);
  bool good = row("empty sub-batch, two workers", format("{:.2f} us", mine), "4 us limit", mine / 4,
                  "<= 1");
  good &= row("empty sub-batch: hand-over / ours", format("{:.2f} us", mine),
              format("{:.2f} us", other), other / mine, ">= 5");
  return good;
}

// --- how fully devices are used ---

using Fault = std::function<void(const Slice&, const WorkDevice&)>;
using Counter = WorkDispatcher<Slice, std::size_t, std::size_t>;

Counter::Functions counting(Fault fault = nullptr) {
  return {.run =
              [fault = std::move(fault)](Slice&& slice, const WorkDevice& device) {
                if (fault) fault(slice, device);
                return slice.size();
              },
          .reduce =
              [](std::vector<std::size_t>&& parts) {
                std::size_t sum = 0;
                for (const std::size_t part : parts) sum += part;
                return sum;
              }};
}

double run_seconds(WorkScheduler& scheduler, std::size_t rows,
                   const std::shared_ptr<Timeline>& time, Fault fault = nullptr) {
  Counter dispatcher(scheduler, counting(std::move(fault)), {.timeline = time});
  SliceGenerator slices(0, rows);
  const Nanoseconds start = time->now();
  if (dispatcher.run(slices) != rows) std::exit(2);
  return in_seconds(time->now() - start);
}

double full_rate(const WorkScheduler& scheduler) {
  double rate = 0;
  for (const WorkDevice& device : scheduler.devices()) rate += device.rows_per_second;
  return rate;
}

struct Usage {
  std::string name;
  std::function<std::unique_ptr<WorkScheduler>()> make;
  std::string bar;
};

std::vector<Usage> usages() {
  const auto adaptive = [](Devices devices, std::size_t first) {
    return [devices = std::move(devices), first]() -> std::unique_ptr<WorkScheduler> {
      return std::make_unique<AdaptiveScheduler>(
          AdaptiveConfig{.devices = devices, .first_batches = {first}});
    };
  };
  const auto fixed = [](Devices devices, std::vector<std::size_t> sizes) {
    return [devices = std::move(devices),
            sizes = std::move(sizes)]() -> std::unique_ptr<WorkScheduler> {
      std::vector<std::size_t> capacities;
      for (const std::size_t size : sizes) capacities.push_back(2 * size);
      return std::make_unique<StaticHybridScheduler>(devices, sizes, capacities);
    };
  };
  return {{"20:1, Adaptive from 64 rows", adaptive(kTwo, 64), ">= 0.95"},
          {"20:1, Adaptive from 1e6 rows", adaptive(kTwo, 1'000'000), ">= 0.95"},
          {"20:10:1, Adaptive from 64 rows", adaptive(kThree, 64), ">= 0.95"},
          {"20:10:1, Adaptive from 1e6 rows", adaptive(kThree, 1'000'000), ">= 0.95"},
          {"20:1, StaticHybrid tuned", fixed(kTwo, {60'000, 1500}), ">= 0.93"},
          {"20:10:1, StaticHybrid tuned", fixed(kThree, {60'000, 30'000, 1500}), ">= 0.93"}};
}

bool usage(bool real, int rounds, double length_s) {
  bool good = true;
  for (const Usage& one : usages()) {
    std::vector<double> shares;
    double rate = 0;
    for (int round = 0; round < rounds; ++round) {
      const std::unique_ptr<WorkScheduler> scheduler = one.make();
      rate = full_rate(*scheduler);
      std::shared_ptr<Timeline> time;
      if (real) {
        time = std::make_shared<RealTimeline>();
      } else {
        time = std::make_shared<SimulatedTimeline>();
      }
      shares.push_back(length_s /
                       run_seconds(*scheduler, static_cast<std::size_t>(rate * length_s), time));
    }
    good &= row(format("{} ({} time)", one.name, real ? "machine's" : "simulated"),
                format("{:.3g} rows/s", median(shares) * rate),
                format("{:.3g} rows/s, all devices alone", rate), median(shares), one.bar);
  }
  return good;
}

// --- failures ---

// The device of half the speed dies at 0.4 of the run.
bool device_lost() {
  AdaptiveScheduler scheduler(kThree);
  const auto time = std::make_shared<SimulatedTimeline>();
  const Fault dies = [&](const Slice&, const WorkDevice& device) {
    if (device.rows_per_second == 1e6 && time->now() > std::chrono::milliseconds(400)) {
      fail(ErrorCode::kUnavailable, "killed by the benchmark");
    }
  };
  const double taken = run_seconds(scheduler, 3'100'000, time, dies);
  const double ideal = 0.4 + 0.6 * 3.1 / 2.1;
  return row("device killed mid-run (simulated time)", format("{:.4f} s", taken),
             format("{:.4f} s, ideal", ideal), taken / ideal, "<= 1.15");
}

// A device that knows sub-batches eight times larger than what fits from now on, against one that
// has known the limit all along.
bool out_of_memory() {
  const Devices one = {"emulated:2e6,50us"};
  constexpr std::size_t kRows = 4'000'000;
  AdaptiveScheduler scheduler(one);
  const auto time = std::make_shared<SimulatedTimeline>();
  (void)run_seconds(scheduler, kRows, time);
  const std::size_t limit = scheduler.knowledge()[0].best_batch / 8;
  std::size_t refused = 0;
  const Fault small = [&](const Slice& slice, const WorkDevice&) {
    if (slice.size() <= limit) return;
    ++refused;
    fail(ErrorCode::kResourceExhausted, "{} rows do not fit", slice.size());
  };
  const double surprised = run_seconds(scheduler, kRows, time, small);
  const std::size_t refusals = refused;
  const double aware = run_seconds(scheduler, kRows, time, small);
  if (refusals == 0 || refused != refusals) std::exit(2);
  return row("out of memory, sub-batch 8x too large (simulated time)",
             format("{:.4f} s, {} refusals", surprised, refusals),
             format("{:.4f} s, limit known", aware), surprised / aware, "<= 1.1");
}

// Bit-equal whatever happens to the devices.
bool same_result() {
  const auto one_shot = [](std::size_t begin, std::size_t end) {
    std::vector<double> values;
    for (std::size_t i = begin; i < end; ++i) values.push_back(1.0 / static_cast<double>(i + 3));
    return values;
  };
  using Values = std::vector<double>;
  AdaptiveScheduler scheduler(kThree);
  const auto time = std::make_shared<SimulatedTimeline>();
  WorkDispatcher<Slice, Values, Values> dispatcher(
      scheduler,
      {.run =
           [&](Slice&& slice, const WorkDevice& device) {
             if (device.rows_per_second == 2e6 && time->now() > std::chrono::milliseconds(100)) {
               fail(ErrorCode::kUnavailable, "killed by the benchmark");
             }
             if (slice.size() > 5000) fail(ErrorCode::kResourceExhausted, "too many rows");
             return one_shot(slice.start, slice.stop);
           },
       .reduce =
           [](std::vector<Values>&& parts) {
             Values all;
             for (const Values& part : parts) all.insert(all.end(), part.begin(), part.end());
             return all;
           }},
      {.timeline = time});
  constexpr std::size_t kRows = 500'000;
  SliceGenerator slices(0, kRows);
  const Values got = dispatcher.run(slices);
  const Values wanted = one_shot(0, kRows);
  const auto equal = static_cast<double>(got == wanted);
  return row("result after a loss and refusals equals one shot", format("{} rows", got.size()),
             format("{} rows", wanted.size()), equal, ">= 1");
}

// --- tracing ---

// Sub-batches of about 50 us of arithmetic, with and without a trace in turn; CPU seconds.
bool tracing(int rounds, std::size_t chunks) {
  SimpleScheduler scheduler("cpu", 10);
  const auto work = [](Slice&& slice, const WorkDevice&) {
    double x = static_cast<double>(slice.start);
    for (int i = 0; i < 20'000; ++i) x = x * 0.999 + 1;
    return x;
  };
  const auto trace = std::make_shared<DispatchTrace>();
  WorkDispatcher<Slice, double> plain(scheduler, {.run = work});
  WorkDispatcher<Slice, double> traced(scheduler, {.run = work}, {.trace = trace});
  std::vector<double> ratios;
  double cost = 0;
  for (int round = 0; round < rounds; ++round) {
    SliceGenerator first(0, chunks * 10), second(0, chunks * 10);
    const double start = seconds(CLOCK_PROCESS_CPUTIME_ID);
    (void)plain.run(first);
    const double middle = seconds(CLOCK_PROCESS_CPUTIME_ID);
    (void)traced.run(second);
    const double end = seconds(CLOCK_PROCESS_CPUTIME_ID);
    ratios.push_back((end - middle) / (middle - start));
    cost = (middle - start) / static_cast<double>(chunks);
  }
  return row(format("tracing, sub-batches of {:.0f} us", 1e6 * cost), "traced", "not traced",
             median(ratios), "<= 1.02");
}

}  // namespace

int main(int argc, char** argv) {
  const bool short_run = bench::has_flag(argc, argv, "--short");
  const bool check = bench::has_flag(argc, argv, "--check");
  set_log_level(LogLevel::kError);
  std::printf("name | ours | reference | ratio | bar\n");
  bool good = chunk_cost(short_run ? 1 : 9, short_run ? 2000 : 20'000);
  good &= usage(false, 1, 1);
  if (!short_run) good &= usage(true, 3, 1.5);
  good &= device_lost();
  good &= out_of_memory();
  good &= same_result();
  good &= tracing(short_run ? 1 : 15, short_run ? 200 : 2000);
  return check && !good ? 1 : 0;
}
