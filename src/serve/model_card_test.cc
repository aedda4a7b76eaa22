// Which requests fit a model, and what is said of those that do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/base/error.h>
#include <harmonics/serve/model_card.h>

namespace harmonics::inline in_serve {
namespace {

using ::testing::HasSubstr;

ModelCard card() {
  return {"net",
          {{"image", {{2, 3}, DType::kFloat32}}, {"ids", {{4}, DType::kInt64}, {{0, "T"}}, 10}},
          {{"out", {{5}, DType::kFloat32}}},
          {{"T", 4, 4}},
          8};
}

InferenceRequest request() {
  InferenceRequest made;
  made.inputs["image"] = Tensor::zeros({2, 2, 3});
  made.inputs["ids"] = Tensor::of<std::int64_t>({2, 3}, {0, 1, 2, 9, 9, 9});
  return made;
}

std::string refusal(const InferenceRequest& request) {
  try {
    static_cast<void>(check_request(card(), request));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "taken";
}

TEST(ModelCard, ARequestThatFitsHasItsRows) {
  EXPECT_EQ(check_request(card(), request()), 2);
  EXPECT_EQ(row_bytes(card()), 2 * 3 * 4 + 4 * 8);
}

TEST(ModelCard, WhatDoesNotFitIsNamed) {
  InferenceRequest wrong = request();
  wrong.inputs.erase("ids");
  EXPECT_THAT(refusal(wrong), HasSubstr("lacks input 'ids'"));
  wrong = request();
  wrong.inputs["more"] = Tensor::zeros({2, 1});
  EXPECT_THAT(refusal(wrong), HasSubstr("no input 'more'"));
  wrong = request();
  wrong.outputs = {"prediction"};
  EXPECT_THAT(refusal(wrong), HasSubstr("no output 'prediction'; it gives: out"));
  wrong = request();
  wrong.inputs["image"] = Tensor::zeros({2, 3, 2});
  EXPECT_THAT(refusal(wrong), HasSubstr("takes the shape [rows, 2, 3], the request has {2, 3, 2}"));
  wrong.inputs["image"] = Tensor::zeros({12});
  EXPECT_THAT(refusal(wrong), HasSubstr("takes the shape"));
  wrong.inputs["image"] = Tensor::zeros({2, 2, 3}, DType::kFloat64);
  EXPECT_THAT(refusal(wrong), HasSubstr("takes float32, the request has float64"));
  wrong.inputs["image"] = Tensor::zeros({9, 2, 3});
  EXPECT_THAT(refusal(wrong), HasSubstr("1 to 8 rows, this one has 9"));
  wrong.inputs["image"] = Tensor::zeros({0, 2, 3});
  EXPECT_THAT(refusal(wrong), HasSubstr("1 to 8 rows, this one has 0"));
  wrong.inputs["image"] = Tensor::zeros({3, 2, 3});
  EXPECT_THAT(refusal(wrong), HasSubstr("'image' has 3 rows, 'ids' has 2"));
  wrong = request();
  wrong.id = std::string(kMaxRequestId + 1, 'x');
  EXPECT_THAT(refusal(wrong), HasSubstr("at most 256 bytes"));
}

TEST(ModelCard, AxesAndIdsHaveTheirCeilings) {
  InferenceRequest wrong = request();
  wrong.inputs["ids"] = Tensor::zeros({2, 5}, DType::kInt64);
  EXPECT_THAT(refusal(wrong), HasSubstr("axis T goes from 1 to 4, the request has 5"));
  wrong.inputs["ids"] = Tensor::zeros({2, 0}, DType::kInt64);
  EXPECT_THAT(refusal(wrong), HasSubstr("axis T goes from 1 to 4"));
  wrong.inputs["ids"] = Tensor::of<std::int64_t>({2, 1}, {3, 10});
  EXPECT_THAT(refusal(wrong), HasSubstr("number 1 is 10, it must be from 0 to 9"));
  wrong.inputs["ids"] = Tensor::of<std::int64_t>({2, 1}, {3, -1});
  EXPECT_THAT(refusal(wrong), HasSubstr("number 1 is -1"));
}

}  // namespace
}  // namespace harmonics::inline in_serve
