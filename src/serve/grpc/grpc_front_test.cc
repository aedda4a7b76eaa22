// The protocol's calls over gRPC.
#include <harmonics/serve/grpc_front.h>

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <open_inference.grpc.pb.h>

#include "twice_testing.h"

namespace harmonics::inline in_serve {
namespace {

using ::testing::HasSubstr;

class GrpcFrontTest : public ::testing::Test {
 protected:
  GrpcFrontTest() {
    while (service_.state() != ServiceState::kReady) std::this_thread::yield();
  }
  void open(const FrontAccess& access = {}) {
    front_ = make_grpc_front(service_, {"127.0.0.1", 0}, access);
    stub_ = inference::GRPCInferenceService::NewStub(grpc::CreateChannel(
        "127.0.0.1:" + std::to_string(front_->port()), grpc::InsecureChannelCredentials()));
  }
  static void prepare(grpc::ClientContext& context, const std::string& token = "") {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
  }
  static inference::ModelInferRequest request(bool raw) {
    inference::ModelInferRequest made;
    made.set_model_name("twice");
    made.set_id("9");
    auto& input = *made.add_inputs();
    input.set_name("x");
    input.set_datatype("FP32");
    input.add_shape(1);
    input.add_shape(2);
    const float numbers[] = {1.5F, -2.0F};
    if (raw) {
      made.add_raw_input_contents(numbers, sizeof numbers);
    } else {
      for (const float number : numbers) input.mutable_contents()->add_fp32_contents(number);
    }
    return made;
  }
  grpc::Status infer(const inference::ModelInferRequest& asked,
                     inference::ModelInferResponse& answer, const std::string& token = "") {
    grpc::ClientContext context;
    prepare(context, token);
    return stub_->ModelInfer(&context, asked, &answer);
  }

  SteadyClock clock_;
  static ServingTerms terms() {
    ServingTerms made;
    made.queue_rows = 8;
    return made;
  }
  InferenceService service_{twice_card(2), terms(), clock_};
  TwiceStream stream_{service_};
  std::unique_ptr<GrpcFront> front_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
};

TEST_F(GrpcFrontTest, AnswersRawAndTypedContents) {
  open();
  for (const bool raw : {true, false}) {
    inference::ModelInferResponse answer;
    const grpc::Status status = infer(request(raw), answer);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(answer.id(), "9");
    EXPECT_EQ(answer.outputs(0).name(), "y");
    EXPECT_EQ(answer.outputs(0).datatype(), "FP32");
    float numbers[2];
    ASSERT_EQ(answer.raw_output_contents(0).size(), sizeof numbers);
    std::memcpy(numbers, answer.raw_output_contents(0).data(), sizeof numbers);
    EXPECT_EQ(numbers[0], 3.0F);
    EXPECT_EQ(numbers[1], -4.0F);
  }
}

TEST_F(GrpcFrontTest, SaysWhatItServes) {
  open();
  grpc::ClientContext contexts[3];
  for (grpc::ClientContext& context : contexts) prepare(context);
  inference::ServerReadyResponse ready;
  ASSERT_TRUE(stub_->ServerReady(&contexts[0], {}, &ready).ok());
  EXPECT_TRUE(ready.ready());
  inference::ModelMetadataRequest asked;
  asked.set_name("twice");
  inference::ModelMetadataResponse metadata;
  ASSERT_TRUE(stub_->ModelMetadata(&contexts[1], asked, &metadata).ok());
  EXPECT_EQ(metadata.inputs(0).shape(0), -1);
  EXPECT_EQ(metadata.inputs(0).shape(1), 2);
  asked.set_name("other");
  const grpc::Status status = stub_->ModelMetadata(&contexts[2], asked, &metadata);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(GrpcFrontTest, BadRequestsAreSaidToBe) {
  open();
  inference::ModelInferResponse answer;
  inference::ModelInferRequest wrong = request(true);
  wrong.add_raw_input_contents("more");
  EXPECT_THAT(infer(wrong, answer).error_message(), HasSubstr("1 inputs and 2 raw contents"));
  wrong = request(true);
  wrong.set_raw_input_contents(0, "short");
  EXPECT_EQ(infer(wrong, answer).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  wrong = request(false);
  wrong.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  EXPECT_THAT(infer(wrong, answer).error_message(),
              HasSubstr("takes 2 numbers, its contents have 3"));
  wrong = request(false);
  wrong.mutable_inputs(0)->set_datatype("BYTES");
  EXPECT_THAT(infer(wrong, answer).error_message(), HasSubstr("datatype 'BYTES'"));
  wrong = request(false);
  wrong.mutable_inputs(0)->set_shape(0, std::int64_t{1} << 60);
  EXPECT_FALSE(infer(wrong, answer).ok());
}

TEST_F(GrpcFrontTest, ATokenIsNeededForAllButHealth) {
  open({"0123456789abcdef", "", "", ""});
  inference::ModelInferResponse answer;
  EXPECT_EQ(infer(request(true), answer).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(infer(request(true), answer, "wrong").error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_TRUE(infer(request(true), answer, "0123456789abcdef").ok());
  grpc::ClientContext context;
  prepare(context);
  inference::ServerLiveResponse live;
  EXPECT_TRUE(stub_->ServerLive(&context, {}, &live).ok());
}

TEST_F(GrpcFrontTest, TheDeadlineOfACallIsTheRequests) {
  open();
  stream_.hold();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  inference::ModelInferResponse answer;
  EXPECT_EQ(stub_->ModelInfer(&context, request(true), &answer).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  while (service_.figures().expired == 0) std::this_thread::yield();
  stream_.go();
}

}  // namespace
}  // namespace harmonics::inline in_serve
