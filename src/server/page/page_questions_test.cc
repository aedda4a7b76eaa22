#include "page_questions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harmonics::inline in_server {
namespace {

using ::testing::HasSubstr;

const Identity kAnn{.user = "ann", .may_submit = true};
const Identity kVic{.user = "vic", .may_view = true};
const Identity kRoot{.user = "root", .may_administer = true};

std::string refusal_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(PageArguments, AreDecoded) {
  const PageArguments arguments("id=12&name=a%20b%26c+d&empty=&flag");
  EXPECT_EQ(arguments.task(), TaskId{12});
  EXPECT_EQ(arguments.text("name"), "a b&c d");
  EXPECT_EQ(arguments.text("empty"), "");
  EXPECT_EQ(arguments.text("nowhere"), "");
  EXPECT_EQ(arguments.number("nowhere", 7, 10), 7U);
  EXPECT_THAT(refusal_of([&] { static_cast<void>(arguments.number("id", 0, 11)); }),
              HasSubstr("id: '12' is no number from 0 to 11"));
  EXPECT_THAT(refusal_of([] { static_cast<void>(PageArguments("a=%g1")); }), HasSubstr("%g1"));
  EXPECT_THAT(refusal_of([] { static_cast<void>(PageArguments("a=%1")); }), HasSubstr("%1"));
  EXPECT_THAT(refusal_of([] { static_cast<void>(PageArguments("").task()); }),
              HasSubstr("say which task"));
}

TEST(PageQuestions, ListsAreBounded) {
  const PageQuestion* tasks = find_question("/api/tasks");
  ASSERT_NE(tasks, nullptr);
  const ClientRequest request =
      tasks->ask(PageArguments("state=active,pending&worker=w&limit=5&from=9"), {"ann", false});
  const auto& query = std::get<ListTasksQuery>(request);
  EXPECT_EQ(query.states, (std::vector<std::string>{"active", "pending"}));
  EXPECT_EQ(query.limit, 5U);
  EXPECT_EQ(query.viewer.user, "ann");
  EXPECT_TRUE(query.newest_first);
  EXPECT_THROW(static_cast<void>(tasks->ask(PageArguments("limit=1001"), {"ann", false})), Error);
  EXPECT_EQ(find_question("/api/nothing"), nullptr);
}

TEST(PageActions, AskForTheRightsThatProgramsNeed) {
  EXPECT_EQ(find_action("/api/submit")->right, Right::kSubmit);
  EXPECT_EQ(find_action("/api/cancel")->right, Right::kSubmit);
  EXPECT_EQ(find_action("/api/priority")->right, Right::kSubmit);
  EXPECT_EQ(find_action("/api/drain")->right, Right::kAdminister);
  EXPECT_EQ(find_action("/api/quota")->right, Right::kAdminister);
  EXPECT_EQ(find_action("/api/tasks"), nullptr);
}

TEST(PageActions, APriorityIsCheckedAsElsewhere) {
  const PageAction* priority = find_action("/api/priority");
  const auto made = [&](const char* json, const Identity& who) {
    return std::get<PriorityRequest>(priority->change(Json::parse(json, "x"), who, {0}));
  };
  const PriorityRequest request = made(R"({"task": 4, "priority": -2})", kAnn);
  EXPECT_EQ(request.caller.user, "ann");
  EXPECT_EQ(request.task, TaskId{4});
  EXPECT_EQ(request.priority, -2);
  EXPECT_THAT(refusal_of([&] { made(R"({"task": 4, "priority": 1})", kAnn); }),
              HasSubstr("priority 1 is above 0"));
  EXPECT_EQ(made(R"({"task": 4, "priority": 1})", kRoot).priority, 1);
  EXPECT_THAT(refusal_of([&] { made(R"({"task": 4, "priority": 4294967297})", kRoot); }),
              HasSubstr("out of range"));
}

TEST(PageActions, ASubmissionIsCheckedAsElsewhere) {
  const PageAction* submit = find_action("/api/submit");
  const auto made = [&](const char* json, const Identity& who) {
    return std::get<SubmitRequest>(submit->change(Json::parse(json, "x"), who, {0}));
  };
  const SubmitRequest request =
      made(R"({"name": "a", "required_gpus": 0, "command": ["true"]})", kAnn);
  EXPECT_EQ(request.caller.user, "ann");
  EXPECT_EQ(request.spec.cpus, 1U) << "as harmonics submit reckons it";
  EXPECT_THAT(refusal_of([&] { made(R"({"name": "a", "priority": 1})", kAnn); }),
              HasSubstr("priority 1 is above 0"));
  EXPECT_EQ(made(R"({"name": "a", "priority": 1})", kRoot).spec.priority, 1);
  EXPECT_THAT(refusal_of([&] { made(R"({"name": "a", "nmae": 1})", kAnn); }), HasSubstr("nmae"));
  EXPECT_THAT(refusal_of([&] { made(R"({"name": "a", "artifacts": ["../x"]})", kAnn); }),
              HasSubstr("../x"));
}

TEST(PageReplies, HideWhatIsAnothers) {
  TaskView task;
  task.user = "ann";
  task.spec.env = {{"SECRET", "word"}};
  EXPECT_THAT(reply_of(kAnn, task).body, HasSubstr("word"));
  EXPECT_THAT(reply_of(kRoot, task).body, HasSubstr("word"));
  EXPECT_THAT(reply_of(kVic, task).body, Not(HasSubstr("word")));
  EXPECT_EQ(reply_of(kVic, Refusal{ErrorCode::kNotFound, "no"}).status, 404);
  EXPECT_EQ(reply_of(kVic, Refusal{ErrorCode::kPermissionDenied, "no"}).status, 403);
}

TEST(PageReplies, NothingOfAnAnswerIsKeptOrFramed) {
  std::string all;
  for (const auto& [name, value] : guarded(json_reply(Json::object())).headers) {
    all += name + ": " + value + "\n";
  }
  EXPECT_THAT(all, HasSubstr("default-src 'none'"));
  EXPECT_THAT(all, HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(all, HasSubstr("Cache-Control: no-store"));
  EXPECT_THAT(all, HasSubstr("X-Content-Type-Options: nosniff"));
  EXPECT_THAT(all, Not(HasSubstr("unsafe")));
}

TEST(PageGraph, IsThatOfAPipelineAlone) {
  TaskSpec spec;
  EXPECT_THAT(refusal_of([&] { static_cast<void>(graph_json(spec)); }), HasSubstr("no pipeline"));
  PipelineSpec pipeline;
  pipeline.graph =
      "harmonic g { producer x {4}; layer a linear(3); consumer y {3}; cycle { x -> a -> y; } }";
  spec.pipeline = pipeline;
  const Json graph = graph_json(spec);
  ASSERT_EQ(graph.at("layers").as_array().size(), 1U);
  EXPECT_EQ(graph.at("layers").as_array()[0].at("name").as_string(), "a");
  EXPECT_EQ(graph.at("inputs").as_array()[0].as_string(), "x");
}

TEST(PageRetry, IsForTheOwnerAndWholeArrays) {
  TaskView task;
  task.id = task.first = {3};
  task.user = "ann";
  TaskSpec spec;
  spec.idempotency_key = "once";
  EXPECT_EQ(submitted_again(task, spec, kAnn).spec.idempotency_key, "");
  EXPECT_EQ(submitted_again(task, spec, kRoot).caller.user, "root");
  const Identity bob{.user = "bob", .may_submit = true};
  EXPECT_THAT(refusal_of([&] { static_cast<void>(submitted_again(task, spec, bob)); }),
              HasSubstr("'ann'"));
  task.id = {4};
  EXPECT_THAT(refusal_of([&] { static_cast<void>(submitted_again(task, spec, kAnn)); }),
              HasSubstr("array"));
}

}  // namespace
}  // namespace harmonics::inline in_server
