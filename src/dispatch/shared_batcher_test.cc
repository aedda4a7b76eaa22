// One owner that computes for all: merging, errors, owners that leave or die.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include <harmonics/dispatch/shared_batcher.h>
#include <harmonics/dispatch/shared_scheduler.h>

#include <harmonics/share/batch_board.h>
#include "processes_testing.h"
#include "scheduler_testing.h"

namespace harmonics::inline in_dispatch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

SharedBatcherConfig small(const std::string& name) {
  return {.name = name,
          .input_row = {{3}, DType::kFloat32},
          .output_row = {{}, DType::kFloat32},
          .slot_rows = 8,
          .max_batch_rows = 64};
}

Tensor counting(std::int64_t rows, float start) {
  Tensor tensor = Tensor::empty({rows, 3});
  const std::span<float> values = tensor.mutable_values<float>();
  std::iota(values.begin(), values.end(), start);
  return tensor;
}

// The sum of each row; a row that begins with -1 is an error.
Tensor row_sums(Tensor&& rows) {
  Tensor out = Tensor::empty({rows.shape()[0]});
  const std::span<const float> in = rows.values<float>();
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows.shape()[0]); ++r) {
    if (in[3 * r] == -1) fail(ErrorCode::kOutOfRange, "a row of -1");
    out.mutable_values<float>()[r] = in[3 * r] + in[3 * r + 1] + in[3 * r + 2];
  }
  return out;
}

bool is_row_sums(const Tensor& out, const Tensor& in) {
  return std::ranges::equal(out.values<float>(), row_sums(Tensor(in)).values<float>());
}

struct Signs {
  std::atomic<int> ready, done;
  std::atomic<bool> go;
};

// --- processes first, while there is a single thread ---

TEST(SharedBatcherProcesses, ShareOneOwner) {
  const std::string name = unique_shared_name("batch");
  const SharedValue<Signs> signs;
  std::vector<Child> children;
  for (int c = 0; c < 3; ++c) {
    children.emplace_back([&, c] {
      SharedBatcher batcher(small(name), row_sums);
      ++signs->ready;
      await([&] { return signs->ready == 3; });
      for (int round = 0; round < 50; ++round) {
        const Tensor rows = counting(5 + c, static_cast<float>(100 * c + round));
        if (!is_row_sums(batcher.run(rows), rows)) fail(ErrorCode::kDataLoss, "wrong rows");
      }
      ++signs->done;
      await([&] { return signs->done == 3; });
      const SharedBatcherCounts counts = batcher.counts();
      if (counts.requests != 150 || counts.rows != 50 * (5 + 6 + 7)) {
        fail(ErrorCode::kDataLoss, "{} requests, {} rows", counts.requests, counts.rows);
      }
    });
  }
  for (Child& child : children) EXPECT_EQ(child.wait(), 0);
}

TEST(SharedBatcherProcesses, AnOwnerThatIsKilledIsReplacedAndItsRequestsAreComputedAgain) {
  const std::string name = unique_shared_name("owner");
  const SharedValue<Signs> signs;
  const Child owner([&] {
    const SharedBatcher batcher(small(name), [&](Tensor&&) -> Tensor {
      signs->ready = 2;
      for (;;) ::pause();
    });
    signs->ready = 1;
    for (;;) ::pause();
  });
  await([&] { return signs->ready == 1; });
  SharedBatcher batcher(small(name), row_sums);
  EXPECT_FALSE(batcher.owns());
  const Tensor rows = counting(20, 0);  // in three pieces
  std::jthread killer([&] {
    await([&] { return signs->ready == 2; });
    owner.kill();
  });
  EXPECT_TRUE(is_row_sums(batcher.run(rows), rows));
  EXPECT_TRUE(batcher.owns());
}

TEST(SharedBatcherProcesses, ARequesterThatIsKilledLeavesNothingBehind) {
  const std::string name = unique_shared_name("gone");
  const SharedValue<Signs> signs;
  SharedBatcherConfig config = small(name);
  std::vector<Child> children;
  for (int round = 0; round < 3; ++round) {
    children.emplace_back([&] {
      SharedBatcher batcher(config, row_sums);
      ++signs->ready;
      for (;;) (void)batcher.run(counting(8, 0));
    });
  }
  await([&] { return signs->ready == 3; });
  SharedBatcher batcher(config, row_sums);
  for (std::size_t c = 0; c < children.size(); ++c) {
    (void)batcher.run(counting(8, 0));
    children[c].kill();
  }
  // More requests than there are places, so that those of the dead must have come back.
  for (std::size_t k = 0; k < 2 * kBatchSlots; ++k) {
    const Tensor rows = counting(3, static_cast<float>(k));
    EXPECT_TRUE(is_row_sums(batcher.run(rows), rows));
  }
}

// --- one process, several threads ---

TEST(SharedBatcher, MergesWhatWaits) {
  std::atomic<int> calls = 0;
  std::atomic<bool> open = false;
  SharedBatcher batcher(small(unique_shared_name("merge")), [&](Tensor&& rows) {
    ++calls;
    open.wait(false);
    return row_sums(std::move(rows));
  });
  ASSERT_TRUE(batcher.owns());
  {
    std::vector<std::jthread> threads;
    threads.emplace_back([&] { (void)batcher.run(counting(4, 0)); });
    await([&] { return calls == 1; });  // the owner is busy with the first
    for (int t = 0; t < 6; ++t) {
      threads.emplace_back([&, t] {
        const Tensor rows = counting(4, static_cast<float>(t));
        EXPECT_TRUE(is_row_sums(batcher.run(rows), rows));
      });
    }
    await([&] { return batcher.counts().waiting == 6; });
    open = true;
    open.notify_all();
  }
  const SharedBatcherCounts counts = batcher.counts();
  EXPECT_EQ(counts.requests, 7U);
  EXPECT_EQ(counts.rows, 28U);
  EXPECT_EQ(counts.batches, 2U) << "the first alone, then all that had come meanwhile";
  EXPECT_EQ(counts.waiting, 0U);
}

TEST(SharedBatcher, AnErrorReachesOnlyWhoCausedIt) {
  SharedBatcher batcher(small(unique_shared_name("error")), row_sums);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 50; ++round) {
        Tensor rows = counting(4, static_cast<float>(t));
        if (t == 0) rows.mutable_values<float>()[3] = -1;
        if (t == 0) {
          EXPECT_EQ(error_of([&] { (void)batcher.run(rows); }), "out_of_range: a row of -1");
        } else {
          EXPECT_TRUE(is_row_sums(batcher.run(rows), rows));
        }
      }
    });
  }
}

TEST(SharedBatcher, AnotherTakesOverWhenTheOwnerLeaves) {
  const std::string name = unique_shared_name("leave");
  auto first = std::make_unique<SharedBatcher>(small(name), row_sums);
  SharedBatcher second(small(name), row_sums);
  EXPECT_TRUE(first->owns());
  EXPECT_FALSE(second.owns());
  first.reset();
  const Tensor rows = counting(5, 1);
  EXPECT_TRUE(is_row_sums(second.run(rows), rows));
  EXPECT_TRUE(second.owns());
}

TEST(SharedBatcher, WrongUseIsAnError) {
  const std::string name = unique_shared_name("use");
  SharedBatcher batcher(small(name), row_sums);
  EXPECT_THAT(error_of([&] {
                (void)batcher.run(Tensor::zeros({2, 4}));
              }),
              AllOf(HasSubstr("takes rows of float32 {3}"), HasSubstr("{2, 4}")));
  EXPECT_THAT(error_of([&] { (void)batcher.run(Tensor::zeros({0, 3})); }), HasSubstr("{0, 3}"));
  SharedBatcherConfig other = small(name);
  other.slot_rows = 9;
  EXPECT_THAT(error_of([&] { SharedBatcher(other, row_sums); }), HasSubstr("other settings"));
  other = small(unique_shared_name("huge"));
  other.slot_rows = std::size_t{1} << 40;
  EXPECT_THAT(error_of([&] { SharedBatcher(other, row_sums); }), HasSubstr("lower slot_rows"));
  SharedBatcher wrong(small(unique_shared_name("shape")),
                      [](Tensor&&) { return Tensor::zeros({1}); });
  EXPECT_THAT(error_of([&] { (void)wrong.run(counting(2, 0)); }), HasSubstr("work gave"));
  SharedBatcher broken(small(unique_shared_name("init")), row_sums,
                       [] { fail(ErrorCode::kUnavailable, "no driver"); });
  EXPECT_THAT(error_of([&] { (void)broken.run(counting(2, 0)); }), HasSubstr("no driver"));
}

TEST(SharedBatcher, ServesADispatcher) {
  const std::string name = unique_shared_name("through");
  SharedBatcher batcher(small(name), row_sums);
  SharedScheduler scheduler(
      {.name = name, .devices = {"cpu"}, .batch_sizes = {10}, .mode = SharedMode::kMerge});
  TensorDispatcher dispatcher(scheduler, merged_functions(batcher));
  const Tensor rows = counting(95, 2);
  TensorLoader loader(rows);
  EXPECT_TRUE(is_row_sums(dispatcher.run(loader), rows));
}

}  // namespace
}  // namespace harmonics::inline in_dispatch
