// Facts that follow from each other, for tests of stores.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <harmonics/store/store.h>

namespace harmonics::inline in_store {

/// Facts number `from` to `from + count - 1` of a story without end: tasks are submitted, and every
/// fourth fact ends the task before.
inline std::vector<Fact> story(std::uint64_t from, std::uint64_t count,
                               std::size_t text_bytes = 10) {
  std::vector<Fact> facts;
  for (std::uint64_t i = from; i < from + count; ++i) {
    if (i == 0) {
      facts.push_back(TermStarted{Term{1}, Time{5}});
    } else if (i % 4 == 0) {
      facts.push_back(TaskEnded{TaskId{i / 4 * 3}, TaskOutcome::kCancelled, std::nullopt, Time{9}});
    } else {
      auto submission = std::make_shared<Submission>();
      submission->first = TaskId{i - i / 4};
      submission->user = "ann";
      submission->spec.name = "task " + std::to_string(i);
      submission->spec.command = {std::string(text_bytes, 'x')};
      facts.push_back(TasksSubmitted{submission});
    }
  }
  return facts;
}

[[nodiscard]] inline std::vector<Fact> read_back(Store& store) {
  std::vector<Fact> facts;
  store.load([&](Fact&& fact) { facts.push_back(std::move(fact)); });
  return facts;
}

/// What a process that starts on the store does: leads, then reads it.
[[nodiscard]] inline std::vector<Fact> lead_and_read(Store& store) {
  store.lead(std::chrono::seconds(60));
  return read_back(store);
}

}  // namespace harmonics::inline in_store
