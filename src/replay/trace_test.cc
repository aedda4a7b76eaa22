// Traces in their three formats, and what is said of those that cannot be read.
#include <gtest/gtest.h>

#include <harmonics/base/error.h>
#include <harmonics/base/random.h>
#include <harmonics/replay/job_trace.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_replay {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::string_view kPlainText =
    "user,gpus,arrival_s,duration_s,cpus,memory_mb,gpu_models,priority\n"
    "ann,2,10,60.5,1.5,2048,V100|T4,3\r\n"
    "bob,0.25,0,,,0,,-1\n"
    "\n";
constexpr std::string_view kPhillyText =
    "timestamp,duration,num_gpus,gpu_time,cluster\n"
    "2017-10-09 07:01:55,66.0,1,66.0,11cb48\n"
    "2017-10-09 06:01:55,2951.0,16,2951.0,6214e9\n";
constexpr std::string_view kPodsText =
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time\n"
    "a,8000,30517,0,0,,BE,Running,100,160,100\n"
    "b,11400,1024,1,460,P100|T4,LS,Running,90,,90\n";

std::string error_of(std::string_view text, bool nodes = false) {
  try {
    if (nodes) {
      (void)parse_nodes(text, "t.csv");
    } else {
      (void)parse_trace(text, "t.csv");
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "none";
}

TEST(Trace, PlainColumnsInAnyOrder) {
  const Trace trace = parse_trace(
      "gpus,arrival_s,duration_s,user,cpus\n2,10,60.5,ann,1.5\n0.25,0,,bob,0\n", "t.csv");
  EXPECT_EQ(trace.format, TraceFormat::kPlain);
  ASSERT_EQ(trace.jobs.size(), 2U);
  EXPECT_EQ(trace.jobs[0].user, "bob") << "by arrival";
  EXPECT_EQ(trace.jobs[0].gpus, 1U);
  EXPECT_EQ(trace.jobs[0].gpu_milli, 250U);
  EXPECT_EQ(trace.jobs[0].duration, kNever) << "it stays";
  EXPECT_EQ(trace.jobs[1].arrival, seconds(10));
  EXPECT_EQ(trace.jobs[1].duration, milliseconds(60'500));
  EXPECT_EQ(trace.jobs[1].cpu_milli, 1500U);
}

TEST(Trace, PhillyAndPodsAsPublished) {
  const Trace philly = parse_trace(kPhillyText, "philly.csv");
  EXPECT_EQ(philly.format, TraceFormat::kPhilly);
  ASSERT_EQ(philly.jobs.size(), 2U);
  EXPECT_EQ(philly.jobs[0].gpus, 16U);
  EXPECT_EQ(philly.jobs[1].arrival, std::chrono::hours(1));
  EXPECT_EQ(philly.jobs[1].user, "11cb48");
  const Trace pods = parse_trace(kPodsText, "pods.csv");
  EXPECT_EQ(pods.format, TraceFormat::kPods);
  ASSERT_EQ(pods.jobs.size(), 2U);
  EXPECT_EQ(pods.jobs[0].gpu_milli, 460U);
  EXPECT_EQ(pods.jobs[0].gpu_models, "P100|T4");
  EXPECT_EQ(pods.jobs[0].duration, kNever);
  EXPECT_EQ(pods.jobs[1].gpus, 0U);
  EXPECT_EQ(pods.jobs[1].duration, seconds(60));
}

TEST(Trace, ErrorsNameTheLineAndWhatIsExpected) {
  EXPECT_EQ(error_of(""), "t.csv: empty; the first line must name the columns");
  EXPECT_EQ(error_of("a,b\n"), "t.csv: no column 'arrival_s'; there are a, b");
  EXPECT_EQ(error_of("arrival_s,duration_s,gpus\n"), "t.csv, line 1: there are no jobs");
  EXPECT_EQ(error_of("arrival_s,duration_s,gpus\n1,2\n"),
            "t.csv, line 2: 2 fields where the first line names 3 columns");
  EXPECT_EQ(error_of("arrival_s,duration_s,gpus\n1,2,1\n1,x,1\n"),
            "t.csv, line 3: duration_s is 'x', must be a number from 0 to 1000000000");
  EXPECT_EQ(error_of("arrival_s,duration_s,gpus\n1,2,1.5\n"),
            "t.csv, line 2: gpus is '1.5', must be a whole number, or a share from 0.001 to 0.999");
  EXPECT_EQ(
      error_of("timestamp,duration,num_gpus,cluster\n2017-02-30 07:01:55,1,1,a\n"),
      "t.csv, line 2: timestamp is '2017-02-30 07:01:55', must be a moment such as 2017-10-09 "
      "07:01:55");
  EXPECT_EQ(error_of("cpu_milli,memory_mib,num_gpu,gpu_milli\n1,1,2,500\n"),
            "t.csv, line 2: gpu_milli is '500', must be 1 to 1000, and 1000 with several GPUs");
  EXPECT_NE(error_of("a\n" + std::string(kMaxTraceLineBytes + 1, 'x')).find("t.csv"),
            std::string::npos);
  EXPECT_NE(error_of("arrival_s\n" + std::string(kMaxTraceColumns, ',')).find("no column"),
            std::string::npos);
  EXPECT_EQ(error_of(std::string(kMaxTraceColumns, ',')), "t.csv, line 1: more than 64 columns");
  EXPECT_EQ(error_of("sn,cpu_milli,memory_mib,gpu,model\na,1,1,65,T4\n", true),
            "t.csv, line 2: gpu is '65', must be a whole number from 0 to 64");
}

TEST(Trace, Machines) {
  const auto nodes = parse_nodes(
      "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,P100\nn2,8500,1,0,\n", "n.csv");
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].devices.size(), 2U);
  EXPECT_EQ(nodes[0].devices[1].model, "P100");
  EXPECT_EQ(nodes[0].cpus, 6400U) << "hundredths";
  EXPECT_EQ(nodes[1].cpus, 850U);
  EXPECT_EQ(equal_nodes("3x2").size(), 3U);
  EXPECT_EQ(equal_nodes("3x2")[2].devices.size(), 2U);
  for (const char* text : {"3", "x", "0x1", "3x65", "3x2x1", "99999x1"}) {
    EXPECT_THROW((void)equal_nodes(text), Error) << text;
  }
}

TEST(Trace, ChangedTextsNeverCrash) {
  Random random(7, "trace");
  for (int round = 0; round < 6000; ++round) {
    std::string text(round % 3 == 0 ? kPlainText : round % 3 == 1 ? kPhillyText : kPodsText);
    for (std::uint64_t n = 1 + random.below(4); n > 0; --n) {
      const std::size_t at = random.below(text.size());
      switch (random.below(3)) {
        case 0: text[at] = static_cast<char>(random.below(256)); break;
        case 1: text.erase(at, 1 + random.below(8)); break;
        default: text.insert(at, text.substr(random.below(text.size()), 9)); break;
      }
      if (text.empty()) text = kPlainText;
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  }
}

}  // namespace
}  // namespace harmonics::inline in_replay
