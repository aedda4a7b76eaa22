// Random runs on emulated devices under simulated time, with failures: no hang, no row lost or
// doubled, the result equal to one shot. HARMONICS_DISPATCH_RUNS sets how many (100000 for the full
// campaign), HARMONICS_DISPATCH_SEED where they begin; a failure prints its seed.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdio>

#include <harmonics/base/log.h>
#include <harmonics/base/random.h>
#include <harmonics/dispatch/adaptive_scheduler.h>
#include <harmonics/dispatch/static_hybrid_scheduler.h>

#include <campaign_testing.h>

#include "emulation_testing.h"

namespace harmonics::inline in_dispatch {
namespace {

constexpr std::uint64_t kDefaultRuns = 4000;

struct Spoilt : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What a seed means.
struct Scenario {
  explicit Scenario(std::uint64_t seed) : random(seed, "dispatch runs") {
    rows = 1 + static_cast<std::size_t>(std::exp2(12 * uniform()));
    const std::size_t count = 1 + random.below(5);
    for (std::size_t d = 0; d < count; ++d) {
      devices.push_back(format("emulated:{:.3g},{:.3g}#{}", std::exp2(10 + 14 * uniform()),
                               5e-3 * uniform() * uniform(), d));
      batches.push_back(1 + static_cast<std::size_t>(std::exp2(9 * uniform())));
      capacities.push_back(batches[d] * (1 + random.below(4)) + random.below(batches[d]));
      priorities.push_back(static_cast<double>(random.below(3)));
    }
    adaptive = random.below(2) == 0;
    options.async = random.below(8) != 0;
    options.lanes = static_cast<int>(random.below(4));
    if (random.below(4) == 0) {
      options.row_bytes = 8;
      options.memory_caps[devices[0]] = 8 * (batches[0] + random.below(100));
    }
    if (random.below(3) == 0) spoilt_row = random.below(rows);
    if (adaptive && random.below(2) == 0) {
      for (std::size_t d = 0; d < count; ++d) {
        memory_rows.push_back(random.below(2) == 0 ? 1 + random.below(200) : rows);
      }
    }
    if (adaptive && count > 1 && random.below(2) == 0) {
      dies = random.below(count);
      dies_after = Nanoseconds(static_cast<std::int64_t>(2e7 * uniform() * uniform()));
    }
    if (random.below(10) == 0) cancel_after = random.below(rows);
    repeat_late = random.below(2) == 0;
  }
  double uniform() { return static_cast<double>(random.uniform()); }

  [[nodiscard]] std::unique_ptr<WorkScheduler> scheduler() const {
    if (!adaptive) {
      return std::make_unique<StaticHybridScheduler>(devices, batches, capacities, priorities);
    }
    return std::make_unique<AdaptiveScheduler>(
        AdaptiveConfig{.devices = devices, .first_batches = batches, .repeat_late = repeat_late});
  }

  Random random;
  std::size_t rows;
  std::vector<std::string> devices;
  std::vector<std::size_t> batches, capacities;
  std::vector<double> priorities;
  bool adaptive = false;
  DispatchOptions options;
  std::optional<std::size_t> spoilt_row;
  std::vector<std::size_t> memory_rows;
  std::optional<std::size_t> dies;
  Nanoseconds dies_after{0};
  std::optional<std::size_t> cancel_after;
  bool repeat_late = false;
};

// How runs ended, and what went wrong on the way.
struct Tally {
  std::atomic<std::uint64_t> done = 0, spoilt = 0, cancelled = 0, deaths = 0, refusals = 0;
};

class RandomRun {
 public:
  RandomRun(std::uint64_t seed, Tally& counted) : scenario_(seed), tally_(counted) {}

  // Twice over one dispatcher: with the faults, then without.
  void check() {
    const std::unique_ptr<WorkScheduler> scheduler = scenario_.scheduler();
    DispatchOptions options = scenario_.options;
    options.timeline = timeline_;
    RowDispatcher dispatcher(
        *scheduler,
        {.run = [this](Slice&& slice, const WorkDevice& device) { return work(slice, device); },
         .reduce = join},
        options);
    SliceGenerator slices(0, scenario_.rows);
    run_with_faults(dispatcher, slices);
    faults_ = false;
    slices.rewind();
    EXPECT_EQ(dispatcher.run(slices, {.timeout = std::chrono::minutes(2)}),
              rows_of_slice({0, scenario_.rows}));
  }

 private:
  void run_with_faults(RowDispatcher& dispatcher, SliceGenerator& slices) {
    RunOptions run{.timeout = std::chrono::minutes(2)};
    if (scenario_.cancel_after) {
      run.progress_interval = Nanoseconds(0);
      run.progress = [this](const DispatchProgress& progress) {
        return progress.done_rows <= *scenario_.cancel_after;
      };
    }
    try {
      EXPECT_EQ(dispatcher.run(slices, run), rows_of_slice({0, scenario_.rows}));
      EXPECT_FALSE(scenario_.spoilt_row) << "a run over a spoilt row cannot succeed";
      ++tally_.done;
    } catch (const Spoilt&) {
      EXPECT_TRUE(scenario_.spoilt_row);
      ++tally_.spoilt;
    } catch (const AggregateError& error) {
      EXPECT_TRUE(scenario_.spoilt_row && scenario_.cancel_after) << error.what();
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::kCancelled && scenario_.cancel_after) << error.what();
      ++tally_.cancelled;
    }
  }

  Rows work(const Slice& slice, const WorkDevice& device) {
    const auto number = static_cast<std::size_t>(device.name.back() - '0');
    if (faults_) {
      if (scenario_.dies == number && timeline_->now() >= scenario_.dies_after) {
        ++tally_.deaths;
        fail(ErrorCode::kUnavailable, "device {} died", number);
      }
      if (!scenario_.memory_rows.empty() && slice.size() > scenario_.memory_rows[number]) {
        ++tally_.refusals;
        throw std::bad_alloc();
      }
      if (scenario_.spoilt_row && slice.start <= *scenario_.spoilt_row &&
          *scenario_.spoilt_row < slice.stop) {
        throw Spoilt("a spoilt row");
      }
    }
    return rows_of_slice(slice);
  }

  Scenario scenario_;
  Tally& tally_;
  std::shared_ptr<SimulatedTimeline> timeline_ = std::make_shared<SimulatedTimeline>();
  std::atomic<bool> faults_ = true;
};

TEST(RandomRuns, GiveTheResultOfOneShotOrTheErrorThatWasMade) {
  const LogCapture quiet;
  set_log_level(LogLevel::kOff);
  Tally tally;
  const std::uint64_t first = number_from_environment("HARMONICS_DISPATCH_SEED", 1);
  const std::uint64_t runs =
      number_from_environment("HARMONICS_DISPATCH_RUNS", campaign(kDefaultRuns, 100'000));
  for (std::uint64_t seed = first; seed < first + runs; ++seed) {
    RandomRun(seed, tally).check();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  std::printf("%llu runs: %llu done, %llu spoilt, %llu cancelled; %llu deaths, %llu refusals\n",
              static_cast<unsigned long long>(runs), tally.done.load() + 0ULL,
              tally.spoilt.load() + 0ULL, tally.cancelled.load() + 0ULL, tally.deaths.load() + 0ULL,
              tally.refusals.load() + 0ULL);
  if (runs < kDefaultRuns) return;
  for (const auto* count :
       {&tally.done, &tally.spoilt, &tally.cancelled, &tally.deaths, &tally.refusals}) {
    EXPECT_GT(count->load(), runs / 50) << "the faults must strike";
  }
}

}  // namespace
}  // namespace harmonics::inline in_dispatch
