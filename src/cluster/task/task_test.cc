#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <filesystem>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/random.h>
#include <harmonics/cluster/task.h>
#include <harmonics/cluster/task_files.h>
#include <harmonics/cluster/task_params.h>
#include <harmonics/cluster/worker.h>

#include "task_testing.h"

namespace harmonics::inline in_cluster {
namespace {

using testing::HasSubstr;

std::string error_of(const std::string& json) {
  try {
    (void)parse_task(json, "task.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << json;
  return "";
}

TEST(TaskJson, ReadsTheSample) {
  const TaskSpec spec = parse_task(R"({
  "name": "ResNet50 Training",
  "required_gpus": 2,
  "min_gpu_memory": 8192,
  "params": {
    "model": "resnet50",
    "dataset": "imagenet",
    "batch_size": "64",
    "weight_decay": "0.0001"
  }
})",
                                   "sample_task.json");
  EXPECT_EQ(spec.name, "ResNet50 Training");
  EXPECT_EQ(spec.required_gpus, 2U);
  EXPECT_EQ(spec.min_gpu_memory_mb, 8192U);
  EXPECT_EQ(spec.params.at(3), (std::pair<std::string, std::string>("weight_decay", "0.0001")));
  EXPECT_TRUE(spec.command.empty());
  EXPECT_EQ(spec.gang, 1U);
}

TEST(TaskJson, DefaultsAreThoseOfTheSubmitCommand) {
  const TaskSpec spec = parse_task(R"({"name": "a"})", "t");
  EXPECT_EQ(spec.required_gpus, 1U);
  EXPECT_EQ(spec.min_gpu_memory_mb, 4096U);
  EXPECT_EQ(spec.count(), 1U);
}

TEST(TaskJson, ATaskWithoutDevicesCountsAsOneCore) {
  EXPECT_EQ(parse_task(R"({"name": "a"})", "t").cpus, 0U);
  EXPECT_EQ(parse_task(R"({"name": "a", "required_gpus": 0})", "t").cpus, 1U);
  EXPECT_EQ(parse_task(R"({"name": "a", "required_gpus": 0, "cpus": 0})", "t").cpus, 0U);
  EXPECT_EQ(parse_task(R"({"name": "a", "pipeline": {"model": "m"}})", "t").cpus, 0U);
  for (const std::uint32_t cpus : {0, 1, 2}) {
    TaskSpec spec;
    spec.name = "a";
    spec.required_gpus = 0;
    spec.cpus = cpus;
    EXPECT_EQ(parse_task(write_task(spec), "t"), spec) << cpus;
  }
}

TEST(TaskJson, EveryFieldComesBack) {
  Random random(6, "tasks");
  for (int round = 0; round < 200; ++round) {
    const TaskSpec spec = random_task_spec(random, round % 2 == 0, round % 4 < 2);
    EXPECT_EQ(parse_task(write_task(spec), "t"), spec);
  }
  EXPECT_EQ(parse_task(write_task({.name = "small"}), "t"), (TaskSpec{.name = "small"}));
}

TEST(TaskJson, ItsPageHasEveryField) {
  const char* source = std::getenv("HARMONICS_SOURCE_DIR");
  ASSERT_NE(source, nullptr) << "HARMONICS_SOURCE_DIR is not set: run this through ctest";
  const std::string page = read_text_file(
      std::filesystem::path(source) / "docs/formats/task-json.md", std::size_t{1} << 20);
  const auto check = [&page](const TaskField& field, auto) {
    if (field.joined) return;  // no key: another one says it
    EXPECT_THAT(page, HasSubstr(format("`{}`", field.key)));
  };
  visit_fields(std::type_identity<TaskSpec>(), check);
  visit_fields(std::type_identity<PipelineSpec>(), check);
}

// Every bit is one field's own: those of on_disconnect are 1 and 8.
TEST(TaskFields, HaveBitsOfTheirOwn) {
  std::uint64_t taken = 1 | 8;
  visit_fields(std::type_identity<TaskSpec>(), [&](const TaskField& field, auto) {
    EXPECT_LE(std::popcount(field.bit), 1) << field.key;
    EXPECT_EQ(taken & field.bit, 0U) << field.key;
    taken |= field.bit;
  });
}

// What users, scripts and stores of questions to policies see.
TEST(TaskJson, IsWrittenInTheOrderOfItsPage) {
  TaskSpec spec;
  spec.name = "all \"of\" it";
  spec.params = {{"z", "1"}, {"a", "ü"}};
  spec.command = {"prog", "", "-x"};
  spec.max_losses = kUnlimitedLosses;
  spec.priority = -5;
  spec.depends_on = {TaskId{3}, TaskId{9}};
  spec.on_disconnect = OnDisconnect::kStop;
  spec.files = std::vector<TaskFile>{{"run.sh", "echo \"hi\"\n", true},
                                     {"data/raw", std::string("\0\xff", 2), false}};
  EXPECT_EQ(Json::parse(write_task(spec), "t").dump(),
            R"({"name":"all \"of\" it","required_gpus":1,"min_gpu_memory":4096,)"
            R"("params":{"z":"1","a":"ü"},"command":["prog","","-x"],)"
            R"("max_losses":"unlimited","priority":-5,"depends_on":[3,9],"on_disconnect":"stop",)"
            R"("files":[{"path":"run.sh","text":"echo \"hi\"\n","executable":true},)"
            R"({"path":"data/raw","hex":"00ff"}]})");
}

TEST(TaskJson, AVariantThatDoesNotSayHowLargeItsDevicesAreWantsTheTasks) {
  const TaskSpec spec = parse_task(
      R"({"name":"t","variants":[{"required_gpus":2},{"required_gpus":1,"min_gpu_memory":7}],)"
      R"("required_gpus":4,"min_gpu_memory":500})",
      "t.json");
  EXPECT_EQ(needs_of(spec, 1).gpu_memory_mb, 500U);
  EXPECT_EQ(needs_of(spec, 2).gpu_memory_mb, 7U);
  EXPECT_EQ(parse_task(write_task(spec), "written"), spec);
}

TEST(TaskJson, PipelinesComeBack) {
  TaskSpec spec{.name = "p", .required_gpus = 0, .max_retries = kPipelineRetries};
  PipelineSpec pipeline{.model = "net.harp",
                        .graph = "harmonic net {}",
                        .stages = 3,
                        .bindings = {{"image", "csv:a.csv"}},
                        .settings = {{"epochs", "30"}},
                        .checkpoint = "/shared",
                        .checkpoint_every = 7,
                        .profile = true,
                        .trace = true};
  set_pipeline(spec, pipeline);
  EXPECT_EQ(spec.gang, 3U);
  EXPECT_EQ(parse_task(write_task(spec), "t"), spec);
  pipeline.stages = 0;
  set_pipeline(spec, pipeline);
  EXPECT_EQ(spec.gang, 1U);
  EXPECT_EQ(parse_task(write_task(spec), "t"), spec);
}

TEST(TaskJson, APipelineHasDefaultsOfItsOwn) {
  const TaskSpec spec = parse_task(R"({"name":"a","pipeline":{"model":"net.harp"}})", "t");
  EXPECT_EQ(spec.required_gpus, 0U);
  EXPECT_EQ(spec.max_retries, kPipelineRetries);
  EXPECT_EQ(spec.on_disconnect, OnDisconnect::kStop);
  EXPECT_EQ(parse_task(R"({"name":"a"})", "t").on_disconnect, OnDisconnect::kContinue);
  EXPECT_EQ(spec.pipeline->stages, 0U);
  EXPECT_EQ(parse_task(R"({"required_gpus":2,"name":"a","pipeline":{}})", "t").required_gpus, 2U);
  EXPECT_THAT(error_of(R"({"name":"a","pipeline":{"stages":0}})"), HasSubstr("\"auto\""));
  EXPECT_THAT(error_of(R"({"name":"a","pipeline":{"stage":1}})"), HasSubstr("known are model"));
  EXPECT_THAT(error_of(R"({"name":"a","pipeline":[]})"), HasSubstr("must be an object"));
  EXPECT_THAT(error_of(R"({"name":"a","pipeline":{},"command":"x"})"), HasSubstr("no command"));
  EXPECT_THAT(error_of(R"({"name":"a","pipeline":{},"working_dir":"x"})"),
              HasSubstr("leave working_dir out"));
  EXPECT_THAT(error_of(R"({"name":"a","pipeline":{"stages":65}})"), HasSubstr("0 to 64"));
  EXPECT_THAT(error_of(R"({"name":"a","pipeline":{"checkpoint_every":0}})"),
              HasSubstr("checkpoint_every is 0"));
}

TEST(TaskJson, LossesAreANumberOrUnlimited) {
  EXPECT_EQ(parse_task(R"({"name":"a"})", "t").max_losses, 5U);
  EXPECT_EQ(parse_task(R"({"name":"a","max_losses":1})", "t").max_losses, 1U);
  const TaskSpec forever = parse_task(R"({"name":"a","max_losses":"unlimited"})", "t");
  EXPECT_EQ(forever.max_losses, kUnlimitedLosses);
  EXPECT_EQ(parse_task(write_task(forever), "t"), forever);
  for (const char* wrong : {"0", "1000001", "4294967295", "\"many\""}) {
    EXPECT_THAT(error_of(format(R"({{"name":"a","max_losses":{}}})", wrong)),
                HasSubstr("max_losses"))
        << wrong;
  }
}

TEST(TaskJson, ACommandAsTextIsForTheShell) {
  EXPECT_EQ(parse_task(R"({"name":"a","command":"echo $X"})", "t").command,
            (std::vector<std::string>{"/bin/sh", "-c", "echo $X"}));
}

TEST(TaskJson, UnknownKeysSuggestTheNearest) {
  EXPECT_THAT(error_of(R"({"name":"a","require_gpus":1})"), HasSubstr("'required_gpus'"));
  EXPECT_THAT(error_of(R"({"name":"a","pirority":1})"), HasSubstr("'priority'"));
  EXPECT_THAT(error_of(R"({"nmae":"a"})"), HasSubstr("'name'"));
  EXPECT_THAT(error_of(R"({"name":"a","zzzzzzzzz":1})"),
              HasSubstr("known are name, required_gpus"));
}

TEST(TaskJson, BadValuesNameKeyAndPlace) {
  EXPECT_THAT(error_of(R"({"name":"a","required_gpus":-1})"),
              HasSubstr("task.json: required_gpus: is -1, must not be negative"));
  EXPECT_THAT(error_of(R"({"name":"a","required_gpus":1.5})"), HasSubstr("whole number"));
  EXPECT_THAT(error_of(R"({"name":"a","required_gpus":65})"), HasSubstr("must be 0 to 64"));
  EXPECT_THAT(error_of(R"({"name":"a","array":5000000000})"), HasSubstr("too large"));
  EXPECT_THAT(error_of(R"({"name":"a","params":{"x":64}})"), HasSubstr("write \"64\""));
  EXPECT_THAT(error_of(R"({"name":"a","gang":0})"), HasSubstr("gang is 0, must be 1 to"));
  EXPECT_THAT(error_of(R"({"name":"a","on_disconnect":"go"})"), HasSubstr("\"continue\""));
  EXPECT_THAT(error_of(R"({"name":"a","env":{"A=B":"x"}})"), HasSubstr("holds '='"));
  EXPECT_THAT(error_of(R"({"name":"a","command":[""]})"), HasSubstr("program's name"));
  EXPECT_THAT(error_of(R"({"name":"a","command":["a\u0000b"]})"), HasSubstr("zero byte"));
  EXPECT_THAT(error_of("{}"), HasSubstr("name is missing"));
  EXPECT_THAT(error_of("[]"), HasSubstr("a task is an object"));
  EXPECT_THAT(error_of("{\"name\""), HasSubstr("not valid JSON"));
}

TEST(TaskJson, CeilingsHold) {
  TaskSpec spec{.name = std::string(kMaxTaskNameBytes, 'n')};
  check_task(spec);
  spec.name += 'n';
  EXPECT_THROW(check_task(spec), Error);
  spec.name = "a";
  spec.artifacts.assign(4, std::string(kMaxTaskTextBytes - 1, 'x'));
  check_task(spec);
  spec.artifacts.emplace_back("four more bytes");
  EXPECT_THROW(check_task(spec), Error) << "all text together";
  spec.artifacts.assign(kMaxTaskEntries, "x");
  check_task(spec);
  spec.artifacts.emplace_back("x");
  EXPECT_THROW(check_task(spec), Error) << "entries";
  spec.artifacts = {std::string(kMaxTaskTextBytes + 1, 'x')};
  EXPECT_THROW(check_task(spec), Error) << "one text";
  spec.artifacts.clear();
  spec.depends_on.resize(kMaxTaskDependencies + 1);
  EXPECT_THROW(check_task(spec), Error);
  EXPECT_THAT(error_of(std::string(kMaxTaskJsonBytes + 1, ' ')), HasSubstr("too many"));
}

TEST(TaskFiles, AreReadFromTextOrHex) {
  const TaskSpec spec = parse_task(
      R"({"name":"a","files":[{"path":"a.py","text":"x\n"},{"path":"b","hex":"00ff"}]})", "t");
  ASSERT_EQ(spec.files.all().size(), 2U);
  EXPECT_EQ(spec.files.all()[0], (TaskFile{"a.py", "x\n", false}));
  EXPECT_EQ(spec.files.all()[1].data, std::string("\0\xff", 2));
  EXPECT_THAT(error_of(R"({"name":"a","files":{}})"), HasSubstr("list of files"));
  EXPECT_THAT(error_of(R"({"name":"a","files":["x"]})"), HasSubstr("path and either text or hex"));
  EXPECT_THAT(error_of(R"({"name":"a","files":[{"path":"x","text":"","hex":""}]})"),
              HasSubstr("either text or hex"));
  EXPECT_THAT(error_of(R"({"name":"a","files":[{"path":"x","hex":"0"}]})"), HasSubstr("pairs"));
  EXPECT_THAT(error_of(R"({"name":"a","files":[{"path":"x","hex":"0g"}]})"), HasSubstr("'g'"));
  EXPECT_THAT(error_of(R"({"name":"a","files":[{"path":"x","text":"","mode":1}]})"),
              HasSubstr("no 'mode'"));
}

TEST(TaskFiles, HaveCeilings) {
  TaskSpec spec{.name = "a"};
  spec.files = std::vector<TaskFile>{{"x", std::string(kMaxTaskFileBytes - 1, 'x'), false}};
  check_task(spec);
  EXPECT_EQ(parse_task(write_task(spec), "t"), spec);
  EXPECT_EQ(file_bytes(spec), kMaxTaskFileBytes);
  spec.files = std::vector<TaskFile>{{"x", "", false},
                                     {"large", std::string(kMaxTaskFileBytes - 5, 'x'), false}};
  try {
    check_task(spec);
    ADD_FAILURE() << "a byte too many";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("with 'large' (524283 bytes)"));
    EXPECT_THAT(error.what(), HasSubstr("more than the 524288 bytes"));
  }
  spec.files = std::vector<TaskFile>(kMaxTaskFiles);
  check_task(spec);
  spec.files = std::vector<TaskFile>(kMaxTaskFiles + 1);
  EXPECT_THROW(check_task(spec), Error);
}

TEST(TaskFiles, HostilePathsAreRefused) {
  TaskSpec spec{.name = "a"};
  spec.working_dir = "b";
  const auto said = [&spec](std::vector<TaskFile> files) -> std::string {
    spec.files = std::move(files);
    try {
      check_files(spec);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.what();
    }
    return {};
  };
  EXPECT_EQ(said({{"a..b", "", false}, {"b/..c", "", false}, {"b/.d", "", false}}), "");
  for (const std::string path :
       {"", "/etc/passwd", "..", "../x", "a/../../x", "a/..", ".", "./a", "a//b", "a/", "/"}) {
    EXPECT_THAT(said({{path, "", false}}), HasSubstr("'" + path + "' is no relative path")) << path;
  }
  EXPECT_NE(said({{std::string("a\0b", 3), "", false}}), "");
  EXPECT_NE(said({{std::string(256, 'x'), "", false}}), "");
  EXPECT_NE(said({{"a/" + std::string(1024, 'x'), "", false}}), "");
  EXPECT_THAT(said({{"a", "", false}, {"a", "", false}}), HasSubstr("'a' is there twice"));
  EXPECT_THAT(said({{"a/b", "", false}, {"a", "", false}}), HasSubstr("a file and a folder"));
  spec.working_dir = "/tmp";
  EXPECT_THAT(said({{"a", "", false}}), HasSubstr("not '/tmp'"));
  spec.working_dir = "../x";
  EXPECT_THAT(said({{"a", "", false}}), HasSubstr("not '../x'"));
  spec.working_dir.clear();
  spec.pipeline = PipelineSpec{};
  EXPECT_THAT(said({{"a", "", false}}), HasSubstr("pipeline"));
}

TEST(TaskJson, ParametersThatShareAVariableAreRefused) {
  TaskSpec spec;
  spec.params = {{"a-b", "1"}, {"a.c", "2"}, {"A", "3"}};
  check_params(spec);
  spec.params.emplace_back("a_b", "4");
  try {
    check_params(spec);
    ADD_FAILURE() << "one of them would have been lost";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("'a-b' and 'a_b' are both HARMONICS_PARAM_A_B"));
  }
}

TEST(Pipeline, OneThatInfersHasWeightsAndOutputs) {
  PipelineSpec spec{.model = "m", .graph = "g", .infer = true};
  const auto said = [&spec]() -> std::string {
    try {
      check_inference(spec);
      return {};
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_THAT(said(), HasSubstr("needs weights"));
  spec.weights = "w";
  EXPECT_THAT(said(), HasSubstr("needs an output"));
  for (const char* good : {"csv:rows.csv", "csv:a/b..c", "csv:out.csv", "csv:run.csv"}) {
    spec.outputs = {{"rows", good}};
    EXPECT_EQ(said(), "") << good;
  }
  for (const char* bad : {"rows.csv", "csv:", "npy:rows", "csv:/tmp/rows", "csv:../rows", "csv:a/",
                          "csv:a/../b", "csv:*.csv", "csv:a[1]"}) {
    spec.outputs = {{"rows", bad}};
    EXPECT_THAT(said(), HasSubstr("must be csv:FILE")) << bad;
  }
  for (const char* taken :
       {"csv:run", "csv:artifacts/x", "csv:model.harp", "csv:out.0", "csv:./x"}) {
    spec.outputs = {{"rows", taken}};
    EXPECT_THAT(said(), HasSubstr("has for itself")) << taken;
  }
  spec.outputs = {{"rows", "csv:a"}, {"more", "csv:a"}};
  EXPECT_THAT(said(), HasSubstr("two consumers write to 'a'"));
  spec.infer = false;
  EXPECT_THAT(said(), HasSubstr("a pipeline that trains"));
  spec = {.model = "m", .graph = "g"};
  EXPECT_EQ(said(), "");
}

TEST(Pipeline, WhatEarlierVersionsSaidAmongTheSettingsIsStillRead) {
  const TaskSpec spec = parse_task(
      R"({"name": "n", "pipeline": {"model": "m", "graph": "g",
          "settings": {"elastic": "true", "epochs": "3", "secure": "false"}}})",
      "t");
  EXPECT_TRUE(spec.pipeline->elastic);
  EXPECT_FALSE(spec.pipeline->secure);
  EXPECT_EQ(spec.pipeline->settings, (TextPairs{{"epochs", "3"}}));
  EXPECT_EQ(parse_task(write_task(spec), "again"), spec);
}

TEST(Names, NaturalOrder) {
  EXPECT_TRUE(natural_less("worker-2", "worker-10"));
  EXPECT_FALSE(natural_less("worker-10", "worker-2"));
  EXPECT_TRUE(natural_less("a9b2", "a9b10"));
  EXPECT_TRUE(natural_less("a", "a1"));
  EXPECT_TRUE(natural_less("a01", "a1")) << "same number: as text";
  EXPECT_FALSE(natural_less("a1", "a1"));
  EXPECT_TRUE(natural_less("a+1", "a0")) << "'+' stands before digits";
  EXPECT_TRUE(natural_less("a9", "ab"));
  EXPECT_TRUE(natural_less("n00000000000000000000000002", "n18446744073709551617"));
}

TEST(Names, NaturalOrderIsTotal) {
  Random random(5, "names");
  const auto draw = [&] {
    std::string name;
    for (std::uint64_t n = random.below(5); n > 0; --n) name += "01a-"[random.below(4)];
    return name;
  };
  for (int i = 0; i < 20'000; ++i) {
    const std::string a = draw();
    const std::string b = draw();
    const std::string c = draw();
    EXPECT_EQ(natural_less(a, b) || natural_less(b, a), a != b);
    EXPECT_TRUE(natural_less(a, c) || !natural_less(a, b) || !natural_less(b, c));
  }
}

TEST(WorkerSpec, ChecksNamesAndCounts) {
  WorkerSpec spec;
  for (std::size_t i = 0; i < kMaxDevicesPerWorker; ++i) {
    spec.devices.push_back({std::to_string(i), "", 1});
  }
  check_worker(spec);
  spec.devices.back().name = "0";
  EXPECT_THROW(check_worker(spec), Error);
  spec.devices.back().name = "63";
  spec.devices.push_back({"64", "", 1});
  EXPECT_THROW(check_worker(spec), Error);
  EXPECT_THROW(check_worker({.name = std::string(kMaxWorkerTextBytes + 1, 'x')}), Error);
}

}  // namespace
}  // namespace harmonics::inline in_cluster
