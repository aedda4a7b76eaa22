#include <harmonics/place/profile.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/units.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/place/plan_partition.h>
#include <harmonics/place/profile_files.h>
#include <harmonics/plan/planner.h>
#include <harmonics/plan/request.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/runtime/opencl_devices.h>
#include <harmonics/runtime/stage.h>

#include <error_testing.h>
#include <temporary_folder_testing.h>

#include "profile_inputs.h"

namespace harmonics::inline in_place {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::SizeIs;

ProfileOptions quick() {
  ProfileOptions options;
  options.batch_size = 2;
  options.warmup = 0;
  options.repeats = 1;
  options.threads = 1;
  return options;
}

// Gives the times of a script, two looks per pass: its start and its end.
class ScriptedClock final : public Clock {
 public:
  explicit ScriptedClock(std::vector<int> seconds) : seconds_(std::move(seconds)) {}
  [[nodiscard]] Nanoseconds now() const override {
    if (started_) now_ += std::chrono::seconds(seconds_.at(next_++));
    started_ = !started_;
    return now_;
  }

 private:
  std::vector<int> seconds_;
  mutable std::size_t next_ = 0;
  mutable bool started_ = false;
  mutable Nanoseconds now_{};
};

HarmonicGraph two_layers() {
  return GraphBuilder("net")
      .producer("in", Shape{8})
      .layer("a", "linear", {{"out", std::int64_t{4}}}, {"in"}, "relu")
      .layer("b", "linear", {{"out", std::int64_t{3}}}, {"a"})
      .consumer("output", "b")
      .build();
}

TEST(Profile, WhatAPassWaitedForACoreIsNotCountedAndItIsMeasuredMoreOften) {
  ProfileOptions options = quick();
  options.repeats = 2;
  int looks = 0;
  options.waited = [&] { return std::chrono::seconds(++looks); };
  // One of four seconds in each of eight passes a unit.
  const GraphProfile busy =
      profile_graph(two_layers(), options, ScriptedClock(std::vector<int>(16, 4)));
  for (const UnitProfile& unit : busy.units) {
    EXPECT_DOUBLE_EQ(unit.time_s, 3);
    EXPECT_DOUBLE_EQ(unit.waited, 0.25);
  }
  EXPECT_DOUBLE_EQ(busy.waited(), 0.25);
  EXPECT_EQ(looks, 32);
  options.waited = [] { return Nanoseconds{}; };
  const GraphProfile calm =
      profile_graph(two_layers(), options, ScriptedClock(std::vector<int>(4, 4)));
  EXPECT_DOUBLE_EQ(calm.units[0].time_s, 4);
  EXPECT_EQ(calm.waited(), 0);
}

TEST(Profile, TellsHowFarPassesLieApart) {
  ProfileOptions options = quick();
  options.repeats = 4;
  const GraphProfile profile =
      profile_graph(two_layers(), options, ScriptedClock({10, 4, 6, 4, 5, 5, 5, 5}));
  EXPECT_DOUBLE_EQ(profile.units[0].time_s, 5);
  EXPECT_DOUBLE_EQ(profile.units[0].spread, 0.6);
  EXPECT_EQ(profile.units[1].spread, 0);
}

TEST(Profile, MeasuresBothEndsOfATieThatLearns) {
  const HarmonicGraph graph = parse_harp(R"(
    producer ids {6} int64; producer next {6} int64;
    layer embed embedding(rows=10, width=4); layer norm layer_norm;
    layer head linear(10, bias=false, tie=embed.weight);
    cycle { ids -> embed -> norm -> head; head <-(next_token)- next; })");
  for (const ProfileMode mode : {ProfileMode::kInference, ProfileMode::kTraining}) {
    ProfileOptions options = quick();
    options.mode = mode;
    const GraphProfile profile = profile_graph(graph, options, SteadyClock());
    EXPECT_THAT(profile.units, SizeIs(3));
    if (mode == ProfileMode::kInference) {
      EXPECT_TRUE(profile.model().tied_out.empty());
    } else {
      EXPECT_THAT(profile.model().tied_out, ElementsAre(40, 40, 0));
    }
  }
}

TEST(Profile, TakesTheMedianOfTheRepeats) {
  ProfileOptions options = quick();
  options.warmup = 3;  // never timed
  options.repeats = 3;
  const GraphProfile odd = profile_graph(two_layers(), options, ScriptedClock({5, 1, 9, 2, 2, 70}));
  EXPECT_THAT(odd.times().time_s, ElementsAre(5.0, 2.0));
  EXPECT_EQ(odd.total_s(), 7.0);
  options.repeats = 2;
  const GraphProfile even = profile_graph(two_layers(), options, ScriptedClock({5, 1, 2, 2}));
  EXPECT_THAT(even.times().time_s, ElementsAre(3.0, 2.0));
}

TEST(Profile, DescribesEachUnit) {
  const GraphProfile profile = profile_graph(two_layers(), quick(), SteadyClock());
  ASSERT_THAT(profile.units, SizeIs(2));
  EXPECT_EQ(profile.units[0].name, "a");
  EXPECT_THAT(profile.units[0].shapes_in, ElementsAre(Shape{8}));
  EXPECT_THAT(profile.units[0].shapes_out, ElementsAre(Shape{4}));
  EXPECT_THAT(profile.units[1].shapes_out, ElementsAre(Shape{3}));
  EXPECT_EQ(profile.units[1].parameters, 4 * 3 + 3);
  EXPECT_EQ(profile.units[0].memory.weights, (8 + 1) * 4 * 4);
  EXPECT_EQ(profile.units[0].memory.activations, 2 * (8 + 4 + 4) * 4);
  EXPECT_EQ(profile.parameters_in, 8);
  EXPECT_THAT(profile.parameters_out, ElementsAre(4, 3));
  EXPECT_THAT(profile.times().time_s, Each(Gt(0.0)));
}

TEST(Profile, ATensorThatLeavesForTwoUnitsIsOne) {
  const HarmonicGraph skip = GraphBuilder("net")
                                 .producer("in", Shape{8})
                                 .layer("a", "identity", {}, {"in"})
                                 .layer("b", "identity", {}, {"a"})
                                 .layer("sum", "add", {}, {"a", "b"})
                                 .consumer("output", "sum")
                                 .build();
  const GraphProfile profile = profile_graph(skip, quick(), SteadyClock());
  EXPECT_THAT(profile.units[0].shapes_out, ElementsAre(Shape{8}));
  EXPECT_THAT(profile.units[2].shapes_in, ElementsAre(Shape{8}, Shape{8}));
  EXPECT_THAT(profile.parameters_out, ElementsAre(8, 16, 8));
}

TEST(Profile, TellsHowFarItIs) {
  std::vector<std::string> seen;
  (void)profile_graph(two_layers(), quick(), SteadyClock(),
                      [&](std::size_t index, std::size_t units, const std::string& name) {
                        seen.push_back(format("{}/{} {}", index, units, name));
                      });
  EXPECT_THAT(seen, ElementsAre("0/2 a", "1/2 b", "2/2 "));
}

TEST(Profile, EveryNetworkOfTheZooThatIsSmallEnough) {
  for (const char* name : {"digits-mlp", "lenet", "lenet-digits", "transformer-small"}) {
    for (const ProfileMode mode : {ProfileMode::kInference, ProfileMode::kTraining}) {
      SCOPED_TRACE(name);
      ProfileOptions options = quick();
      options.mode = mode;
      const HarmonicGraph graph = zoo_graph(name);
      const GraphProfile profile = profile_graph(graph, options, SteadyClock());
      EXPECT_THAT(profile.units, SizeIs(graph_units(graph).size()));
      EXPECT_EQ(profile.parameters_out, crossing_elements(graph));
      EXPECT_THAT(profile.times().time_s, Each(Gt(0.0)));
      EXPECT_THAT(profile.model().memory_mb, Each(Gt(0.0)));
      // The target enters the last unit only where there is a loss to compute.
      EXPECT_THAT(profile.units.back().shapes_in, SizeIs(mode == ProfileMode::kTraining ? 2 : 1));
    }
  }
}

TEST(Profile, TrainingCountsWhatLibtorchKeeps) {
  ProfileOptions options = quick();
  options.batch_size = 16;
  options.mode = ProfileMode::kTraining;
  const GraphProfile one = profile_graph(zoo_graph("transformer-small"), options, SteadyClock());
  options.training.in_flight *= 2;
  const GraphProfile two = profile_graph(zoo_graph("transformer-small"), options, SteadyClock());
  options.mode = ProfileMode::kInference;
  const GraphProfile inference =
      profile_graph(zoo_graph("transformer-small"), options, SteadyClock());
  for (std::size_t i = 0; i < one.units.size(); ++i) {
    EXPECT_EQ(one.units[i].memory.weights, inference.units[i].memory.weights);
    EXPECT_GT(one.units[i].memory.total(), inference.units[i].memory.total());
    EXPECT_GT(two.units[i].memory.activations, one.units[i].memory.activations);
    EXPECT_EQ(one.units[i].memory.optimizer, 2 * one.units[i].memory.gradients);
  }
}

// Tensors of a pass that are large lie in blocks that malloc does not count.
TEST(Profile, LargeTensorsOfAPassCountAsWhatTheyAre) {
  constexpr std::int64_t kWidth = 512;
  constexpr std::int64_t kWeights = kWidth * kWidth * 4;
  const HarmonicGraph graph = parse_harp(R"(
    producer x {512}; producer y {512};
    layer first linear(512, bias=false); layer second linear(512, bias=false);
    cycle { x -(gelu)-> first -> second; second <-(mse)- y; })");
  ProfileOptions options = quick();
  options.batch_size = 256;
  options.mode = ProfileMode::kTraining;
  const GraphProfile profile = profile_graph(graph, options, SteadyClock());
  const std::int64_t output = options.batch_size * kWidth * 4;
  for (const UnitProfile& unit : profile.units) {
    EXPECT_EQ(unit.memory.weights, kWeights);
    // A gradient of the weights that is to be added, and what an update takes.
    EXPECT_GE(unit.memory.scratch, 2 * kWeights);
    EXPECT_LE(unit.memory.scratch, 2 * kWeights + 4 * output);
    EXPECT_GE(unit.memory.kept, output);
    EXPECT_LE(unit.memory.kept, 4 * output);
  }
  // GELU needs what it was given.
  EXPECT_GE(profile.units[0].memory.kept, 2 * output);
}

TEST(Profile, TheForwardPassIsPartOfTheTimeOfTraining) {
  ProfileOptions options = quick();
  const GraphProfile inference = profile_graph(two_layers(), options, SteadyClock());
  EXPECT_TRUE(inference.times().forward_s.empty());
  EXPECT_FALSE(inference.model().training.known());
  options.mode = ProfileMode::kTraining;
  options.repeats = 3;
  const GraphProfile training = profile_graph(zoo_graph("lenet-digits"), options, SteadyClock());
  const LayerTimes times = training.times();
  ASSERT_EQ(times.forward_s.size(), times.time_s.size());
  for (std::size_t i = 0; i < times.time_s.size(); ++i) {
    EXPECT_GT(times.forward_s[i], 0);
    EXPECT_LT(times.forward_s[i], times.time_s[i]);
  }
  const ModelProfile model = training.model();
  ASSERT_TRUE(model.training.known());
  for (std::size_t i = 0; i < model.layers(); ++i) {
    EXPECT_LT(model.training.fixed_mb[i] + model.training.kept_mb[i], model.memory_mb[i] + 1e-9);
  }
}

TEST(Profile, HalfPrecisionIsMeasuredToo) {
  ProfileOptions options = quick();
  options.dtype = "torch.bfloat16";
  const GraphProfile profile = profile_graph(zoo_graph("lenet-digits"), options, SteadyClock());
  EXPECT_EQ(profile.times().dtype, "torch.bfloat16");
  EXPECT_THAT(profile.times().time_s, Each(Gt(0.0)));
}

TEST(Profile, VitBaseHasThePublishedSizes) {
  ProfileOptions options = quick();
  options.batch_size = 1;
  const GraphProfile profile = profile_graph(zoo_graph("vit-base"), options, SteadyClock());
  const ModelProfile model = profile.model();
  EXPECT_EQ(model.layers(), 48u);
  EXPECT_EQ(model.parameters_in, 150528);
  std::vector<std::int64_t> published;
  for (int block = 0; block < 12; ++block) {
    for (const std::int64_t out : {302592, 302592, 756480, 151296}) published.push_back(out);
  }
  published.back() = 1000;
  EXPECT_EQ(model.parameters_out, published);
  EXPECT_THAT(profile.times().time_s, Each(Gt(0.0)));
}

TEST(Profile, WhatCannotBeMeasuredIsAnError) {
  const auto invalid = ErrorCode::kInvalidArgument;
  const auto refuse = [](const HarmonicGraph& graph, const ProfileOptions& options, ErrorCode code,
                         const std::string& text) {
    expect_error(code, text, [&] { (void)profile_graph(graph, options, SteadyClock()); });
  };
  ProfileOptions options = quick();
  options.batch_size = 0;
  refuse(two_layers(), options, invalid, "batch size is 0, it must lie in 1..1048576");
  options.batch_size = kMaxProfileBatch + 1;
  refuse(two_layers(), options, invalid, "batch size");
  options = quick();
  options.repeats = kMaxProfileRepeats + 1;
  refuse(two_layers(), options, invalid, "repeats is 10001");
  options = quick();
  options.warmup = -1;
  refuse(two_layers(), options, invalid, "warm-up");
  options = quick();
  options.training.in_flight = kMaxInFlight + 1;
  refuse(two_layers(), options, invalid, "micro-batches in flight");
  options = quick();
  options.training.optimizer_slots = kMaxOptimizerSlots + 1;
  refuse(two_layers(), options, invalid, "optimiser slots");
  options = quick();
  options.dtype = "torch.int8";
  refuse(two_layers(), options, invalid, "'torch.int8' cannot be measured");
  options = quick();
  options.mode = ProfileMode::kTraining;
  refuse(two_layers(), options, ErrorCode::kFailedPrecondition, "no training tap");
  options = quick();
  if (list_opencl_devices().empty()) {
    options.backend = Backend::FPGA;
    refuse(two_layers(), options,
           opencl_is_built() ? ErrorCode::kFailedPrecondition : ErrorCode::kUnimplemented,
           "OpenCL");
  }
  if (!cuda_available()) {
    options.backend = Backend::GPU;
    refuse(two_layers(), options, ErrorCode::kFailedPrecondition, "no GPU");
  }
  const HarmonicGraph empty =
      GraphBuilder("net").producer("in", Shape{2}).consumer("output", "in").build();
  refuse(empty, quick(), invalid, "no layers");
}

TEST(SyntheticInputs, IdsAreThoseThatTheirUsersAccept) {
  const HarmonicGraph graph = zoo_graph("transformer-small");
  EXPECT_GT(id_limit(graph, "tokens"), 1);
  EXPECT_GT(id_limit(graph, "targets"), 1);
  const NamedTensors inputs = synthetic_inputs(graph, 3, {});
  EXPECT_EQ(inputs.at("tokens").shape(), (Shape{3, 32}));
  for (const std::int64_t id : inputs.at("tokens").values<std::int64_t>()) {
    EXPECT_GE(id, 0);
    EXPECT_LT(id, id_limit(graph, "tokens"));
  }
  const HarmonicGraph counts = GraphBuilder("net")
                                   .producer("count", Shape{2}, DType::kInt64)
                                   .layer("same", "identity", {}, {"count"})
                                   .consumer("output", "same")
                                   .build();
  EXPECT_EQ(id_limit(counts, "count"), 1);
}

TEST(SyntheticInputs, OfAMaskAllRowsCount) {
  for (const DType dtype : {DType::kInt64, DType::kInt32, DType::kUInt8, DType::kBool}) {
    const HarmonicGraph graph =
        GraphBuilder("net")
            .producer("x", Shape{4, 8})
            .producer("mask", Shape{4}, dtype)
            .layer("look", "attention", {{"heads", std::int64_t{2}}, {"separate", std::int64_t{1}}},
                   {"x", "mask"})
            .layer("mean", "mean", {}, {"look", "mask"})
            .consumer("output", "mean")
            .build();
    const NamedTensors inputs = synthetic_inputs(graph, 3, {});
    const Tensor& mask = inputs.at("mask");
    const std::size_t width = mask.bytes().size() / 12;
    for (std::size_t row = 0; row < 12; ++row) {
      EXPECT_EQ(mask.bytes()[row * width], std::byte{1}) << "row " << row;
    }
    const NamedTensors outputs = Stage(graph, {})->infer(inputs);
    for (const float value : outputs.at("output").values<float>()) {
      EXPECT_TRUE(std::isfinite(value));
    }
  }
}

// Whole and in the parts of a plan, after a way through .harp text: the same bytes.
void expect_same_outputs(const HarmonicGraph& graph, const Plan& plan) {
  std::vector<HarmonicGraph> parts;
  for (const HarmonicGraph& part : partition_graph(graph, plan)) {
    parts.push_back(parse_harp(to_harp(part)));
  }
  ASSERT_EQ(parts.size(), plan.stages.size());
  RuntimeOptions options;
  options.threads = 1;
  const NamedTensors batch = synthetic_inputs(graph, 5, {});
  const NamedTensors expected = Stage(graph, options)->infer(batch);
  NamedTensors got;  // and what crosses between the parts
  for (const HarmonicGraph& part : parts) {
    NamedTensors inputs = got;
    inputs.insert(batch.begin(), batch.end());
    got.merge(Stage(part, options)->infer(inputs));
  }
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(got.contains(name)) << name;
    ASSERT_EQ(got.at(name).byte_size(), tensor.byte_size());
    EXPECT_EQ(std::memcmp(got.at(name).bytes().data(), tensor.bytes().data(), tensor.byte_size()),
              0)
        << name;
  }
}

// A real profile of this machine, and two types that are said to be slower.
TEST(ProfileToPlan, APlanFromARealProfileGivesTheSameOutputs) {
  for (const char* name : {"lenet-digits", "transformer-small"}) {
    SCOPED_TRACE(name);
    const HarmonicGraph graph = zoo_graph(name);
    const GraphProfile profile = profile_graph(graph, quick(), SteadyClock());
    ProfileTables tables;
    merge_profiles(tables, name, {"here", 10'000, 1'000}, std::vector{profile});
    for (const auto& [type, factor] : {std::pair("slow", 2.0), std::pair("slower", 5.0)}) {
      GraphProfile scaled = profile;
      for (UnitProfile& unit : scaled.units) unit.time_s *= factor;
      merge_profiles(tables, name, {type, 10'000, 1'000}, std::vector{scaled});
    }
    const PlanInputs inputs{tables.models,
                            tables.types,
                            {{"here", {"h0"}}, {"slow", {"s0", "s1"}}, {"slower", {"t0"}}},
                            {}};
    PlanRequest request;
    request.model = name;
    request.batch_size = profile.batch_size;
    const PlanProblem problem = make_problem(inputs, request);
    const PlanOutcome outcome = make_plan(problem, {});
    expect_same_outputs(graph, name_hosts(problem, outcome.placement));

    MeasuredCosts measured{tables.models,
                           tables.types,
                           name,
                           profile.dtype,
                           profile.batch_size,
                           {"slow", "here", "slower"},
                           {}};
    DeploymentDescriptor deploy;
    deploy.partitions.assign(3, {Backend::CPU});
    EXPECT_THAT(auto_partition(graph, deploy, measured), SizeIs(3));
    const std::size_t layers = profile.units.size();
    expect_same_outputs(graph,
                        Plan{{{{"s0"}, 1, 1}, {{"h0"}, 2, layers - 1}, {{"t0"}, layers, layers}}});
  }
}

// README_Profiler.md shows the lines in the middle.
TEST(ProfileToPlan, TheExampleOfTheReadme) {
  const TemporaryFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  write_text_file("net.harp", to_harp(two_layers()));
  {
    const HarmonicGraph graph = load_harp("net.harp");
    const GraphProfile profile = profile_graph(graph, {.batch_size = 8}, SteadyClock());

    ProfileTables tables = read_profile_tables({});
    merge_profiles(tables, "net", {"laptop", 1000, 8192}, std::vector{profile});
    write_profile_files({}, tables, results_to_yaml("net", std::vector{profile}));
  }
  write_text_file("devices.yml", "laptop: [desk]\n");
  const PlanInputs inputs = read_plan_inputs({});
  std::filesystem::current_path(before);
  const PlanProblem problem = make_problem(inputs, {.model = "net"});
  const Plan plan = name_hosts(problem, make_plan(problem, {}).placement);
  EXPECT_EQ(plan_to_yaml(plan), "- desk: [1, 2]\n");
}

}  // namespace
}  // namespace harmonics::inline in_place
