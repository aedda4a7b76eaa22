// Bodies of the protocol: what is read, what is refused and what is written.
#include "oip_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include <harmonics/base/json.h>
#include <harmonics/base/random.h>

#include "error_testing.h"
#include "oip_types.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string bytes_text(std::initializer_list<float> values) {
  std::string text;
  for (const float value : values) {
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return text;
}

const char* const kPlain =
    R"({"id":"a7","inputs":[{"name":"x","shape":[2,2],"datatype":"FP32","data":[[1,2.5],[-3e-1,4]]},)"
    R"({"name":"ids","shape":[2,1],"datatype":"INT64","data":[5,6]}],)"
    R"("outputs":[{"name":"y","parameters":{"binary_data":true}},{"name":"z"}],)"
    R"("parameters":{"timeout":1500}})";

TEST(OipJson, ReadsNestedAndFlatNumbers) {
  const InferCall call = decode_infer_call(kPlain, std::nullopt);
  EXPECT_EQ(call.request.id, "a7");
  EXPECT_THAT(call.request.inputs.at("x").values<float>(), ElementsAre(1.0F, 2.5F, -0.3F, 4.0F));
  EXPECT_THAT(call.request.inputs.at("ids").values<std::int64_t>(), ElementsAre(5, 6));
  EXPECT_THAT(call.request.outputs, ElementsAre("y", "z"));
  EXPECT_TRUE(call.binary_by_output.at("y"));
  EXPECT_FALSE(call.binary_outputs);
  EXPECT_EQ(call.request.timeout, std::chrono::microseconds(1500));
}

TEST(OipJson, ReadsBytesBehindTheJson) {
  const std::string json =
      R"({"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}},)"
      R"({"name":"flag","shape":[2],"datatype":"BOOL","parameters":{"binary_data_size":2}}],)"
      R"("parameters":{"binary_data_output":true}})";
  const std::string body = json + bytes_text({0.5F, -1.0F}) + std::string("\2\0", 2);
  const InferCall call = decode_infer_call(body, json.size());
  EXPECT_THAT(call.request.inputs.at("x").values<float>(), ElementsAre(0.5F, -1.0F));
  EXPECT_THAT(call.request.inputs.at("flag").values<bool>(), ElementsAre(true, false));
  EXPECT_TRUE(call.binary_outputs);
}

TEST(OipJson, WhatIsBrokenIsNamed) {
  const auto refusal = [](const std::string& body, std::optional<std::size_t> json = {}) {
    return error_of([&] { static_cast<void>(decode_infer_call(body, json)); });
  };
  const auto input = [](const std::string& rest) {
    return R"({"inputs":[{"name":"x",)" + rest + "}]}";
  };
  EXPECT_THAT(refusal("hello"), HasSubstr("the request: not valid JSON at byte 0"));
  EXPECT_THAT(refusal("{}"), HasSubstr("inputs"));
  EXPECT_THAT(refusal("{}", 3), HasSubstr("says 3 bytes of JSON, the body has 2"));
  EXPECT_THAT(refusal(input(R"("shape":[1],"datatype":"FP31","data":[1])")),
              HasSubstr("datatype 'FP31'"));
  EXPECT_THAT(refusal(input(R"("shape":[1],"datatype":"FP32")")),
              HasSubstr("either data or binary_data_size"));
  EXPECT_THAT(refusal(input(R"("shape":[3],"datatype":"FP32","data":[1,2])")),
              HasSubstr("its shape takes 3 numbers, its data has 2"));
  EXPECT_THAT(refusal(input(R"("shape":[1],"datatype":"FP32","data":[1,2])")),
              HasSubstr("its shape takes 1 numbers, its data has 1 and more"));
  EXPECT_THAT(refusal(input(R"("shape":[-1],"datatype":"FP32","data":[1])")), HasSubstr("-1"));
  EXPECT_THAT(refusal(input(R"("shape":[],"datatype":"FP32","data":[1])")),
              HasSubstr("1 to 16 axes"));
  EXPECT_THAT(refusal(input(R"("shape":[1],"datatype":"INT8","data":[128])")),
              HasSubstr("number 0 does not fit"));
  EXPECT_THAT(refusal(input(R"("shape":[1],"datatype":"FP32","data":[1e39])")),
              HasSubstr("does not fit"));
  EXPECT_THAT(refusal(input(R"("shape":[1],"datatype":"FP16","data":[1])")),
              HasSubstr("travels as binary data"));
  EXPECT_THAT(refusal(input(R"("shape":[99999999999],"datatype":"FP32","data":[1])")),
              HasSubstr("its data has fewer"));
  EXPECT_THAT(
      refusal(input(R"("shape":[1],"datatype":"FP32","parameters":{"binary_data_size":4})")),
      HasSubstr("its binary_data_size is 4, 0 bytes are left"));
  const std::string binary =
      input(R"("shape":[1],"datatype":"FP32","parameters":{"binary_data_size":4})");
  EXPECT_THAT(refusal(binary + "abc", binary.size()), HasSubstr("3 bytes are left"));
  EXPECT_THAT(refusal(binary + "abcde", binary.size()),
              HasSubstr("1 bytes of the body belong to no"));
  EXPECT_THAT(refusal(R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]},)"
                      R"({"name":"x","shape":[1],"datatype":"FP32","data":[1]}]})"),
              HasSubstr("given twice"));
  EXPECT_THAT(
      refusal(input(R"("shape":[1],"datatype":"FP32","parameters":{"shared_memory_region":"r"})")),
      HasSubstr("shared memory is not offered"));
}

TEST(OipJson, WritesNumbersThatReadBackAsTheSameBits) {
  const ModelCard card{"net", {}, {{"y", {{4}, DType::kFloat32}}}, {}, 1};
  const Tensor y = Tensor::of<float>(
      {1, 4}, {0.1F, -1.17549435e-38F, 3.4028235e38F, std::nextafter(1.0F, 2.0F)});
  InferCall call;
  call.request.id = "q\"1";
  const InferBody text = encode_infer_answer(card, call, {{"y", y}});
  EXPECT_EQ(text.json_bytes, std::nullopt);
  const Json json = Json::parse(text.body, "answer");
  EXPECT_EQ(json.at("id").as_string(), "q\"1");
  EXPECT_EQ(json.at("model_name").as_string(), "net");
  const Json& output = json.at("outputs").as_array().at(0);
  EXPECT_EQ(output.at("datatype").as_string(), "FP32");
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(static_cast<float>(output.at("data").as_array().at(i).as_number()),
              y.values<float>()[i]);
  }
  call.binary_outputs = true;
  const InferBody binary = encode_infer_answer(card, call, {{"y", y}});
  ASSERT_TRUE(binary.json_bytes.has_value());
  EXPECT_EQ(binary.body.substr(*binary.json_bytes), text_of(y.bytes()));
  EXPECT_EQ(Json::parse(binary.body.substr(0, *binary.json_bytes), "answer")
                .at("outputs")
                .as_array()
                .at(0)
                .at("parameters")
                .at("binary_data_size")
                .as_integer(),
            16);
}

TEST(OipJson, WhatIsNotFiniteIsNull) {
  const ModelCard card{"net", {}, {{"y", {{1}, DType::kFloat32}}}, {}, 1};
  const float none = std::numeric_limits<float>::quiet_NaN();
  const InferBody body = encode_infer_answer(card, {}, {{"y", Tensor::of<float>({1, 1}, {none})}});
  EXPECT_THAT(body.body, HasSubstr("[null]"));
}

TEST(OipJson, MetadataNamesTensorsWithTheirOpenExtents) {
  const ModelCard card{"net",
                       {{"ids", {{128}, DType::kInt64}, {{0, "T"}}}},
                       {{"y", {{5}, DType::kFloat32}}},
                       {{"T", 128, 128}},
                       4};
  EXPECT_EQ(model_metadata_json(card),
            R"({"name":"net","versions":["1"],"platform":"harmonics",)"
            R"("inputs":[{"name":"ids","datatype":"INT64","shape":[-1,-1]}],)"
            R"("outputs":[{"name":"y","datatype":"FP32","shape":[-1,5]}]})");
  EXPECT_THAT(server_metadata_json(), HasSubstr(R"("extensions":["binary_tensor_data"])"));
}

// A fixed slice of what the fuzzer does, in every build.
TEST(OipJson, MutationsOfBodies) {
  const std::string binary =
      R"({"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}},)"
      R"({"name":"ids","shape":[1,1],"datatype":"INT64","data":[3]}]})";
  Random random(3, "oip fuzz");
  for (int i = 0; i < 20000; ++i) {
    const bool is_binary = random.below(2) == 0;
    std::string body = is_binary ? binary + bytes_text({1.0F, 2.0F}) : kPlain;
    std::uint32_t json = is_binary ? static_cast<std::uint32_t>(binary.size()) : 0;
    for (std::uint64_t n = random.below(4); n > 0; --n) {
      body[random.below(body.size())] = static_cast<char>(random.below(256));
    }
    if (random.below(8) == 0) body.resize(random.below(body.size() + 1));
    if (random.below(8) == 0) json = static_cast<std::uint32_t>(random.below(body.size() + 9));
    const std::string input = std::string(reinterpret_cast<const char*>(&json), sizeof json) + body;
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
}

}  // namespace
}  // namespace harmonics::inline in_serve
