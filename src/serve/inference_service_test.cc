// Requests in, batches through a stream, answers out.
#include <harmonics/serve/inference_service.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <list>

#include <harmonics/serve/service_producers.h>

#include "error_testing.h"
#include "twice_testing.h"

namespace harmonics::inline in_serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ServingTerms terms() {
  ServingTerms made;
  made.max_wait = Nanoseconds(0);
  made.queue_rows = 64;
  return made;
}

class Service : public ::testing::Test {
 protected:
  SteadyClock clock_;
};

TEST_F(Service, TriesPlacesFirstAndTakesNoRequestsUntilThen) {
  InferenceService service(twice_card(4), terms(), clock_);
  EXPECT_EQ(service.state(), ServiceState::kStarting);
  expect_error(ErrorCode::kUnavailable, "the service is starting",
               [&] { service.submit(twice_request(1), [](InferenceAnswer) {}); });
  start_by_hand(service);
  EXPECT_EQ(service.state(), ServiceState::kReady);
  EXPECT_THAT(service.batch_sizes(), ElementsAre(1, 2, 4));
  EXPECT_EQ(service.figures().batches, 0);
  EXPECT_EQ(service.figures().refused, 1);
}

TEST_F(Service, RequestsShareABatchThatIsFilledUp) {
  InferenceService service(twice_card(8), terms(), clock_);
  start_by_hand(service);
  Outcome first;
  Outcome second;
  service.submit(twice_request(1, 2), first.done());
  service.submit(twice_request(10, 3), second.done());
  const FormedBatchPtr batch = service.fetch(service.delivered(), {});
  EXPECT_EQ(batch->rows, 8);
  EXPECT_THAT(batch->inputs.at("x").values<float>(),
              ElementsAre(1, 2, 3, 4, 10, 11, 12, 13, 14, 15, 0, 0, 0, 0, 0, 0));
  service.deliver(batch->number, doubled(*batch));
  EXPECT_THAT(first.wait()->outputs.at("y").values<float>(), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(second.wait()->outputs.at("y").values<float>(), ElementsAre(20, 22, 24, 26, 28, 30));
  EXPECT_EQ(first.count(), 1U);
  const ServiceFigures figures = service.figures();
  EXPECT_EQ(figures.answered, 2);
  EXPECT_EQ(figures.rows, 5);
  EXPECT_EQ(figures.filling_rows, 3);
  EXPECT_EQ(figures.batches, 1);
}

TEST_F(Service, NoMoreBatchesAreUnderWayThanWereAskedFor) {
  ServingTerms wanted = terms();
  wanted.in_flight = 1;
  InferenceService service(twice_card(1), wanted, clock_);
  start_by_hand(service);
  Outcome outcomes[2];
  service.submit(twice_request(1), outcomes[0].done());
  service.submit(twice_request(2), outcomes[1].done());
  const std::int64_t number = service.delivered();
  const FormedBatchPtr batch = service.fetch(number, {});
  EXPECT_EQ(service.fetch(number, {}), batch);
  std::stop_source stop;
  FormedBatchPtr next;
  std::jthread other([&] { next = service.fetch(number + 1, stop.get_token()); });
  EXPECT_EQ(service.figures().in_flight, 1);
  service.deliver(number, doubled(*batch));
  other.join();
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->number, number + 1);
}

TEST_F(Service, TooManyRowsAreRefusedAtOnce) {
  ServingTerms wanted = terms();
  wanted.queue_rows = 3;
  InferenceService service(twice_card(2), wanted, clock_);
  start_by_hand(service);
  Outcome outcomes[2];
  service.submit(twice_request(1, 2), outcomes[0].done());
  service.submit(twice_request(1, 1), outcomes[1].done());
  expect_error(ErrorCode::kResourceExhausted, "3 rows wait already, and there is room for 3",
               [&] { service.submit(twice_request(1), [](InferenceAnswer) {}); });
  EXPECT_EQ(service.figures().waiting_rows, 3);
}

TEST_F(Service, ADeadlineIsAnsweredInTheQueueAndUnderWay) {
  InferenceService service(twice_card(1), terms(), clock_);
  start_by_hand(service);
  Outcome under_way;
  Outcome waiting;
  InferenceRequest hasty = twice_request(1);
  hasty.timeout = std::chrono::milliseconds(20);
  service.submit(hasty, under_way.done());
  const FormedBatchPtr batch = service.fetch(service.delivered(), {});
  service.submit(hasty, waiting.done());
  for (Outcome* one : {&under_way, &waiting}) {
    const auto answer = one->wait();
    ASSERT_TRUE(answer && answer->error);
    EXPECT_EQ(answer->error->code(), ErrorCode::kDeadlineExceeded);
  }
  service.deliver(batch->number, doubled(*batch));
  EXPECT_EQ(under_way.count(), 1U);
  EXPECT_EQ(service.figures().expired, 2);
  EXPECT_EQ(service.figures().waiting_rows, 0);
}

TEST_F(Service, WhatWasUnderWayWhenAStreamBrokeIsFetchedAgain) {
  InferenceService service(twice_card(2), terms(), clock_);
  start_by_hand(service);
  Outcome outcome;
  service.submit(twice_request(3), outcome.done());
  const std::int64_t number = service.delivered();
  const FormedBatchPtr batch = service.fetch(number, {});
  service.note_break("a part died");
  EXPECT_EQ(service.state(), ServiceState::kRecovering);
  EXPECT_EQ(outcome.count(), 0U);
  EXPECT_EQ(service.fetch(number, {}), batch);
  service.deliver(number, doubled(*batch));
  EXPECT_EQ(service.state(), ServiceState::kReady);
  EXPECT_THAT(outcome.wait()->outputs.at("y").values<float>(), ElementsAre(6, 8));
}

TEST_F(Service, ARequestThatBreaksEveryStreamIsRefusedAndTheRestGoesOn) {
  InferenceService service(twice_card(1), terms(), clock_);
  start_by_hand(service);
  Outcome outcome;
  service.submit(twice_request(3), outcome.done());
  const std::int64_t number = service.delivered();
  static_cast<void>(service.fetch(number, {}));
  for (int i = 0; i < 3; ++i) service.note_break("the request is poison");
  const auto answer = outcome.wait();
  ASSERT_TRUE(answer && answer->error);
  EXPECT_EQ(answer->error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(answer->error->what(), HasSubstr("broke 3 times"));
  const FormedBatchPtr instead = service.fetch(number, {});
  EXPECT_THAT(instead->inputs.at("x").values<float>(), ElementsAre(0, 0));
  service.deliver(number, doubled(*instead));
  EXPECT_EQ(service.state(), ServiceState::kReady);
}

TEST_F(Service, DrainingFinishesWhatWaitsAndTakesNothingElse) {
  InferenceService service(twice_card(1), terms(), clock_);
  start_by_hand(service);
  std::deque<Outcome> outcomes(5);
  for (Outcome& one : outcomes) service.submit(twice_request(1), one.done());
  service.drain();
  expect_error(ErrorCode::kUnavailable, "draining",
               [&] { service.submit(twice_request(1), [](InferenceAnswer) {}); });
  std::int64_t number = service.delivered();
  while (const FormedBatchPtr batch = service.fetch(number, {})) {
    service.deliver(number++, doubled(*batch));
  }
  for (Outcome& one : outcomes) {
    const auto answer = one.wait();
    EXPECT_TRUE(answer && !answer->error);
  }
}

TEST_F(Service, TheEndAnswersWhoeverStillWaits) {
  Outcome outcome;
  {
    InferenceService service(twice_card(1), terms(), clock_);
    start_by_hand(service);
    service.submit(twice_request(1), outcome.done());
  }
  const auto answer = outcome.wait();
  ASSERT_TRUE(answer && answer->error);
  EXPECT_EQ(answer->error->code(), ErrorCode::kUnavailable);
}

TEST_F(Service, AnEmptyBatchGoesThroughWhenNobodyAsks) {
  ServingTerms wanted = terms();
  wanted.idle = std::chrono::milliseconds(5);
  InferenceService service(twice_card(4), wanted, clock_);
  start_by_hand(service);
  const std::int64_t number = service.delivered();
  const FormedBatchPtr batch = service.fetch(number, {});
  EXPECT_EQ(batch->rows, 1);
  service.deliver(number, doubled(*batch));
  EXPECT_EQ(service.figures().batches, 0);
}

TEST_F(Service, ManyThreadsGetTheirOwnAnswers) {
  ServingTerms wanted = terms();
  wanted.max_wait = std::chrono::milliseconds(1);
  wanted.queue_rows = 1024;
  InferenceService service(twice_card(8), wanted, clock_);
  TwiceStream stream(service);
  while (service.state() != ServiceState::kReady) std::this_thread::yield();
  std::vector<std::jthread> clients;
  std::atomic<int> right = 0;
  for (int client = 0; client < 16; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; i < 50; ++i) {
        Outcome outcome;
        const auto value = static_cast<float>(client * 1000 + i * 10);
        service.submit(twice_request(value, 1 + i % 3), outcome.done());
        const auto answer = outcome.wait();
        if (answer && !answer->error && answer->outputs.at("y").values<float>()[0] == 2 * value) {
          ++right;
        }
      }
    });
  }
  clients.clear();
  EXPECT_EQ(right, 16 * 50);
  EXPECT_LT(service.figures().batches, 16 * 50);
}

TEST_F(Service, RequestsAreProducersOfAStream) {
  InferenceService service(twice_card(2), terms(), clock_);
  const std::vector<std::string> names = {"x"};
  const auto producers = service_producers(service, names);
  expect_error(ErrorCode::kNotFound, "no input 'z'", [&] {
    static_cast<void>(service_producers(service, std::vector<std::string>{"z"}));
  });
  Producer& x = *producers.at("x");
  EXPECT_TRUE(x.batched());
  EXPECT_EQ(x.size(), std::nullopt);
  EXPECT_EQ(x.sample_spec().shape, (Shape{2}));
  start_by_hand(service);
  x.skip(service.delivered());
  Outcome outcome;
  service.submit(twice_request(7), outcome.done());
  EXPECT_THAT(x.next()->values<float>(), ElementsAre(7, 8));
  service.drain();
  service.deliver(service.delivered(), {{"y", Tensor::zeros({1, 2})}});
  EXPECT_EQ(x.next(), std::nullopt);
}

TEST(ServiceFigures, ThePageCountsLatenciesInClasses) {
  ServiceFigures figures;
  figures.answered = 2;
  figures.note_latency(std::chrono::milliseconds(3));
  figures.note_latency(std::chrono::minutes(2));
  const std::string text = figures_text("net", figures);
  EXPECT_THAT(text,
              HasSubstr("harmonics_serve_requests_total{model=\"net\",outcome=\"answered\"} 2\n"));
  EXPECT_THAT(text,
              HasSubstr("harmonics_serve_latency_seconds_bucket{model=\"net\",le=\"0.002\"} 0\n"));
  EXPECT_THAT(text,
              HasSubstr("harmonics_serve_latency_seconds_bucket{model=\"net\",le=\"0.005\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("harmonics_serve_latency_seconds_bucket{model=\"net\",le=\"+Inf\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("harmonics_serve_latency_seconds_count{model=\"net\"} 2\n"));
}

}  // namespace
}  // namespace harmonics::inline in_serve
