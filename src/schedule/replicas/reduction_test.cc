#include <harmonics/schedule/reduction.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <thread>

#include <harmonics/base/random.h>

#include "reduction_chunks.h"
#include "remote/remote_testing.h"

namespace harmonics::inline in_schedule {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Reduction kOrders[] = {Reduction::Chain, Reduction::Tree, Reduction::Ring};

ReductionOptions options_for(Reduction order, std::size_t chunk_bytes = 256) {
  ReductionOptions options;
  options.order = order;
  options.chunk_bytes = chunk_bytes;
  options.chunks_ahead = 3;
  options.first_contact = std::chrono::minutes(2);
  options.deadline = std::chrono::minutes(2);
  return options;
}

/// Values of very different sizes, so that another order of adding gives other bits.
NamedTensors values_of(std::size_t rank, std::uint64_t step) {
  NamedTensors made;
  Random random(100 * step + rank, "reduction");
  const auto fill = [&](const char* name, Shape shape) {
    Tensor tensor = Tensor::empty(std::move(shape));
    for (float& value : tensor.mutable_values<float>()) {
      value = static_cast<float>(random.normal() * (random.below(2) == 0 ? 1.0 : 1000.0));
    }
    made.emplace(name, tensor);
  };
  fill("bias", {7});
  fill("scalar", {});
  fill("weight", {33, 9});
  fill("empty", {0, 4});
  made.emplace("report", Tensor::of<double>({2}, {0.1 * static_cast<double>(rank + 1), 1.0}));
  return made;
}

/// How the ranks meet: inside this process, or at a place of this machine.
using Meeting = std::optional<RemoteTransport>;

std::vector<ReductionEnds> make_ends(const Meeting& meeting, Reduction order, std::size_t ranks) {
  if (!meeting) return make_bus_ends(order, ranks);
  RemoteBinding place;
  place.host = "127.0.0.1";
  place.port = reserved_port();
  place.transport = *meeting;
  std::vector<ReductionEnds> all;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    all.push_back(
        make_remote_ends(order, rank, std::vector<RemoteBinding>(ranks, place), "reduction"));
  }
  return all;
}

/// The sums that each rank computed, step by step.
std::vector<std::vector<NamedTensors>> reduce(std::vector<ReductionEnds> ends,
                                              const ReductionOptions& options,
                                              std::uint64_t steps = 3) {
  std::vector<std::vector<NamedTensors>> sums(ends.size());
  std::vector<std::function<void()>> actions;
  for (ReductionEnds& own : ends) {
    actions.push_back([&] {
      const std::size_t rank = own.rank;
      Reducer reducer(std::move(own), options);
      reducer.set_settings("seed 1");
      for (std::uint64_t step = 0; step < steps; ++step) {
        sums[rank].push_back(reducer.sum(values_of(rank, step), step));
      }
    });
  }
  EXPECT_THAT(at_the_same_time(actions), Each(""));
  return sums;
}

/// What one process gets that adds in the order of the ranks.
NamedTensors added_in_order(std::size_t ranks, std::uint64_t step) {
  NamedTensors sum = values_of(0, step);
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    for (const auto& [name, value] : values_of(rank, step)) {
      sum.at(name) = sum_of(sum.at(name), value);
    }
  }
  return sum;
}

class ReductionOver : public testing::TestWithParam<Meeting> {
 protected:
  void SetUp() override {
    if (GetParam() && !is_built(*GetParam())) GTEST_SKIP() << "this build lacks the transport";
  }
};

TEST_P(ReductionOver, EveryRankGetsTheSameBitsInEveryRun) {
  for (const Reduction order : kOrders) {
    for (std::size_t ranks = 1; ranks <= 5; ++ranks) {
      SCOPED_TRACE(format("{}, {} ranks", reduction_name(order), ranks));
      const auto sums = reduce(make_ends(GetParam(), order, ranks), options_for(order));
      const auto again = reduce(make_bus_ends(order, ranks), options_for(order));
      for (std::uint64_t step = 0; step < 3; ++step) {
        const std::string first = weights_digest(sums[0][step]);
        for (std::size_t rank = 0; rank < ranks; ++rank) {
          EXPECT_EQ(weights_digest(sums[rank][step]), first) << "rank " << rank;
        }
        EXPECT_EQ(weights_digest(again[0][step]), first);
        for (const auto& [name, expected] : added_in_order(ranks, step)) {
          const Tensor& got = sums[0][step].at(name);
          ASSERT_EQ(got.spec(), expected.spec());
          if (got.dtype() != DType::kFloat32) continue;
          for (std::int64_t i = 0; i < got.size(); ++i) {
            EXPECT_NEAR(got.values<float>()[i], expected.values<float>()[i], 0.01) << name;
          }
        }
      }
    }
  }
}

TEST_P(ReductionOver, AChainAddsInTheOrderOfTheRanks) {
  for (std::size_t ranks = 2; ranks <= 5; ++ranks) {
    const auto sums = reduce(make_ends(GetParam(), Reduction::Chain, ranks),
                             options_for(Reduction::Chain, 64 * ranks));
    for (std::uint64_t step = 0; step < 3; ++step) {
      EXPECT_EQ(weights_digest(sums[ranks - 1][step]), weights_digest(added_in_order(ranks, step)));
    }
  }
}

TEST_P(ReductionOver, ARankThatDiesIsAnErrorEverywhere) {
  for (const Reduction order : kOrders) {
    for (const std::size_t dying : {0, 2, 3}) {
      auto ends = make_ends(GetParam(), order, 4);
      ReductionOptions options = options_for(order);
      // Over a session that could heal, only the deadline tells a dead rank from a slow one.
      options.deadline = std::chrono::seconds(20);
      std::vector<std::function<void()>> actions;
      for (ReductionEnds& own : ends) {
        actions.push_back([&] {
          const std::size_t rank = own.rank;
          Reducer reducer(std::move(own), options);
          static_cast<void>(reducer.sum(values_of(rank, 0), 0));
          if (rank == dying) {
            reducer.abandon("killed by the test");
            return;
          }
          static_cast<void>(reducer.sum(values_of(rank, 1), 1));
        });
      }
      const auto errors = at_the_same_time(actions);
      for (std::size_t rank = 0; rank < 4; ++rank) {
        if (rank == dying) {
          EXPECT_EQ(errors[rank], "");
        } else {
          EXPECT_THAT(errors[rank], HasSubstr(format("step 2, rank {} of 4, with rank", rank)));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, ReductionOver,
                         testing::Values(Meeting{}, Meeting{RemoteTransport::TCP},
                                         Meeting{RemoteTransport::GRPC},
                                         Meeting{RemoteTransport::SharedMemory}),
                         [](const auto& info) {
                           return info.param ? std::string(transport_name(*info.param))
                                             : std::string("bus");
                         });

TEST(Reduction, TheSumsDoNotDependOnTheChunksOfAChain) {
  const auto small = reduce(make_bus_ends(Reduction::Chain, 3), options_for(Reduction::Chain, 64));
  const auto large =
      reduce(make_bus_ends(Reduction::Chain, 3), options_for(Reduction::Chain, 1 << 20));
  EXPECT_EQ(weights_digest(small[0][2]), weights_digest(large[1][2]));
}

// A window of one message: whoever sends must not wait for somebody who waits for him.
TEST(Reduction, NarrowWindowsDoNotBlock) {
  for (const Reduction order : {Reduction::Chain, Reduction::Tree, Reduction::Ring}) {
    RemoteBinding place;
    place.host = "127.0.0.1";
    place.port = reserved_port();
    TransportOptions narrow;
    narrow.window = {64, 1};
    ReductionOptions options = options_for(order, 64);
    options.chunks_ahead = 1;
    std::vector<ReductionEnds> ends;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      ends.push_back(
          make_remote_ends(order, rank, std::vector<RemoteBinding>(3, place), "narrow", narrow));
    }
    reduce(std::move(ends), options, 1);
  }
}

/// The errors of two ranks that give these tensors and settings.
std::vector<std::string> errors_of(const NamedTensors& a, const NamedTensors& b,
                                   const std::string& settings_of_b = "seed 1",
                                   std::uint64_t step_of_b = 0) {
  for (const Reduction order : kOrders) {
    auto ends = make_bus_ends(order, 2);
    const auto rank = [&](std::size_t number, const NamedTensors& own, const std::string& settings,
                          std::uint64_t step) {
      Reducer reducer(std::move(ends[number]), options_for(order));
      reducer.set_settings(settings);
      static_cast<void>(reducer.sum(own, step));
    };
    const auto errors = at_the_same_time(
        {[&] { rank(0, a, "seed 1", 0); }, [&] { rank(1, b, settings_of_b, step_of_b); }});
    EXPECT_THAT(errors, Each(Not("")));
    if (order == Reduction::Ring) return errors;
  }
  return {};
}

TEST(Reduction, RanksThatDoNotAgreeAreRefused) {
  const NamedTensors a = values_of(0, 0);
  NamedTensors b = a;
  b.at("bias") = Tensor::zeros({8});
  EXPECT_THAT(errors_of(a, b), Each(AnyOf(HasSubstr("other tensors"), HasSubstr("closed"))));
  b = a;
  b["another"] = Tensor::zeros({1});
  EXPECT_THAT(errors_of(a, b), Each(AnyOf(HasSubstr("other tensors"), HasSubstr("closed"))));
  EXPECT_THAT(errors_of(a, a, "seed 2"),
              Each(AnyOf(HasSubstr("'seed 2', this one with 'seed 1'"),
                         HasSubstr("'seed 1', this one with 'seed 2'"))));
  EXPECT_THAT(errors_of(a, a, "seed 1", 7), Each(HasSubstr("same checkpoint")));
}

TEST(Reduction, APeerThatNeverComesIsAnErrorThatNamesIt) {
  ReductionOptions options = options_for(Reduction::Tree);
  options.first_contact = std::chrono::milliseconds(50);
  auto ends = make_bus_ends(Reduction::Tree, 2);
  Reducer reducer(std::move(ends[0]), options);
  try {
    static_cast<void>(reducer.sum(values_of(0, 0), 0));
    FAIL() << "rank 1 was never made";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
    EXPECT_THAT(error.what(), HasSubstr("rank 0 of 2, with rank 1"));
  }
  try {
    static_cast<void>(reducer.sum(values_of(0, 0), 1));
    FAIL() << "it has stopped";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("has stopped"));
  }
}

TEST(Reduction, CeilingsAreReached) {
  EXPECT_THROW(static_cast<void>(reduction_peers(Reduction::Ring, 0, kMaxReductionRanks + 1)),
               Error);
  EXPECT_EQ(reduction_peers(Reduction::Ring, 0, kMaxReductionRanks).size(), 2);
  EXPECT_THROW(static_cast<void>(reduction_peers(Reduction::Tree, 2, 2)), Error);
  for (const auto& wrong : {options_for(Reduction::Tree, kMinReductionChunk - 1),
                            options_for(Reduction::Tree, kMaxReductionChunk + 1)}) {
    EXPECT_THROW(Reducer(ReductionEnds{}, wrong), Error);
  }
  EXPECT_THROW(Reducer(ReductionEnds{0, 2, {}}, options_for(Reduction::Tree)), Error);
  Reducer alone(ReductionEnds{}, options_for(Reduction::Tree));
  EXPECT_THROW(static_cast<void>(alone.sum({{"ids", Tensor::zeros({2}, DType::kInt64)}}, 0)),
               Error);
}

TEST(Reduction, NamesAreReadBack) {
  for (const Reduction order : kOrders) {
    EXPECT_EQ(reduction_from_name(reduction_name(order)), order);
  }
  EXPECT_THROW(static_cast<void>(reduction_from_name("star")), Error);
}

// Tensors that come in any order, from several threads, into memory that was used before.
TEST(Reduction, TensorsMayComeOneByOne) {
  for (const Reduction order : kOrders) {
    for (const std::size_t ranks : {1, 2, 3}) {
      SCOPED_TRACE(format("{}, {} ranks", reduction_name(order), ranks));
      const auto expected = reduce(make_bus_ends(order, ranks), options_for(order));
      auto ends = make_bus_ends(order, ranks);
      std::vector<std::vector<std::string>> digests(ranks);
      std::vector<std::function<void()>> actions;
      for (ReductionEnds& own : ends) {
        actions.push_back([&] {
          const std::size_t rank = own.rank;
          Reducer reducer(std::move(own), options_for(order));
          NamedTensors spare;
          for (std::uint64_t step = 0; step < 3; ++step) {
            const NamedTensors values = values_of(rank, step);
            ReductionLayout layout = layout_of(values);
            std::ranges::reverse(layout);
            reducer.begin(layout, step, spare);
            std::thread other([&] {
              reducer.give("weight", values.at("weight"));
              reducer.give("bias", values.at("bias"));
            });
            for (const char* name : {"report", "empty", "scalar"}) {
              reducer.give(name, values.at(name));
            }
            other.join();
            const NamedTensors sums = reducer.finish();
            digests[rank].push_back(weights_digest(sums));
            spare = values;
          }
        });
      }
      EXPECT_THAT(at_the_same_time(actions), Each(""));
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        for (std::size_t step = 0; step < 3; ++step) {
          EXPECT_EQ(digests[rank][step], weights_digest(expected[rank][step])) << step;
        }
      }
    }
  }
}

TEST(Reduction, WhatWasNotAnnouncedIsRefused) {
  Reducer alone(ReductionEnds{}, options_for(Reduction::Chain));
  const NamedTensors values = values_of(0, 0);
  alone.begin(layout_of(values), 0);
  EXPECT_THROW(alone.give("another", Tensor::zeros({1})), Error);
  EXPECT_THROW(alone.give("bias", Tensor::zeros({8})), Error);
  alone.give("bias", values.at("bias"));
  EXPECT_THROW(alone.give("bias", values.at("bias")), Error);
}

// Whoever breaks off a pass does not wait for the sums, and the others hear of it.
TEST(Reduction, APassThatIsBrokenOffIsAnErrorEverywhere) {
  auto ends = make_bus_ends(Reduction::Chain, 2);
  const NamedTensors values = values_of(0, 0);
  const auto errors =
      at_the_same_time({[&] {
                          Reducer reducer(std::move(ends[0]), options_for(Reduction::Chain));
                          reducer.begin(layout_of(values), 0);
                          reducer.give("bias", values.at("bias"));
                          reducer.abandon("the test gives up");
                        },
                        [&] {
                          Reducer reducer(std::move(ends[1]), options_for(Reduction::Chain));
                          static_cast<void>(reducer.sum(values, 0));
                        }});
  EXPECT_EQ(errors[0], "");
  EXPECT_THAT(errors[1], HasSubstr("rank 1 of 2, with rank 0"));
}

TEST(ReductionChunks, ALargeTensorLeavesByItself) {
  const ReductionLayout layout = {{"small", {{3}}}, {"large", {{40}}}, {"last", {{5}}}};
  ReductionChunks chunks(layout, 64, ChunkCut::kByTensor);  // 16 values
  EXPECT_FALSE(chunks.is_there(0));
  chunks.give("large", Tensor::zeros({40}));
  for (const std::size_t chunk : {0, 1, 2}) EXPECT_TRUE(chunks.is_there(chunk));
  EXPECT_EQ(chunks.count(), 4);
  chunks.give("small", Tensor::zeros({3}));
  EXPECT_FALSE(chunks.is_there(3));
  chunks.give("last", Tensor::zeros({5}));
  EXPECT_EQ(chunks.values(3).size(), 8);
}

TEST(ReductionChunks, CutAndStoredValuesAreTheSame) {
  const NamedTensors tensors = values_of(3, 9);
  for (const std::size_t bytes : {1, 8, 60, 500, 1 << 20}) {
    const ReductionChunks chunks(tensors, bytes);
    NamedTensors copy = empty_like(tensors);
    for (std::size_t i = 0; i < chunks.count(); ++i) {
      const Tensor values = chunks.values(i);
      EXPECT_EQ(values.spec(), chunks.spec(i));
      EXPECT_LE(values.byte_size(), std::max<std::size_t>(bytes, 8));
      chunks.store(i, values, copy);
    }
    EXPECT_EQ(weights_digest(copy), weights_digest(tensors));
  }
}

}  // namespace
}  // namespace harmonics::inline in_schedule
