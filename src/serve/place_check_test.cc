// Which batches give a row the bits that it has alone, tried on models that behave and others.
#include "place_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace harmonics::inline in_serve {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ModelCard card(std::int64_t rows) {
  return {"net", {{"x", {{3}, DType::kFloat32}}}, {{"y", {{1}, DType::kFloat32}}}, {}, rows};
}

/// What a row becomes in a batch of so many rows, at that place.
using Model = std::function<float(float sum, std::int64_t rows, std::int64_t place)>;

int expected_trials = 0;

std::vector<std::int64_t> sizes_of(const ModelCard& card, const Model& model) {
  PlaceCheck check(card);
  int tried = 0;
  while (check.has_next()) {
    EXPECT_FALSE(check.over());
    const TensorsByName inputs = check.next().value();
    const Tensor& x = inputs.at("x");
    const std::int64_t rows = x.shape()[0];
    Tensor y = Tensor::empty({rows, 1});
    for (std::int64_t place = 0; place < rows; ++place) {
      const auto values = x.values<float>().subspan(static_cast<std::size_t>(place) * 3, 3);
      y.mutable_values<float>()[static_cast<std::size_t>(place)] =
          model(values[0] + values[1] + values[2], rows, place);
    }
    check.take({{"y", y}});
    ++tried;
  }
  EXPECT_TRUE(check.over());
  EXPECT_EQ(check.next(), std::nullopt);
  EXPECT_EQ(tried, expected_trials);
  return check.sizes();
}

TEST(PlaceCheck, AModelThatDoesNotCareMayUseEverySize) {
  const Model same = [](float sum, auto, auto) { return sum; };
  expected_trials = 4 * PlaceCheck::kRoundsOfSmallModel;
  EXPECT_THAT(sizes_of(card(8), same), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(sizes_of(card(6), same), ElementsAre(1, 2, 4, 6));
  expected_trials = PlaceCheck::kRoundsOfSmallModel;
  EXPECT_THAT(sizes_of(card(1), same), ElementsAre(1));
}

TEST(PlaceCheck, ModelsThatTellMoreAreTriedLess) {
  const auto rounds = [](std::int64_t inputs, std::int64_t outputs) {
    const ModelCard card{"net", {{"x", {{inputs}}}}, {{"y", {{outputs}}}}, {}, 1};
    PlaceCheck check(card);
    std::int64_t count = 0;
    while (check.next()) ++count;
    return count;
  };
  EXPECT_EQ(rounds(10, 10), PlaceCheck::kRoundsOfSmallModel);
  EXPECT_EQ(rounds(PlaceCheck::kFewInputs, 10), PlaceCheck::kRoundsOfFewOutputs);
  EXPECT_EQ(rounds(10, PlaceCheck::kFewOutputs), PlaceCheck::kRounds);
}

// As matrix products of small networks do: few rows tell.
TEST(PlaceCheck, BitsThatDifferNowAndThenAreFound) {
  expected_trials = 4 * PlaceCheck::kRoundsOfSmallModel;
  EXPECT_THAT(sizes_of(card(8),
                       [](float sum, auto rows, auto) {
                         return rows < 4 && std::fmod(std::abs(sum), 0.1F) < 0.01F ? sum + 1 : sum;
                       }),
              ElementsAre(4, 8));
}

TEST(PlaceCheck, SizesThatGiveOtherBitsAreNotUsed) {
  expected_trials = 4 * PlaceCheck::kRoundsOfSmallModel;
  EXPECT_THAT(sizes_of(card(8), [](float sum, auto rows,
                                   auto) { return rows == 1 ? sum * (1.0F + 1e-6F) : sum; }),
              ElementsAre(2, 4, 8));
}

TEST(PlaceCheck, ASizeWhosePlacesMatterIsNotUsed) {
  expected_trials = 4 * PlaceCheck::kRoundsOfSmallModel;
  EXPECT_THAT(sizes_of(card(8),
                       [](float sum, auto rows, auto place) {
                         return rows == 8 && place == 7 ? sum * (1.0F + 1e-6F) : sum;
                       }),
              ElementsAre(1, 2, 4));
  EXPECT_THAT(sizes_of(card(8),
                       [](float sum, auto rows, auto place) {
                         return rows == 4 && place == 3 ? sum * (1.0F + 1e-6F) : sum;
                       }),
              ElementsAre(1, 2, 8));
}

TEST(PlaceCheck, PlacesThatAlwaysMatterMeanAlone) {
  expected_trials = 4 * PlaceCheck::kRoundsOfSmallModel;
  EXPECT_THAT(sizes_of(card(8), [](float sum, auto,
                                   auto place) { return place > 0 ? sum * (1.0F + 1e-6F) : sum; }),
              IsEmpty());
}

TEST(PlaceCheck, OpenAxesAreOnlyWarmedUp) {
  expected_trials = 1;
  ModelCard open = card(8);
  open.inputs[0].extents = {{0, "T"}};
  open.axes = {{"T", 3, 3}};
  EXPECT_THAT(sizes_of(open, [](float sum, auto, auto) { return sum; }), IsEmpty());
  const TensorsByName idle = PlaceCheck::idle_inputs(open, 2);
  EXPECT_EQ(idle.at("x").shape(), (Shape{2, 3}));
}

}  // namespace
}  // namespace harmonics::inline in_serve
