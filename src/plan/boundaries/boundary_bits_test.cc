// The planner's choice of bits: only where a link binds, only within the tolerance, and only where
// packing costs less than it brings.
#include <harmonics/plan/boundary_bits.h>

#include <gtest/gtest.h>

#include <error_testing.h>

#include <harmonics/plan/plan_file.h>

namespace harmonics::inline in_plan {
namespace {

/// Four layers of 10 ms on hosts that are joined by `mbps`; every cut has 1 MB.
PlanProblem chain(double mbps, std::size_t hosts = 2, double layer_s = 0.010) {
  PlanProblem problem;
  problem.model = "chain";
  problem.dtype = "torch.float32";
  problem.batch_size = 8;
  problem.layer_memory_mb.assign(4, 600);
  problem.cut_bytes.assign(5, 1024 * 1024);
  HostClass board;
  board.type = "board";
  for (std::size_t i = 0; i < hosts; ++i) board.hosts.push_back("b" + std::to_string(i));
  board.bandwidth_mbps = mbps;
  board.memory_mb = 1300;  // two layers and their buffers
  board.layer_time_s.assign(4, layer_s);
  problem.classes.push_back(board);
  return problem;
}

DeviceTypeTable types(double packing_mbps) {
  DeviceTypeProfile board;
  board.packing_mbps = packing_mbps;
  return {{"board", board}};
}

PackedPlan chosen(const PlanProblem& problem, const BitsWish& wish, double packing_mbps = 0) {
  const PlannerOptions options;
  return choose_bits(problem, make_plan(problem, options), options, wish, types(packing_mbps));
}

constexpr BitsWish kAuto = {0, kDefaultBoundaryTolerance};

TEST(BoundaryBits, ErrorsAndTolerances) {
  EXPECT_EQ(fewest_bits(0), 32);
  EXPECT_EQ(fewest_bits(0.0038), 32);
  EXPECT_EQ(fewest_bits(0.003907), 16);
  EXPECT_EQ(fewest_bits(0.005), 8);
  EXPECT_EQ(fewest_bits(0.07), 8);
  EXPECT_EQ(fewest_bits(0.08), 4);
  EXPECT_EQ(parse_boundary_bits("auto"), 0);
  EXPECT_EQ(parse_boundary_bits("16"), 16);
  for (const char* text : {"", "0", "12", "-8", "8 ", "none"}) {
    expect_error(ErrorCode::kInvalidArgument, "neither auto nor",
                 [&] { static_cast<void>(parse_boundary_bits(text)); });
  }
}

TEST(BoundaryBits, ASlowLinkIsPackedAndAFastOneIsNot) {
  // 1 MB takes 80 ms over 100 Mbit/s and 20 ms packed, which is what two layers take.
  const PackedPlan slow = chosen(chain(100), kAuto);
  EXPECT_EQ(slow.bits, std::vector<int>{8});
  EXPECT_NEAR(slow.exact_period_s, 0.080, 1e-9);
  EXPECT_NEAR(slow.outcome.period_s, 0.020, 1e-9);
  const PackedPlan fast = chosen(chain(1000), kAuto);
  EXPECT_EQ(fast.bits, std::vector<int>{32});
  EXPECT_EQ(fast.outcome.period_s, fast.exact_period_s);
  EXPECT_TRUE(fast.outcome.proven);
}

TEST(BoundaryBits, NoMoreIsTakenThanHelps) {
  // Half of the bytes are enough at 200 Mbit/s: 40 ms exact, 20 ms with sixteen bits.
  EXPECT_EQ(chosen(chain(200), kAuto).bits, std::vector<int>{16});
  // With a wide tolerance four bits are allowed, and used where eight do not do.
  EXPECT_EQ(chosen(chain(100), {0, 0.1}).bits, std::vector<int>{8});
  EXPECT_EQ(chosen(chain(50), {0, 0.1}).bits, std::vector<int>{4});
  // Without tolerance nothing is packed.
  EXPECT_EQ(chosen(chain(50), {0, 0.001}).bits, std::vector<int>{32});
}

TEST(BoundaryBits, PackingThatCostsMoreThanItBringsIsLeftOut) {
  // 8 Mbit at 100 Mbit/s of packing are 80 ms a side.
  const PackedPlan dear = chosen(chain(100), kAuto, 100);
  EXPECT_EQ(dear.bits, std::vector<int>{32});
  EXPECT_EQ(dear.packing_s, (std::vector<double>{0, 0}));
  // At 8,000 Mbit/s it is 1 ms, which is paid and told.
  const PackedPlan cheap = chosen(chain(100), kAuto, 8000);
  EXPECT_EQ(cheap.bits, std::vector<int>{8});
  EXPECT_NEAR(cheap.packing_s[0], 0.001, 1e-9);
  EXPECT_NEAR(cheap.outcome.period_s, 0.021, 1e-9);
}

TEST(BoundaryBits, BitsThatAreAskedForAreDone) {
  const PackedPlan four = chosen(chain(1000), {4, 0});
  EXPECT_EQ(four.bits, std::vector<int>{4});
  EXPECT_EQ(chosen(chain(50), {32, 0}).bits, std::vector<int>{32});
  PlanProblem halves = chain(50);
  halves.dtype = "torch.bfloat16";
  // Sixteen bits are what these have: nothing is smaller then.
  const PackedPlan same = chosen(halves, {16, 0});
  EXPECT_EQ(same.outcome.period_s, same.exact_period_s);
}

TEST(BoundaryBits, ABetterPlacementMayNeedFewerBits) {
  // One strong host could do all alone; with packing, a second one pays.
  PlanProblem problem = chain(100);
  problem.classes[0].memory_mb = 4000;
  const PackedPlan plan = chosen(problem, kAuto);
  EXPECT_NEAR(plan.exact_period_s, 0.040, 1e-9);  // alone
  EXPECT_EQ(plan.outcome.placement.size(), 2u);
  EXPECT_EQ(plan.bits, std::vector<int>{8});
  EXPECT_NEAR(plan.outcome.period_s, 0.020, 1e-9);
}

TEST(BoundaryBits, TheReportSaysItAndARunReadsIt) {
  const PlanProblem problem = chain(100, 2);
  const PlannerOptions options;
  const PackedPlan packed = chosen(problem, kAuto, 8000);
  const Plan plan = name_hosts(problem, packed.outcome.placement);
  const PlanReport report = packed_report(packed, problem, options, plan);
  EXPECT_EQ(report.stages[0].boundary_bits, 8);
  EXPECT_EQ(report.stages[1].boundary_bits, 0);
  EXPECT_NEAR(report.stages[0].costs.send_s, 0.020, 1e-9);
  EXPECT_NEAR(report.stages[0].costs.compute_s, 0.021, 1e-9);
  EXPECT_NEAR(report.stages[0].costs.period_s, packed.outcome.period_s, 1e-12);
  // Buffers hold tensors as they are while they are packed.
  const PlanReport exact = make_report(problem, options, make_plan(problem, options),
                                       name_hosts(problem, make_plan(problem, options).placement));
  EXPECT_EQ(report.stages[0].costs.memory_bytes, exact.stages[0].costs.memory_bytes);

  const std::string text = report_to_json(report).dump();
  EXPECT_NE(text.find("\"exact_period_s\""), std::string::npos);
  EXPECT_EQ(parse_plan_file(text, "plan.json").boundary_bits, std::vector<int>{8});
  EXPECT_TRUE(parse_plan_file(report_to_json(exact).dump(), "plan.json").boundary_bits.empty());
  std::string wrong = text;
  wrong.replace(wrong.find("\"boundary_bits\":8"), 17, "\"boundary_bits\":7");
  expect_error(ErrorCode::kInvalidArgument, "'boundary_bits' of stage 1 is 7",
               [&] { static_cast<void>(parse_plan_file(wrong, "plan.json")); });
}

}  // namespace
}  // namespace harmonics::inline in_plan
