// How many micro-batches are chosen, on a clock that the test moves.
#include <harmonics/schedule/micro_batches.h>

#include <gtest/gtest.h>

#include <map>

#include <harmonics/base/error.h>

#include <error_testing.h>

namespace harmonics::inline in_schedule {
namespace {

class MovedClock final : public Clock {
 public:
  [[nodiscard]] Nanoseconds now() const override { return now_; }
  void move(double seconds) { now_ += Nanoseconds(static_cast<std::int64_t>(seconds * 1e9)); }

 private:
  Nanoseconds now_{};
};

/// A pipeline whose slowest part takes `fixed` for each micro-batch and `per_row` for each row.
struct Machine {
  std::int64_t parts = 2;
  std::int64_t rows = 256;
  double fixed = 0;
  double per_row = 1e-4;
  MovedClock clock = {};
  std::map<std::int64_t, int> steps = {};

  [[nodiscard]] double seconds(std::int64_t count) const {
    const auto p = static_cast<double>(parts);
    const auto m = static_cast<double>(count);
    const double pass = fixed + per_row * static_cast<double>(rows) / m / p;
    return count == 1 ? p * pass : (m + p - 1) * pass;
  }
  MicroBatchChoice choose(Nanoseconds most = std::chrono::seconds(1000)) {
    MicroBatchTrial trial{rows, parts, most, [this](std::int64_t count) {
                            // The first step of each number takes long.
                            clock.move(seconds(count) * (steps[count]++ == 0 ? 3 : 1));
                          }};
    return choose_micro_batches(trial, clock);
  }
};

TEST(MicroBatches, TheFastestIsChosen) {
  Machine free;
  EXPECT_EQ(free.choose().micro_batches, 16);
  Machine costly{.fixed = 0.002};
  const MicroBatchChoice choice = costly.choose();
  ASSERT_EQ(choice.tried.size(), 5u);
  for (const TriedMicroBatches& one : choice.tried) {
    EXPECT_GE(one.step_s * 1.05, costly.seconds(choice.micro_batches)) << one.micro_batches;
  }
  EXPECT_EQ(choice.micro_batches, 2);
  Machine cheap{.fixed = 0.0005};
  EXPECT_EQ(cheap.choose().micro_batches, 4);
}

TEST(MicroBatches, WhereTheyCostMoreThanTheyGainThereIsOne) {
  Machine costly{.fixed = 0.1};
  EXPECT_EQ(costly.choose().micro_batches, 1);
  // Less than five hundredths are not worth a change of bits.
  Machine even{.fixed = 0.006};
  ASSERT_LT(even.seconds(2), even.seconds(1));
  ASSERT_GT(even.seconds(2), 0.95 * even.seconds(1));
  EXPECT_EQ(even.choose().micro_batches, 1);
}

TEST(MicroBatches, NothingIsTriedWhereThereIsNoChoice) {
  Machine one{.parts = 1};
  EXPECT_EQ(one.choose().micro_batches, 1);
  EXPECT_TRUE(one.steps.empty());
  Machine row{.rows = 1};
  EXPECT_EQ(row.choose().micro_batches, 1);
  EXPECT_TRUE(row.steps.empty());
  Machine few{.rows = 3};
  EXPECT_LE(few.choose().tried.back().micro_batches, 2);
}

TEST(MicroBatches, NoStepBeginsWhenTheTimeIsOver) {
  Machine slow{.per_row = 1};
  const MicroBatchChoice choice = slow.choose(std::chrono::seconds(900));
  EXPECT_EQ(choice.tried.size(), 2u);
  int steps = 0;
  for (const auto& [count, made] : slow.steps) steps += made;
  EXPECT_EQ(steps, 2);
  Machine none{.per_row = 1};
  EXPECT_EQ(none.choose(std::chrono::seconds(0)).micro_batches, 1);
  EXPECT_TRUE(none.steps.empty());
}

TEST(MicroBatches, NumbersThatAreFarBehindDropOut) {
  Machine costly{.fixed = 0.1};
  static_cast<void>(costly.choose());
  EXPECT_EQ(costly.steps.at(1), kTimedSteps + 1);
  EXPECT_LE(costly.steps.at(16), 2);
}

TEST(MicroBatches, TheChoiceIsALine) {
  EXPECT_EQ(choice_text({4, {{1, 0.5}, {4, 0.25}}}, 256),
            "4 micro-batches of 64 rows: 1 makes 512 samples/s, 4 1024");
  EXPECT_EQ(choice_text({}, 32), "1 micro-batch of 32 rows");
  Machine broken;
  const MicroBatchTrial trial{8, 2, std::chrono::seconds(1), [](std::int64_t) {
                                fail(ErrorCode::kDataLoss, "the file is cut off");
                              }};
  expect_error(ErrorCode::kDataLoss, "cut off",
               [&] { static_cast<void>(choose_micro_batches(trial, broken.clock)); });
}

}  // namespace
}  // namespace harmonics::inline in_schedule
