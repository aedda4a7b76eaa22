#include <harmonics/plan/generation.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <harmonics/plan/plan_file.h>

#include "problem_testing.h"

namespace harmonics::inline in_plan {
namespace {

struct Mix {
  bool tight_memory = false;
  bool links = false;
};

// Small whole numbers, as in problem_testing.h.
PlanInputs random_inputs(Random& random, const Mix& mix) {
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most - least + 1)));
  };
  PlanInputs inputs;
  ModelProfile& model = inputs.models["m-generation"];
  const std::int64_t layers = pick(1, 6);
  model.parameters_in = 2;
  for (std::int64_t k = 0; k < layers; ++k) {
    model.memory_mb.push_back(static_cast<double>(pick(1, 8)));
    model.parameters_out.push_back(pick(1, 8) * 1024);
    model.cache_bytes.push_back(pick(0, 4) * 1024);
  }
  std::int64_t hosts = pick(1, 4);
  for (std::int64_t u = 0; hosts > 0; ++u) {
    const std::string type = format("t{}", u);
    DeviceTypeProfile& profile = inputs.types[type];
    profile.bandwidth_mbps = static_cast<double>(pick(1, 64));
    profile.memory_mb = mix.tight_memory ? static_cast<double>(pick(8, 40)) : 1000;
    for (const std::int64_t sequences : {1, 4}) {
      for (const std::int64_t context : {0, 64}) {
        TokenTimes times{sequences, 1, context, {}};
        for (std::int64_t k = 0; k < layers; ++k) {
          times.time_s.push_back(static_cast<double>(pick(1, 9) * (sequences + 4)) / 4096);
        }
        profile.generation["m-generation"].push_back(times);
      }
    }
    TokenTimes chunk{1, 32, 16, {}};
    for (std::int64_t k = 0; k < layers; ++k) {
      chunk.time_s.push_back(static_cast<double>(pick(1, 40)) / 1024);
    }
    profile.generation["m-generation"].push_back(chunk);
    for (std::int64_t count = pick(1, 2); count > 0 && hosts > 0; --count, --hosts) {
      inputs.hosts[type].push_back(format("h{}", hosts));
    }
  }
  if (!mix.links) return inputs;
  for (std::int64_t a = 1; a <= 4; ++a) {
    for (std::int64_t b = 1; b < a; ++b) {
      inputs.links.rules.push_back({format("h{}", a), format("h{}", b),
                                    static_cast<double>(pick(1, 32)),
                                    static_cast<double>(pick(0, 3) * 16)});
    }
  }
  return inputs;
}

GenerationWish random_request(Random& random) {
  GenerationWish wish;
  wish.hosts.model = "m";
  wish.context = 16 + static_cast<std::int64_t>(random.below(300));
  wish.sequences = 1 + static_cast<std::int64_t>(random.below(9));
  wish.chunk = 8 + static_cast<std::int64_t>(random.below(64));
  return wish;
}

// By trying every plan with every number of steps in flight.
struct Naive {
  const GenerationModel& model;

  void for_each(bool prompt, const std::function<void(const Placement&)>& visit) const {
    const PlanProblem problem = prompt ? model.prefill_step(true) : model.decode_step(1, true);
    for_each_plan({problem, {}}, false, [&](const Placement& plan, double) { visit(plan); });
  }
  double cycle_s(const Placement& plan, std::int64_t in_flight, std::int64_t share) const {
    const PlanProblem step = model.decode_step(share, true);
    const NaiveCosts costs{step, {}};
    if (!costs.valid(plan)) return std::numeric_limits<double>::infinity();
    return std::max(static_cast<double>(in_flight) * costs.period_s(plan), costs.latency_s(plan));
  }
  // A chunk begins when the one before has left the slowest stage, and when one has come back.
  double first_token_s(const Placement& plan, std::int64_t in_flight) const {
    const PlanProblem step = model.prefill_step(true);
    const NaiveCosts costs{step, {}};
    const double period = costs.period_s(plan), way = costs.latency_s(plan);
    std::vector<double> begins = {0};
    for (std::int64_t k = 1; k < model.chunks(); ++k) {
      double begin = begins.back() + period;
      if (k >= in_flight) {
        begin = std::max(begin, begins[static_cast<std::size_t>(k - in_flight)] + way);
      }
      begins.push_back(begin);
    }
    return begins.back() + way;
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> shares() const {
    std::vector<std::pair<std::int64_t, std::int64_t>> all;
    const std::int64_t sequences = model.wish().sequences;
    for (std::int64_t steps = 1; steps <= sequences; ++steps) {
      all.emplace_back(steps, (sequences + steps - 1) / steps);
    }
    return all;
  }
  double least(GenerationGoal goal, double longest = 0) const {
    double best = std::numeric_limits<double>::infinity();
    const bool prompt = goal == GenerationGoal::kFirstToken;
    for_each(prompt, [&](const Placement& plan) {
      if (prompt) {
        best = std::min(best, first_token_s(plan, std::min(model.chunks(), kMaxStepsInFlight)));
        return;
      }
      for (const auto& [in_flight, share] : shares()) {
        const double cycle = cycle_s(plan, in_flight, share);
        if (goal == GenerationGoal::kTokens) best = std::min(best, cycle);
        if (goal == GenerationGoal::kBoth && cycle <= longest * (1 + 1e-9)) {
          best = std::min(best, first_token_s(plan, in_flight));
        }
      }
    });
    return best;
  }
};

void compare(std::uint64_t seed, const Mix& mix) {
  SCOPED_TRACE(format("seed {}", seed));
  Random random(seed, "generation");
  const PlanInputs inputs = random_inputs(random, mix);
  const GenerationModel model(inputs, random_request(random));
  const Naive naive{model};
  double cycle = 0;
  for (const GenerationGoal goal :
       {GenerationGoal::kTokens, GenerationGoal::kFirstToken, GenerationGoal::kBoth}) {
    SCOPED_TRACE(generation_goal_name(goal));
    GenerationOptions options;
    options.goal = goal;
    const double want = naive.least(goal, cycle / (1 - options.tolerance));
    if (goal == GenerationGoal::kTokens) cycle = want;
    if (!std::isfinite(want)) {
      EXPECT_THROW((void)plan_generation(model, options), NoFeasiblePlan);
      continue;
    }
    const GenerationOutcome outcome = plan_generation(model, options);
    EXPECT_NEAR(outcome.value_s, want, want * 1e-6);
    EXPECT_TRUE(outcome.proven);
    EXPECT_LE(outcome.lower_bound_s, want * (1 + 1e-6));
    const GenerationFigures& figures = outcome.figures;
    EXPECT_NEAR(goal == GenerationGoal::kTokens ? figures.cycle_s : figures.first_token_s,
                outcome.value_s, outcome.value_s * 1e-9);
    // A plan that programs take.
    const GenerationReport report = make_generation_report(model, options, outcome);
    const PlanFile file = parse_plan_file(generation_to_json(report).dump(), "report");
    EXPECT_EQ(file.plan, report.plan);
    EXPECT_EQ(file.model, "m");
    EXPECT_EQ(static_cast<std::int64_t>(file.in_flight), figures.in_flight);
  }
}

TEST(Generation, EqualsTryingEverything) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) compare(seed, {});
}
TEST(Generation, EqualsTryingEverythingWithLittleMemory) {
  for (std::uint64_t seed = 100; seed <= 160; ++seed) compare(seed, {.tight_memory = true});
}
TEST(Generation, EqualsTryingEverythingOverUnlikeLinks) {
  for (std::uint64_t seed = 200; seed <= 260; ++seed) {
    compare(seed, {.tight_memory = seed % 2 == 0, .links = true});
  }
}

PlanInputs two_hosts() {
  PlanInputs inputs;
  inputs.models["m-generation"] = {{10, 10}, 2, {256, 1000}, {}, {1024, 1024}};
  DeviceTypeProfile& type = inputs.types["t"];
  type.bandwidth_mbps = 1024;
  type.memory_mb = 1000;
  type.generation["m-generation"] = {{1, 1, 0, {0.010, 0.010}},  {1, 1, 100, {0.012, 0.014}},
                                     {4, 1, 0, {0.016, 0.016}},  {4, 1, 100, {0.024, 0.032}},
                                     {1, 64, 0, {0.064, 0.064}}, {1, 64, 100, {0.080, 0.080}}};
  inputs.hosts["t"] = {"a", "b"};
  return inputs;
}

GenerationWish two_requests(std::int64_t sequences) {
  GenerationWish wish;
  wish.hosts.model = "m";
  wish.context = 100;
  wish.prompt = 100;
  wish.chunk = 64;
  wish.sequences = sequences;
  return wish;
}

TEST(Generation, TimesAreLinearBetweenWhatWasMeasured) {
  const GenerationModel model(two_hosts(), two_requests(2));
  // 100 tokens in the cache; a third of the way from one sequence to four.
  const PlanProblem step = model.decode_step(2, false);
  EXPECT_NEAR(step.classes[0].layer_time_s[0], 0.012 + (0.024 - 0.012) / 3, 1e-12);
  EXPECT_NEAR(step.classes[0].layer_time_s[1], 0.014 + (0.032 - 0.014) / 3, 1e-12);
  EXPECT_EQ(step.cut_bytes, (std::vector<double>{16, 2 * 256 * 4, 2 * 1000 * 4}));
  // Two chunks of 50 tokens behind 50: between a token alone (which decodes) and 64.
  const PlanProblem chunk = model.prefill_step(false);
  EXPECT_EQ(model.chunks(), 2);
  EXPECT_NEAR(chunk.classes[0].layer_time_s[0], 0.011 + (0.072 - 0.011) * 49 / 63, 1e-12);
  EXPECT_EQ(chunk.cut_bytes.back(), 1000 * 4);
  // 7 blocks of 16 tokens for each of two sequences.
  EXPECT_NEAR(step.layer_memory_mb[0], 10 + 2 * 112 * 1024 / 1048576.0, 1e-12);
  EXPECT_NEAR(model.cache_mb(2), 2 * 2 * 112 * 1024 / 1048576.0, 1e-12);
}

TEST(Generation, OneSequenceGainsNothingFromASecondHostAndTwoDo) {
  GenerationOptions options;
  const GenerationModel alone(two_hosts(), two_requests(1));
  EXPECT_EQ(plan_generation(alone, options).placement.size(), 1U);
  const GenerationModel both(two_hosts(), two_requests(8));
  const GenerationOutcome outcome = plan_generation(both, options);
  EXPECT_EQ(outcome.placement.size(), 2U);
  EXPECT_TRUE(outcome.proven);
  const GenerationReport report = make_generation_report(both, options, outcome);
  EXPECT_NE(generation_to_text(report).find("proven optimal"), std::string::npos);
  const std::vector<std::string> words = explain_generation(both, report);
  EXPECT_NE(words.front().find("binds"), std::string::npos);
  EXPECT_NE(words.back().find("With 16 sequences"), std::string::npos);
}

TEST(Generation, ALargeLatencyIsHiddenByMoreStepsInFlight) {
  PlanInputs inputs = two_hosts();
  inputs.types.at("t").memory_mb = 16;  // so that one host is not enough
  inputs.links.rules = {{"a", "b", 1024, 200}};
  const GenerationOutcome outcome =
      plan_generation(GenerationModel(inputs, two_requests(8)), GenerationOptions{});
  EXPECT_EQ(outcome.placement.size(), 2U);
  EXPECT_NEAR(outcome.figures.cycle_s, outcome.figures.way_s, 1e-12);
}

TEST(Generation, WithoutMemoryItSaysForHowManySequencesThereIsRoom) {
  PlanInputs inputs = two_hosts();
  inputs.types.at("t").memory_mb = 11;
  const GenerationModel model(inputs, two_requests(64));
  try {
    (void)plan_generation(model, {});
    FAIL() << "there is a plan";
  } catch (const NoFeasiblePlan& reason) {
    const std::int64_t room = most_sequences(inputs, two_requests(64), {});
    EXPECT_GT(room, 0);
    EXPECT_NE(std::string(reason.what()).find(format("there is room for {} such sequences", room)),
              std::string::npos)
        << reason.what();
    EXPECT_NO_THROW((void)plan_generation(GenerationModel(inputs, two_requests(room)), {}));
    EXPECT_THROW((void)plan_generation(GenerationModel(inputs, two_requests(room + 1)), {}),
                 NoFeasiblePlan);
  }
}

TEST(Generation, WhatWasNotMeasuredIsSaid) {
  PlanInputs inputs = two_hosts();
  GenerationWish other = two_requests(1);
  other.hosts.model = "other";
  EXPECT_THROW(GenerationModel(inputs, other), Error);
  inputs.types.at("t").generation.clear();
  EXPECT_THROW(GenerationModel(inputs, two_requests(1)), Error);
  inputs = two_hosts();
  inputs.links.machines["tower"] = {2, {"a", "b"}};
  EXPECT_THROW(GenerationModel(inputs, two_requests(1)), Error);
  GenerationWish beyond = two_requests(1);
  beyond.prompt = 101;
  EXPECT_THROW(GenerationModel(two_hosts(), beyond), Error);
}

TEST(Generation, TheFilesReadBackEqual) {
  const PlanInputs inputs = two_hosts();
  const ModelTable models = parse_models(models_to_yaml(inputs.models), "models.yml");
  EXPECT_EQ(models, inputs.models);
  EXPECT_EQ(parse_device_types(device_types_to_yaml(inputs.types), "types.yml", models),
            inputs.types);
  const auto broken = [&](std::string_view text) {
    EXPECT_THROW((void)parse_device_types(text, "types.yml", models), Error) << text;
  };
  const std::string head =
      "t:\n  bw_Mbps: 1\n  mem_MB: 1\n  model_profiles:\n  generation_profiles:\n"
      "    m-generation:\n";
  broken(head + "    - {sequences: 2, tokens: 2, context: 0, time_s: [1, 1]}\n");
  broken(head + "    - {sequences: 0, tokens: 1, context: 0, time_s: [1, 1]}\n");
  broken(head + "    - {sequences: 1, tokens: 1, context: 0, time_s: [1]}\n");
  broken(head + "    - {sequences: 1, tokens: 1, context: 0, time_s: [1, 1]}\n" +
         "    - {sequences: 1, tokens: 1, context: 0, time_s: [1, 1]}\n");
  EXPECT_THROW((void)parse_models("m: {layers: 2, mem_MB: [1, 1], parameters_in: 1, "
                                  "parameters_out: [1, 1], cache_bytes: [1]}\n",
                                  "models.yml"),
               Error);
}

}  // namespace
}  // namespace harmonics::inline in_plan
