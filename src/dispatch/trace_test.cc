// Traces: what is recorded, the file, the picture, its ceiling; and hostile text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include <harmonics/base/file.h>
#include <harmonics/base/json.h>
#include <harmonics/base/random.h>
#include <harmonics/dispatch/rates.h>
#include <harmonics/dispatch/static_hybrid_scheduler.h>
#include <harmonics/dispatch/work_dispatcher.h>

#include <temporary_folder_testing.h>

#include "scheduler_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_dispatch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Two devices on simulated time: 12 sub-batches of 100 rows, the last one spoilt if wanted.
std::shared_ptr<DispatchTrace> recorded(bool spoilt, std::size_t limit = kMaxTraceEvents) {
  auto trace = std::make_shared<DispatchTrace>("", limit);
  StaticHybridScheduler scheduler({"emulated:1e6,1ms#<fast>", "emulated:1e5,0"}, {100});
  WorkDispatcher<Slice, int> dispatcher(
      scheduler,
      {.run =
           [&](Slice&& slice, const WorkDevice&) {
             if (spoilt && slice.stop == 1200) fail(ErrorCode::kDataLoss, "spoilt");
             return 1;
           }},
      {.timeline = std::make_shared<SimulatedTimeline>(), .trace = trace});
  SliceGenerator slices(0, 1200);
  try {
    (void)dispatcher.run(slices);
  } catch (const Error&) {
    EXPECT_TRUE(spoilt);
  }
  return trace;
}

TEST(Trace, IsReadBackAsItWasRecorded) {
  const auto trace = recorded(true);
  const std::vector<TraceLane> lanes = read_dispatch_trace(trace->json(), "test");
  ASSERT_EQ(lanes.size(), 2U);
  std::size_t chunks = 0, failed = 0;
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    const TraceLane& original = trace->lanes()[l];
    EXPECT_EQ(lanes[l].device, original.device);
    ASSERT_EQ(lanes[l].chunks.size(), original.chunks.size());
    for (std::size_t c = 0; c < lanes[l].chunks.size(); ++c) {
      const TraceChunk& read = lanes[l].chunks[c];
      EXPECT_EQ(read.rows, original.chunks[c].rows);
      EXPECT_EQ(read.begin_row, original.chunks[c].begin_row);
      EXPECT_EQ(read.ended - read.started, original.chunks[c].ended - original.chunks[c].started);
      EXPECT_EQ(read.failed, original.chunks[c].failed);
      failed += read.failed ? 1 : 0;
      ++chunks;
    }
  }
  EXPECT_EQ(chunks, 12U);
  EXPECT_EQ(failed, 1U);
}

TEST(Trace, IsJsonThatViewersRead) {
  const Json file = Json::parse(recorded(false)->json(), "trace");
  std::map<std::string, int> phases;
  std::map<std::string, int> names;
  for (const Json& event : file.at("traceEvents").as_array()) {
    ++phases[event.at("ph").as_string()];
    ++names[event.at("name").as_string()];
    EXPECT_EQ(event.at("pid").as_integer(), 0);
  }
  EXPECT_EQ(phases["M"], 2) << "a named row per lane";
  EXPECT_EQ(names["sub-batch"], 12);
  EXPECT_EQ(names["compute"], 12);
  EXPECT_EQ(names["emulated:1e5,0 rows/s"] + names["emulated:1e6,1ms#<fast> rows/s"], 12);
  EXPECT_GT(names["emulated:1e5,0 load"], 0);
}

TEST(Trace, KeepsSoManyEventsAndSaysHowManyAreMissing) {
  const auto trace = recorded(false, 3);
  std::uint64_t kept = 0, dropped = 0;
  for (const TraceLane& lane : read_dispatch_trace(trace->json(), "test")) {
    EXPECT_LE(lane.chunks.size(), 3U);
    kept += lane.chunks.size();
    dropped += lane.dropped;
  }
  EXPECT_EQ(kept + dropped, 12U);
  EXPECT_GT(dropped, 0U);
}

TEST(Trace, IsWrittenWhenItEnds) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "trace.json";
  {
    DispatchTrace trace(file);
    trace.lane("cpu", 0).add({.rows = 5, .ended = Nanoseconds(1000)});
  }
  EXPECT_EQ(read_dispatch_trace(read_text_file(file), "file").at(0).chunks.at(0).rows, 5U);
}

TEST(TraceSvg, ShowsEveryLaneAndEscapesNames) {
  const std::string svg = dispatch_trace_svg(read_dispatch_trace(recorded(true)->json(), "test"));
  EXPECT_THAT(svg, AllOf(HasSubstr("emulated:1e6,1ms#&lt;fast&gt; / 0"), HasSubstr("% busy"),
                         HasSubstr("failed"), ::testing::EndsWith("</svg>\n")));
  EXPECT_THAT(dispatch_trace_svg({}), HasSubstr("<svg"));
  TraceLane idle;
  idle.device = "cuda:0";
  EXPECT_THAT(dispatch_trace_svg({idle}), HasSubstr("cuda:0 / 0"));
}

TEST(TraceSvg, StaysSmallHoweverManySubBatches) {
  TraceLane lane;
  lane.device = "cpu";
  for (int c = 0; c < 200'000; ++c) {
    lane.add({.rows = 1, .started = Nanoseconds(1000 * c), .ended = Nanoseconds(1000 * c + 900)});
  }
  EXPECT_LT(dispatch_trace_svg({lane}).size(), 1'000'000U);
}

TEST(Trace, OtherFilesAreRefused) {
  for (const char* wrong :
       {"[]", "{}", R"({"traceEvents":{}})", R"({"traceEvents":[{"ph":"X"}]})",
        R"({"traceEvents":[{"ph":"X","tid":3,"name":"a","cat":"b","ts":0,"dur":1}]})",
        R"({"traceEvents":[{"ph":"M","tid":0,"args":{"device":"d","lane":-1}}]})"}) {
    EXPECT_THAT(error_of([&] { (void)read_dispatch_trace(wrong, "some.json"); }),
                ::testing::AnyOf(HasSubstr("invalid_argument"), HasSubstr("not_found")))
        << wrong;
  }
}

// The fuzzer's entry, over mutations of good texts.
TEST(DispatchText, HostileTextIsAnErrorAtWorst) {
  const std::vector<std::string> seeds = {
      '\0' + recorded(true)->json(),
      '\1' + rates_text({{{"m", "cuda:0"}, {1e-3, 1e-6, 100}}, {{"n", "cpu"}, {0, 1e-5, 0}}}),
      "\2emulated:2e6,1.5ms#left", "\2cuda:12"};
  Random random(7, "dispatch text");
  for (int round = 0; round < 20'000; ++round) {
    std::string text = seeds[random.below(seeds.size())];
    if (text.size() > 3000) text.resize(500 + random.below(2500));
    for (std::uint64_t k = 0; k <= random.below(4); ++k) {
      const std::size_t at = 1 + random.below(text.size() - 1);
      switch (random.below(3)) {
        case 0: text[at] = static_cast<char>(random.below(256)); break;
        case 1: text.erase(at, 1 + random.below(8)); break;
        default: text.insert(at, text.substr(1, random.below(16)));
      }
      if (text.size() < 2) text += "  ";
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  }
}

}  // namespace
}  // namespace harmonics::inline in_dispatch
