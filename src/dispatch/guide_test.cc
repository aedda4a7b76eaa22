// The examples of docs/guides/dispatch.md, and its pictures: HARMONICS_WRITE_PICTURES=FOLDER writes
// them anew.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <numeric>

#include <harmonics/base/file.h>
#include <harmonics/dispatch/adaptive_scheduler.h>
#include <harmonics/dispatch/shared_batcher.h>
#include <harmonics/dispatch/shared_scheduler.h>
#include <harmonics/dispatch/static_hybrid_scheduler.h>
#include <harmonics/dispatch/tensor_results.h>

namespace harmonics::inline in_dispatch {
namespace {

TEST(DispatchGuide, Slices) {
  SimpleScheduler scheduler("cpu", 345, 800);
  WorkDispatcher<Slice, double, double> dispatcher(
      scheduler, {.run =
                      [](Slice&& rows, const WorkDevice&) {
                        return static_cast<double>(rows.start) * static_cast<double>(rows.stop);
                      },
                  .reduce =
                      [](std::vector<double>&& parts) {
                        return std::accumulate(parts.begin(), parts.end(), 0.0);
                      }});
  SliceGenerator rows(50, 2000);
  const double total = dispatcher.run(rows);  // 8754750: six sub-batches
  EXPECT_EQ(total, 8754750);
}

// What the guide calls solve.
TensorMap solve(const TensorMap& inputs) {
  const Tensor& strain = inputs.at("strain");
  Tensor stress = Tensor::empty(strain.shape());
  const float stiffness = inputs.at("stiffness").values<float>()[0];
  for (std::int64_t i = 0; i < strain.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    stress.mutable_values<float>()[at] = stiffness * strain.values<float>()[at];
  }
  return {{"stress", stress}};
}

TEST(DispatchGuide, Tensors) {
  const std::vector<float> values(60'000, 0.5F);
  const Tensor strain = Tensor::of<float>({10'000, 6}, values);
  const Tensor stiffness = Tensor::of<float>({1, 1}, {200.0F});
  AdaptiveScheduler scheduler(std::vector<std::string>{"cpu", "emulated:1e7,0"});
  ValueDispatcher dispatcher(scheduler, value_functions([](TensorMap&& inputs, const WorkDevice&) {
                               return solve(inputs);
                             }));
  TensorMapLoader batch({{"strain", strain}, {"stiffness", stiffness}});
  const TensorMap result = dispatcher.run(batch);  // "stress" has all 10,000 rows
  EXPECT_EQ(result.at("stress").shape(), (Shape{10'000, 6}));
  EXPECT_EQ(result.at("stress").values<float>()[59'999], 100);
}

TEST(DispatchGuide, AdaptiveAndTrace) {
  const auto trace = std::make_shared<DispatchTrace>();  // or with a file to write at the end
  AdaptiveScheduler scheduler(
      AdaptiveConfig{.devices = {"emulated:2e6,1ms", "emulated:1e5,100us"}, .model = "example"});
  WorkDispatcher<Slice, std::size_t> dispatcher(
      scheduler, {.run = [](Slice&& rows, const WorkDevice&) { return rows.size(); }},
      {.timeline = std::make_shared<SimulatedTimeline>(), .trace = trace});
  SliceGenerator rows(0, 2'100'000);
  (void)dispatcher.run(rows);
  for (const DeviceKnowledge& known : scheduler.knowledge()) {
    std::cout << known.device << ": " << known.rows_per_second << " rows/s, sub-batches of "
              << known.best_batch << '\n';
  }
  EXPECT_EQ(trace->lanes().size(), 2U);
}

TEST(DispatchGuide, ProgressAndStopping) {
  SimpleScheduler scheduler("cpu", 100);
  WorkDispatcher<Slice, std::size_t> dispatcher(
      scheduler, {.run = [](Slice&& rows, const WorkDevice&) { return rows.size(); }});
  SliceGenerator rows(0, 1000);
  std::stop_source stop;
  const auto parts = dispatcher.run(rows, {.progress =
                                               [](const DispatchProgress& progress) {
                                                 return progress.done_rows <=
                                                        progress.total_rows;  // false ends the run
                                               },
                                           .stop = stop.get_token(),
                                           .timeout = std::chrono::minutes(10)});
  EXPECT_EQ(parts.size(), 10U);
}

TEST(DispatchGuide, Sharing) {
  const std::string job = "guide-" + std::to_string(::getpid());
  // In each of several processes:
  SharedScheduler scheduler({.name = job, .devices = {"emulated:1e7,0"}, .batch_sizes = {1000}});
  WorkDispatcher<Slice, std::size_t> dispatcher(
      scheduler, {.run = [](Slice&& rows, const WorkDevice&) { return rows.size(); }});
  SliceGenerator rows(0, 5000);
  EXPECT_EQ(dispatcher.run(rows).size(), 5U);
}

Tensor model_on_the_gpu(Tensor&& rows) { return std::move(rows); }

TEST(DispatchGuide, Merging) {
  const std::string job = "guide-" + std::to_string(::getpid());
  const Tensor rows = Tensor::zeros({5, 16});
  // In each of several processes:
  const TensorSpec row{{16}, DType::kFloat32};
  SharedBatcher batcher({.name = job, .input_row = row, .output_row = row}, model_on_the_gpu);
  const Tensor answer = batcher.run(rows);  // computed by whichever process is the owner
  EXPECT_EQ(answer.shape(), (Shape{5, 16}));
}

// --- pictures ---

struct Picture {
  std::string svg;
  /// When the sub-batch that failed had begun; zero when none did.
  Nanoseconds lost_at{0};
};

Picture picture_of(WorkScheduler& scheduler, std::size_t rows, Nanoseconds dies_at) {
  const auto time = std::make_shared<SimulatedTimeline>();
  const auto trace = std::make_shared<DispatchTrace>();
  {
    WorkDispatcher<Slice, std::size_t> dispatcher(
        scheduler,
        {.run =
             [&](Slice&& slice, const WorkDevice& device) {
               if (dies_at.count() > 0 && device.name.ends_with("#b") && time->now() >= dies_at) {
                 fail(ErrorCode::kUnavailable, "fallen off the bus");
               }
               return slice.size();
             }},
        {.timeline = time, .trace = trace});
    SliceGenerator slices(0, rows);
    (void)dispatcher.run(slices);
  }
  Picture picture{dispatch_trace_svg({trace->lanes().begin(), trace->lanes().end()})};
  for (const TraceLane& lane : trace->lanes()) {
    for (const TraceChunk& chunk : lane.chunks) {
      if (chunk.failed) picture.lost_at = chunk.started;
    }
  }
  return picture;
}

TEST(DispatchGuide, Pictures) {
  const Nanoseconds never(0);
  const Nanoseconds later = std::chrono::milliseconds(60);
  SimpleScheduler simple("emulated:1e5,2ms#a", 1000, 2000);
  StaticHybridScheduler fixed({"emulated:2e5,2ms#a", "emulated:5e4,0#b"}, {4000, 500}, {8000, 1000},
                              {2, 1});
  const AdaptiveConfig devices{
      .devices = {"emulated:4e5,2ms#a", "emulated:2e5,1ms#b", "emulated:2e4,0#c"}};
  AdaptiveScheduler cold(devices);
  AdaptiveScheduler broken(devices);
  const std::map<std::string, Picture> pictures = {
      {"dispatch-simple.svg", picture_of(simple, 12'000, never)},
      {"dispatch-hybrid.svg", picture_of(fixed, 45'000, never)},
      {"dispatch-adaptive.svg", picture_of(cold, 80'000, never)},
      {"dispatch-lost.svg", picture_of(broken, 80'000, later)}};
  for (const auto& [name, picture] : pictures) {
    EXPECT_NE(picture.svg.find("% busy"), std::string::npos) << name;
  }
  const char* const source = std::getenv("HARMONICS_SOURCE_DIR");
  ASSERT_NE(source, nullptr) << "ctest says where the guide is";
  const std::string guide =
      read_text_file(std::filesystem::path(source) / "docs/guides/dispatch.md", 1 << 20);
  const double lost_ms =
      1e-6 * static_cast<double>(pictures.at("dispatch-lost.svg").lost_at.count());
  const std::string caption = format("The second device is lost at {:.0f} ms", lost_ms);
  EXPECT_NE(guide.find(caption), std::string::npos) << "the caption should be: " << caption;
  const char* const folder = std::getenv("HARMONICS_WRITE_PICTURES");
  if (folder == nullptr) return;
  for (const auto& [name, picture] : pictures) {
    write_text_file(std::filesystem::path(folder) / name, picture.svg);
  }
}

}  // namespace
}  // namespace harmonics::inline in_dispatch
