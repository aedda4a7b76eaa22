#include <harmonics/schedule/token_generator.h>

#include <gtest/gtest.h>

#include <algorithm>

#include <harmonics/base/error.h>

#include "error_testing.h"
#include "small_model_testing.h"

namespace harmonics::inline in_schedule {
namespace {

/// What one request brought.
struct Heard {
  std::vector<GeneratedToken> tokens = {};
  std::optional<Ending> ending = {};
};

std::vector<std::int64_t> prompt_of(std::size_t number) {
  Random random(number, "prompt");
  std::vector<std::int64_t> ids(1 + random.below(60));
  for (std::int64_t& id : ids) id = static_cast<std::int64_t>(random.below(50));
  return ids;
}

GenerationRequest request_of(std::size_t number, Heard& heard) {
  GenerationRequest request;
  request.prompt = prompt_of(number);
  request.max_tokens = 5 + static_cast<std::int64_t>(number % 20);
  if (number % 2 == 1) request.sampling = {1.5, 0.95, 20, number};
  request.logprobs = true;
  request.on_token = [&heard](const GeneratedToken& token) {
    heard.tokens.push_back(token);
    return true;
  };
  request.on_end = [&heard](Ending ending) { heard.ending = ending; };
  return request;
}

void finish(Generator& generator) {
  for (int i = 0; i < 10'000 && !generator.idle(); ++i) generator.advance();
  ASSERT_TRUE(generator.idle());
}

class SmallModel {
 public:
  explicit SmallModel(std::size_t parts = 1, std::uint64_t cache = 1 << 20)
      : graph_(small_llama()),
        weights_(drawn_weights(graph_)),
        pipeline_(make_local_pipeline(graph_, weights_, {parts, cache, 1})) {}
  TokenPipeline& pipeline() { return *pipeline_; }

 private:
  HarmonicGraph graph_;
  WeightSource weights_;
  TokenPipelinePtr pipeline_;
};

Heard alone(std::size_t number) {
  SmallModel model;
  Generator generator(model.pipeline(), {});
  Heard heard;
  (void)generator.add(request_of(number, heard));
  finish(generator);
  return heard;
}

void expect_same(const Heard& one, const Heard& other) {
  ASSERT_EQ(one.tokens.size(), other.tokens.size());
  EXPECT_EQ(one.ending, other.ending);
  for (std::size_t i = 0; i < one.tokens.size(); ++i) {
    EXPECT_EQ(one.tokens[i].id, other.tokens[i].id);
    EXPECT_EQ(one.tokens[i].logprob, other.tokens[i].logprob);
  }
}

TEST(TokenGenerator, AnswersAsIfEachWereAlone) {
  constexpr std::size_t kRequests = 20;
  std::vector<Heard> want;
  for (std::size_t i = 0; i < kRequests; ++i) want.push_back(alone(i));
  struct Case {
    std::size_t parts, sequences;
    std::int64_t chunk;
  };
  for (const Case& each : {Case{1, 16, 128}, Case{2, 8, 16}, Case{3, 2, 7}, Case{1, 3, 1}}) {
    SmallModel model(each.parts);
    Generator generator(model.pipeline(),
                        {.max_sequences = each.sequences, .prefill_chunk = each.chunk});
    std::vector<Heard> heard(kRequests);
    for (std::size_t i = 0; i < kRequests; ++i) {
      (void)generator.add(request_of(i, heard[i]));
      if (i % 3 == 2) generator.advance();  // some come later
    }
    finish(generator);
    for (std::size_t i = 0; i < kRequests; ++i) expect_same(heard[i], want[i]);
    EXPECT_EQ(generator.figures().reserved_tokens, 0);
  }
}

TEST(TokenGenerator, WaitsForRoomInTheCache) {
  SmallModel model(1, 16 * 3 * 2 * 2 * 4 * 4 * 8);  // eight blocks
  ASSERT_EQ(model.pipeline().limits().most_tokens, 128);
  Generator generator(model.pipeline(), {});
  std::vector<Heard> heard(10);
  for (std::size_t i = 0; i < heard.size(); ++i) (void)generator.add(request_of(i, heard[i]));
  finish(generator);
  for (std::size_t i = 0; i < heard.size(); ++i) expect_same(heard[i], alone(i));
}

TEST(TokenGenerator, OwnersTakeTurns) {
  for (const std::size_t sequences : {1u, 2u}) {
    SmallModel model;
    Generator generator(model.pipeline(), {.max_sequences = sequences});
    std::vector<std::string> ended;
    std::vector<Heard> heard(12);
    const auto add = [&](std::size_t number, const std::string& owner) {
      GenerationRequest request = request_of(2, heard[number]);
      request.owner = owner;
      request.on_end = [&ended, owner](Ending) { ended.push_back(owner); };
      (void)generator.add(std::move(request));
    };
    for (std::size_t i = 0; i < 8; ++i) add(i, "many");
    generator.advance();  // some of these have begun
    add(8, "few");
    add(9, "few");
    add(10, "one");
    finish(generator);
    // Whoever asks for little waits for one round at most.
    const auto last = [&](const std::string& owner) {
      return ended.size() - 1 -
             static_cast<std::size_t>(std::find(ended.rbegin(), ended.rend(), owner) -
                                      ended.rbegin());
    };
    EXPECT_LE(last("one"), sequences + 2);
    EXPECT_LE(last("few"), sequences + 4);
    EXPECT_EQ(ended.size(), 11u);
  }
}

TEST(TokenGenerator, EndsAsItWasAsked) {
  SmallModel model;
  Generator generator(model.pipeline(), {});
  Heard plain = alone(0), heard;
  GenerationRequest request = request_of(0, heard);
  request.end_ids = {plain.tokens[2].id};
  (void)generator.add(std::move(request));
  finish(generator);
  EXPECT_EQ(heard.ending, Ending::kEndToken);
  EXPECT_LE(heard.tokens.size(), 2u);

  Heard full;
  request = request_of(0, full);
  request.max_tokens = 1000;
  (void)generator.add(std::move(request));
  finish(generator);
  EXPECT_EQ(full.ending, Ending::kFull);
  EXPECT_EQ(full.tokens.size() + prompt_of(0).size(), 200u);

  Heard enough;
  request = request_of(0, enough);
  request.on_token = [&](const GeneratedToken& token) {
    enough.tokens.push_back(token);
    return enough.tokens.size() < 3;
  };
  const auto id = generator.add(std::move(request));
  finish(generator);
  EXPECT_EQ(enough.ending, Ending::kEnough);
  EXPECT_EQ(enough.tokens.size(), 3u);
  generator.cancel(id);

  Heard cancelled;
  const auto other = generator.add(request_of(1, cancelled));
  generator.cancel(other);
  finish(generator);
  EXPECT_EQ(cancelled.ending, Ending::kEnough);
  EXPECT_TRUE(cancelled.tokens.empty());
}

TEST(TokenGenerator, RefusesWhatCannotBe) {
  SmallModel model(1, 1 << 16);
  Generator generator(model.pipeline(), {.max_waiting = 2});
  Heard heard;
  GenerationRequest request = request_of(0, heard);
  request.prompt.clear();
  expect_error(ErrorCode::kInvalidArgument, "a prompt of 0 tokens",
               [&] { (void)generator.add(request); });
  request.prompt.assign(200, 1);
  expect_error(ErrorCode::kOutOfRange, "200 tokens, the model takes 200",
               [&] { (void)generator.add(request); });
  request = request_of(0, heard);
  request.sampling.temperature = -1;
  expect_error(ErrorCode::kInvalidArgument, "temperature is -1",
               [&] { (void)generator.add(request); });
  (void)generator.add(request_of(0, heard));
  (void)generator.add(request_of(0, heard));
  expect_error(ErrorCode::kResourceExhausted, "2 requests wait already",
               [&] { (void)generator.add(request_of(0, heard)); });
}

/// Loses everything now and then.
class Unsteady final : public TokenPipeline {
 public:
  explicit Unsteady(SmallModel& model) : made_(&model) {}
  const TokenLimits& limits() const override { return made_->pipeline().limits(); }
  std::size_t depth() const override { return 1; }
  void submit(const TokenStep& step) override { current().submit(step); }
  Tensor receive() override {
    if (++calls_ % 7 == 0) fail(ErrorCode::kUnavailable, "a stage is gone");
    return current().receive();
  }
  void renew() override { fresh_ = std::make_unique<SmallModel>(); }

 private:
  TokenPipeline& current() { return fresh_ ? fresh_->pipeline() : made_->pipeline(); }
  SmallModel* made_;
  std::unique_ptr<SmallModel> fresh_;
  int calls_ = 0;
};

TEST(TokenGenerator, GoesOnWithTheSameTokensAfterALoss) {
  SmallModel model;
  Unsteady pipeline(model);
  Generator generator(pipeline, {});
  std::vector<Heard> heard(8);
  for (std::size_t i = 0; i < heard.size(); ++i) (void)generator.add(request_of(i, heard[i]));
  finish(generator);
  EXPECT_GE(generator.figures().renewals, 2u);
  EXPECT_GT(generator.figures().replayed_tokens, 0u);
  for (std::size_t i = 0; i < heard.size(); ++i) expect_same(heard[i], alone(i));
}

}  // namespace
}  // namespace harmonics::inline in_schedule
