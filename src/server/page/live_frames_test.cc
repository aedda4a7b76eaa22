#include "live_frames.h"

#include <gtest/gtest.h>

namespace harmonics::inline in_server {
namespace {

WorkerView worker(const std::string& name, std::uint64_t tasks, Time heard = {}) {
  WorkerView view;
  view.spec.name = name;
  view.state = "ready";
  view.task_count = tasks;
  view.heard = heard;
  return view;
}

TaskView task(std::uint64_t id, const std::string& state) {
  TaskView view;
  view.id = {id};
  view.spec.name = "a \"name\"\n";
  view.state = state;
  return view;
}

LiveMoment moment(const std::vector<WorkerView>& workers, const std::vector<TaskView>& tasks) {
  return {std::chrono::seconds(5),
          "{\"active\":1}",
          std::make_shared<const LiveEntries>(worker_entries(workers)),
          task_entries(tasks),
          {}};
}

/// The data of one event.
Json data_of(const std::string& event, const std::string& kind) {
  const std::size_t named = event.find("event: " + kind + "\n");
  EXPECT_NE(named, event.npos) << event;
  const std::size_t begin = event.find("data: ") + 6;
  const std::size_t end = event.find("\n\n", begin);
  EXPECT_NE(end, event.npos) << event;
  return Json::parse(event.substr(begin, end - begin), "event");
}

std::string id_of(const std::string& event) {
  const std::size_t begin = event.find("id: ") + 4;
  return event.substr(begin, event.find('\n', begin) - begin);
}

TEST(LiveFrames, AWholePictureThenWhatChanges) {
  LiveFrames frames("7.x");
  EXPECT_TRUE(frames.empty());
  EXPECT_EQ(frames.advance(moment({worker("a", 1), worker("b", 0)}, {task(1, "active")})), "");
  const Json whole = data_of(frames.snapshot(), "snapshot");
  EXPECT_EQ(whole.at("workers").at("a").at("task_count").as_integer(), 1);
  EXPECT_EQ(whole.at("tasks").at("1").at("name").as_string(), "a \"name\"\n");
  EXPECT_EQ(whole.at("now").as_number(), 5);

  const std::string delta = frames.advance(
      moment({worker("a", 2), worker("c", 0)}, {task(1, "active"), task(2, "active")}));
  const Json changed = data_of(delta, "delta");
  EXPECT_EQ(changed.find("status"), nullptr) << "it is the same";
  EXPECT_EQ(changed.at("workers").as_object().size(), 3U);
  EXPECT_TRUE(changed.at("workers").at("b").is_null()) << "gone";
  EXPECT_EQ(changed.at("tasks").as_object().size(), 1U);
}

TEST(LiveFrames, ThatAWorkerWasHeardIsNoNews) {
  LiveFrames frames("7.x");
  frames.advance(moment({worker("a", 1, std::chrono::seconds(1))}, {}));
  EXPECT_EQ(frames.advance(moment({worker("a", 1, std::chrono::seconds(2))}, {})), "");
}

TEST(LiveFrames, WhoComesBackIsToldWhatWasMissed) {
  LiveFrames frames("7.x");
  frames.advance(moment({}, {task(1, "pending")}));
  const std::string seen = id_of(frames.snapshot());
  EXPECT_EQ(frames.since(seen), "");
  const std::string first = frames.advance(moment({}, {task(1, "active")}));
  const std::string second = frames.advance(moment({}, {task(1, "succeeded")}));
  EXPECT_EQ(frames.since(seen), first + second);
  EXPECT_EQ(frames.since(id_of(first)), second);
}

TEST(LiveFrames, WhoSawAnotherServerOrTooLittleGetsTheWholePicture) {
  LiveFrames frames("8.x");
  frames.advance(moment({}, {task(1, "pending")}));
  const std::string seen = id_of(frames.snapshot());
  for (const char* other : {"", "nothing", "7.x-1", "8.y-1", "8.x-", "8.x-99", "8.x--1"}) {
    EXPECT_EQ(frames.since(other), frames.snapshot()) << other;
  }
  for (std::size_t i = 0; i <= LiveFrames::kMaxKept; ++i) {
    frames.advance(moment({}, {task(i + 2, "pending")}));
  }
  EXPECT_EQ(frames.since(seen), frames.snapshot());
}

TEST(LiveFrames, WhatHappenedIsKeptUpToItsCeiling) {
  LiveFrames frames("7.x");
  LiveMoment now = moment({}, {});
  for (std::uint64_t i = 0; i < kMaxHappenings + 5; ++i) {
    now.happened.push_back({i, {}, "submitted", {i + 1}, "ann", "x"});
  }
  frames.advance(now);
  const Json whole = data_of(frames.snapshot(), "snapshot");
  EXPECT_EQ(whole.at("happened").as_array().size(), kMaxHappenings);
  EXPECT_EQ(whole.at("happened").as_array().front().at("number").as_integer(), 5);
}

}  // namespace
}  // namespace harmonics::inline in_server
