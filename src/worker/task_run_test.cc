#include "task_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include <harmonics/base/error.h>
#include <harmonics/worker/machine.h>

namespace harmonics::inline in_worker {
namespace {

using testing::_;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using testing::Pair;

StartMessage start_of(TaskSpec spec) {
  StartMessage start;
  start.id = {TaskId{17}, AttemptNumber{2}};
  start.spec = std::make_shared<const TaskSpec>(std::move(spec));
  start.user = "ann";
  start.array_index = 3;
  return start;
}

TaskSurroundings surroundings() {
  TaskSurroundings around;
  around.worker.name = "worker-1";
  around.worker.identity = "id@boot";
  around.worker.devices = {{"0", "T4", 16384}, {"1", "T4", 16384}, {"5", "T4", 16384}};
  around.environment = {{"PATH", "/bin"},
                        {"COLOUR", "red"},
                        {"HARMONICS_LOG", "debug"},
                        {"HARMONICS_DATA_DIR", "/data"}};
  around.trainer = {"trainer"};
  around.log_bytes = 1000;
  around.grace_ms = 5;
  return around;
}

TEST(TaskRun, StagesKnowTheCertificateOfTheirWorker) {
  TaskSpec spec;
  spec.name = "x";
  TaskSurroundings around = surroundings();
  around.tls = TlsFiles{"/tls/ca.pem", "/tls/worker.pem", "/tls/worker.key"};
  EXPECT_THAT(make_run(start_of(spec), around).environment,
              Not(Contains(Pair("HARMONICS_PIPELINE_TLS", _))))
      << "other tasks have no business with it";
  set_pipeline(spec, {.model = "m", .graph = "g", .stages = 1});
  EXPECT_THAT(make_run(start_of(spec), around).environment,
              Contains(Pair("HARMONICS_PIPELINE_TLS",
                            AllOf(HasSubstr("/tls/ca.pem"), HasSubstr("/tls/worker.pem"),
                                  HasSubstr("/tls/worker.key")))));
  EXPECT_THAT(make_run(start_of(spec), surroundings()).environment,
              Not(Contains(Pair("HARMONICS_PIPELINE_TLS", _))));
}

TEST(TaskRun, AStageThatInfersLeavesTheFilesThatItsPlanNames) {
  TaskSpec spec;
  spec.name = "x";
  spec.artifacts = {"notes.txt"};
  PipelineSpec pipeline{.model = "m", .graph = "g", .stages = 2, .infer = true};
  pipeline.weights = "/w.safetensors";
  pipeline.weights_digest = "ab12";
  pipeline.outputs = {{"rows", "csv:rows.csv"}};
  set_pipeline(spec, pipeline);
  StartMessage start = start_of(spec);
  start.plan = R"({"stages": [{"worker": "a"}, {"worker": "b", "out": ["rows.csv"]}]})";
  EXPECT_THAT(make_run(start, surroundings()).artifacts.patterns, ElementsAre("notes.txt"));
  start.gang_rank = 1;
  const RunRecord run = make_run(start, surroundings());
  EXPECT_THAT(run.artifacts.patterns, ElementsAre("notes.txt", "rows.csv"));
  EXPECT_THAT(run.environment,
              Contains(Pair("HARMONICS_PIPELINE",
                            AllOf(HasSubstr(R"("infer":true)"), HasSubstr("/w.safetensors"),
                                  HasSubstr("ab12"), HasSubstr(R"("rows":"csv:rows.csv")")))));
  start.plan = R"({"measure": true})";
  EXPECT_THAT(make_run(start, surroundings()).artifacts.patterns, ElementsAre("notes.txt"));
  start.gang_rank = 7;
  start.plan = R"({"stages": []})";
  EXPECT_THROW(static_cast<void>(make_run(start, surroundings())), Error);
}

TEST(TaskRun, TheTaskWinsOverTheWorkerAndWeOverBoth) {
  TaskSpec spec;
  spec.name = "x";
  spec.command = {"a", "b"};
  spec.env = {{"COLOUR", "blue"}, {"HARMONICS_TASK_ID", "99"}};
  spec.params = {{"learning-rate", "0.1"}};
  StartMessage start = start_of(spec);
  start.devices.add({0});
  start.devices.add({2});
  const RunRecord run = make_run(start, surroundings());
  EXPECT_EQ(run.attempt, "17.2");
  EXPECT_EQ(run.command, spec.command);
  EXPECT_THAT(run.environment, Contains(Pair("COLOUR", "blue")));
  EXPECT_THAT(run.environment, Contains(Pair("PATH", "/bin")));
  EXPECT_THAT(run.environment, Contains(Pair("HARMONICS_TASK_ID", "17")));
  EXPECT_THAT(run.environment, Contains(Pair("HARMONICS_PARAM_LEARNING_RATE", "0.1")));
  EXPECT_THAT(run.environment, Contains(Pair("CUDA_VISIBLE_DEVICES", "0,5")));
  EXPECT_THAT(run.environment, Contains(Pair("HARMONICS_ARRAY_INDEX", "3")));
  EXPECT_THAT(run.environment, Not(Contains(Key("HARMONICS_LOG"))));
  EXPECT_THAT(run.environment, Contains(Pair("HARMONICS_DATA_DIR", "/data")));
  EXPECT_TRUE(run.hold_bound && !run.lease_bound) << "it goes on without the server by default";
  spec.on_disconnect = OnDisconnect::kStop;
  const RunRecord stops = make_run(start_of(spec), surroundings());
  EXPECT_TRUE(stops.lease_bound && !stops.hold_bound);
}

TEST(TaskRun, WithoutACommandTheTrainerRunsAndWithoutDevicesNoneIsSeen) {
  TaskSpec spec;
  spec.timeout_s = 7;
  spec.on_disconnect = OnDisconnect::kForever;
  const RunRecord run = make_run(start_of(spec), surroundings());
  EXPECT_EQ(run.command, std::vector<std::string>{"trainer"});
  EXPECT_THAT(run.environment, Contains(Pair("CUDA_VISIBLE_DEVICES", "")));
  EXPECT_EQ(run.timeout_ms, 7000u);
  EXPECT_FALSE(run.lease_bound);
}

TEST(TaskRun, MembersOfAGangAgreeOnAPort) {
  TaskSpec spec;
  spec.gang = 2;
  StartMessage first = start_of(spec);
  first.peers = {{"a", "h:1"}, {"b", "h:2"}};
  first.gang_secret = "s";
  StartMessage second = first;
  second.gang_rank = 1;
  EXPECT_EQ(gang_port(first), gang_port(second));
  EXPECT_GE(gang_port(first), kFirstGangPort);
  EXPECT_LT(gang_port(first), kFirstGangPort + kGangPorts);
  const std::uint16_t before = gang_port(second);
  second.id.attempt.value = 3;
  EXPECT_NE(gang_port(second), before) << "a port that was taken is not tried again";
  const RunRecord run = make_run(first, surroundings());
  EXPECT_THAT(run.environment, Contains(Pair("HARMONICS_GANG_PORT", std::to_string(before))));
  EXPECT_THAT(run.environment, Contains(Pair("HARMONICS_GANG_SECRET", "s")));
}

TEST(TaskRun, AttemptsHaveNames) {
  const AttemptId id{TaskId{17}, AttemptNumber{2}};
  EXPECT_EQ(attempt_from(to_string(id)), id);
  for (const char* wrong : {"", "17", "17.", ".2", "17.2x", "a.b", "99999999999999999999999.1"}) {
    EXPECT_THROW(static_cast<void>(attempt_from(wrong)), Error) << wrong;
  }
}

TEST(TaskRun, EndsKeepTheirMeaning) {
  EXPECT_EQ(end_result({RunEnd::kExited, 0, 0, {}}).kind, EndKind::kSucceeded);
  EXPECT_EQ(end_result({RunEnd::kExited, 3, 0, {}}).kind, EndKind::kFailed);
  EXPECT_EQ(end_result({RunEnd::kExited, 3, 0, {}}).message, "exit code 3");
  EXPECT_THAT(end_result({RunEnd::kSignalled, 0, 9, {}}).message, HasSubstr("signal 9"));
  EXPECT_EQ(end_result({RunEnd::kLeaseLost, 0, 9, {}}).kind, EndKind::kLeaseLost);
  EXPECT_EQ(end_result({RunEnd::kRefused, 0, 0, "why"}).message, "why");
}

TEST(Machine, ReadsWhatNvidiaSmiPrints) {
  const auto found = parse_gpu_list("0, NVIDIA RTX A4000, 16376\n1, Tesla T4, 15360\r\n\n");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0], (DeviceSpec{"0", "NVIDIA RTX A4000", 16376}));
  EXPECT_EQ(found[1], (DeviceSpec{"1", "Tesla T4", 15360}));
  EXPECT_THROW(static_cast<void>(parse_gpu_list("No devices were found\n")), Error);
}

TEST(Machine, ReadsTheListsOfTheCommandLine) {
  EXPECT_TRUE(devices_from_lists("", "", "").empty());
  const auto found = devices_from_lists("0,1", "RTX3090,RTX3090", "24576,24576");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1], (DeviceSpec{"1", "RTX3090", 24576}));
  for (const auto& [ids, models, memories] :
       std::vector<std::array<const char*, 3>>{{"0,1", "A", "1,2"},
                                               {"0,1", "A,B", "1"},
                                               {"0,0", "A,B", "1,2"},
                                               {"0", "A", "-1"},
                                               {"0", "A", "1.5"},
                                               {"0", "A", ""},
                                               {",", "A,B", "1,2"},
                                               {"0", "", ""}}) {
    EXPECT_THROW(static_cast<void>(devices_from_lists(ids, models, memories)), Error)
        << ids << " " << models << " " << memories;
  }
}

}  // namespace
}  // namespace harmonics::inline in_worker
