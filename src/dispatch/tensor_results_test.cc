// Tensors in, tensors out: loading along an axis, unbatched entries, values and derivatives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include <harmonics/dispatch/adaptive_scheduler.h>
#include <harmonics/dispatch/static_hybrid_scheduler.h>
#include <harmonics/dispatch/tensor_results.h>

#include "scheduler_testing.h"
#include "tensor_axis.h"

namespace harmonics::inline in_dispatch {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor counting(Shape shape, float start = 0) {
  Tensor tensor = Tensor::empty(std::move(shape));
  const std::span<float> values = tensor.mutable_values<float>();
  std::iota(values.begin(), values.end(), start);
  return tensor;
}

bool same(const Tensor& a, const Tensor& b) {
  return a.spec() == b.spec() && std::ranges::equal(a.values<float>(), b.values<float>());
}

Tensor twice(const Tensor& tensor) {
  Tensor out = Tensor::empty(tensor.shape());
  std::ranges::transform(tensor.values<float>(), out.mutable_values<float>().begin(),
                         [](float x) { return 2 * x; });
  return out;
}

TEST(TensorLoader, WalksAlongAnAxis) {
  const Tensor tensor = counting({5, 100, 5, 2, 3});
  for (const int axis : {1, -4}) {
    TensorLoader loader(tensor, axis);
    EXPECT_EQ(loader.size(), 100U);
    EXPECT_EQ(loader.next(1)->value.shape(), (Shape{5, 1, 5, 2, 3}));
    const auto second = loader.next(2);
    EXPECT_EQ(second->value.shape(), (Shape{5, 2, 5, 2, 3}));
    // Block 1 of the first axis, row 1 of the second.
    EXPECT_EQ(second->value.values<float>()[60], 100 * 30 + 30);
    EXPECT_EQ(loader.next(1000)->count, 97U);
    EXPECT_FALSE(loader.has_more());
  }
  TensorLoader first(tensor);
  EXPECT_EQ(first.rows({1, 2}).buffer(), tensor.buffer())
      << "along the first axis nothing is copied";
}

TEST(TensorLoader, RefusesWhatCannotBeCut) {
  EXPECT_THAT(error_of([] { TensorLoader(counting({3}), 1); }), HasSubstr("along axis 1"));
  EXPECT_THAT(error_of([] { TensorLoader(counting({})); }), HasSubstr("along axis 0"));
  EXPECT_THAT(error_of([] { TensorLoader(counting({0, 3})); }), HasSubstr("{0, 3}"));
}

TEST(TensorMapLoader, EntriesOfLengthOnePassWhole) {
  TensorMapLoader loader({{"strain", counting({100, 6})},
                          {"temperature", counting({1, 1}, 7)},
                          {"gravity", counting({}, 9)}});
  EXPECT_EQ(loader.size(), 100U);
  const TensorMap piece = loader.next(23)->value;
  EXPECT_EQ(piece.at("strain").shape(), (Shape{23, 6}));
  EXPECT_EQ(piece.at("temperature").shape(), (Shape{1, 1}));
  EXPECT_EQ(piece.at("gravity").shape(), Shape{});
  EXPECT_THAT(error_of([] {
                TensorMapLoader({{"a", counting({4, 1})}, {"b", counting({5, 1})}});
              }),
              AllOf(HasSubstr("'b' has 5 rows"), HasSubstr("'a' has 4")));
  EXPECT_THAT(error_of([] { TensorMapLoader({}); }), HasSubstr("no tensors"));
  EXPECT_EQ(TensorMapLoader({{"a", counting({1, 3})}}).size(), 1U);
}

TEST(TensorResults, OneTensorAlongAnyAxisOnUnlikeDevices) {
  StaticHybridScheduler scheduler({"emulated:1e9,0#a", "emulated:1e8,0#b"}, {23, 17}, {55, 18},
                                  {1, 2});
  for (const int axis : {0, 1, 2, -1}) {
    const Tensor input = counting({100, 90, 80});
    TensorLoader loader(input, axis);
    TensorDispatcher dispatcher(
        scheduler,
        tensor_functions([](Tensor&& part, const WorkDevice&) { return twice(part); }, axis));
    EXPECT_TRUE(same(dispatcher.run(loader), twice(input))) << axis;
    loader.rewind(50);
    EXPECT_EQ(length_along(dispatcher.run(loader).shape(), axis), loader.size() - 50);
  }
}

TEST(TensorResults, AnOutputOfAnotherLengthIsAnError) {
  SimpleScheduler scheduler("cpu", 10);
  TensorLoader loader(counting({30, 2}));
  TensorDispatcher dispatcher(scheduler, tensor_functions([](Tensor&&, const WorkDevice&) {
                                return counting({7, 2});
                              }));
  EXPECT_THAT(error_of([&] { (void)dispatcher.run(loader); }),
              AllOf(HasSubstr("10 rows went in"), HasSubstr("{7, 2}")));
}

// y = 2x row by row, and an output that is the same for all rows.
TensorMap two_outputs(TensorMap&& inputs, const WorkDevice&) {
  return {{"y", twice(inputs.at("x"))}, {"scale", counting({1, 2}, 5)}};
}

TEST(ValueMaps, UnbatchedOutputsAreRepeated) {
  SimpleScheduler scheduler("cpu", 23, 55);
  const Tensor x = counting({100, 6});
  TensorMapLoader loader({{"x", x}, {"c", counting({1, 6})}});
  ValueDispatcher dispatcher(scheduler, value_functions(two_outputs));
  for (int round = 0; round < 2; ++round) {
    loader.rewind();
    const TensorMap result = dispatcher.run(loader);
    EXPECT_TRUE(same(result.at("y"), twice(x)));
    EXPECT_EQ(result.at("scale").shape(), (Shape{100, 2}));
    EXPECT_EQ(result.at("scale").values<float>()[199], 6);
  }
}

TEST(ValueMaps, WrongOutputsAreErrors) {
  SimpleScheduler scheduler("cpu", 10);
  TensorMapLoader loader({{"x", counting({30, 2})}});
  const auto error = [&](std::function<TensorMap(TensorMap&&, const WorkDevice&)> model) {
    ValueDispatcher dispatcher(scheduler, value_functions(std::move(model)));
    return error_of([&] { (void)dispatcher.run(loader); });
  };
  EXPECT_THAT(error([](TensorMap&&, const WorkDevice&) {
                return TensorMap{{"y", counting({1, 2})}};
              }),
              HasSubstr("at least one must be batched"));
  EXPECT_THAT(error([](TensorMap&&, const WorkDevice&) {
                return TensorMap{{"y", counting({10, 2})}, {"z", counting({9, 2})}};
              }),
              HasSubstr("output 'z'"));
  EXPECT_THAT(error([](TensorMap&&, const WorkDevice&) {
                return TensorMap{{"y", counting({10, 2})}, {"z", counting({})}};
              }),
              HasSubstr("no axis 0"));
  EXPECT_THAT(error([](TensorMap&&, const WorkDevice&) { return TensorMap{}; }),
              HasSubstr("no outputs"));
  EXPECT_THAT(error([n = 0](TensorMap&&, const WorkDevice&) mutable {
                return TensorMap{{format("y{}", n++), counting({10, 2})}};
              }),
              HasSubstr("other names"));
}

TEST(DerivativeMaps, BatchedBlocksAreJoinedAndOthersKeptOnce) {
  StaticHybridScheduler scheduler({"emulated:1e9,0#a", "emulated:1e9,0#b"}, {5, 7});
  const Tensor x = counting({13, 3});
  TensorMapLoader loader({{"x", x}});
  // d y / d x depends on the row; d y / d c is one block for all of them.
  DerivativeDispatcher dispatcher(
      scheduler, derivative_functions([](TensorMap&& inputs, const WorkDevice&) {
        const Tensor& rows = inputs.at("x");
        return ValuesAndDerivatives{
            {{"y", twice(rows)}},
            {{"y", {{"x", rows.reshaped({rows.shape()[0], 1, 3})}, {"c", counting({1, 4}, 8)}}}}};
      }));
  for (int round = 0; round < 2; ++round) {
    loader.rewind();
    const ValuesAndDerivatives result = dispatcher.run(loader);
    EXPECT_TRUE(same(result.values.at("y"), twice(x)));
    EXPECT_TRUE(same(result.derivatives.at("y").at("x"), x.reshaped({13, 1, 3})));
    EXPECT_TRUE(same(result.derivatives.at("y").at("c"), counting({1, 4}, 8)));
  }
}

TEST(DerivativeMaps, BlocksHaveOneShapeHoweverTheBatchIsCut) {
  const Tensor x = counting({5, 6});
  for (const std::size_t size : {1UL, 2UL, 5UL}) {
    SimpleScheduler scheduler("cpu", size);
    TensorMapLoader loader({{"x", x}, {"c", counting({1, 6})}});
    // One block by c for all rows, and one that differs from row to row.
    DerivativeDispatcher dispatcher(
        scheduler, derivative_functions([](TensorMap&& inputs, const WorkDevice&) {
          const Tensor& rows = inputs.at("x");
          const std::int64_t count = rows.shape()[0];
          return ValuesAndDerivatives{
              {{"y", twice(rows)}, {"z", rows}},
              {{"y", {{"x", rows.reshaped({count, 1, 6})}, {"c", counting({1, 1, 6})}}},
               {"z", {{"c", rows.reshaped({count, 6, 1})}}}}};
        }));
    const ValuesAndDerivatives result = dispatcher.run(loader);
    EXPECT_EQ(result.derivatives.at("y").at("c").shape(), (Shape{1, 1, 6})) << size;
    EXPECT_EQ(result.derivatives.at("y").at("x").shape(), (Shape{5, 1, 6})) << size;
    EXPECT_EQ(result.derivatives.at("z").at("c").shape(), (Shape{5, 6, 1})) << size;
  }
}

TEST(DerivativeMaps, SubBatchesOfOneRowAreJoined) {
  SimpleScheduler scheduler("cpu", 1);
  TensorMapLoader loader({{"x", counting({4, 1})}});
  DerivativeDispatcher dispatcher(
      scheduler, derivative_functions([](TensorMap&& inputs, const WorkDevice&) {
        return ValuesAndDerivatives{{{"y", inputs.at("x")}}, {{"y", {{"x", inputs.at("x")}}}}};
      }));
  EXPECT_TRUE(same(dispatcher.run(loader).derivatives.at("y").at("x"), counting({4, 1})));
}

TEST(TensorResults, AreTheSameThroughFailures) {
  AdaptiveScheduler scheduler(std::vector<std::string>{"emulated:1e6,0#a", "emulated:1e5,0#b"});
  const Tensor x = counting({3000, 4});
  TensorLoader loader(x);
  TensorDispatcher dispatcher(scheduler,
                              tensor_functions([](Tensor&& part, const WorkDevice& device) {
                                if (device.name.back() == 'a' && part.shape()[0] > 100) {
                                  throw std::bad_alloc();
                                }
                                return twice(part);
                              }),
                              {.timeline = std::make_shared<SimulatedTimeline>()});
  EXPECT_TRUE(same(dispatcher.run(loader), twice(x)));
}

}  // namespace
}  // namespace harmonics::inline in_dispatch
