#include "live_frames.h"

#include <harmonics/base/error.h>
#include <harmonics/base/escaped.h>
#include <harmonics/base/number_text.h>
#include <harmonics/rpc/view_json.h>

namespace harmonics::inline in_server {
namespace {

std::string line_of(const Json& json) { return escaped_json(json.dump()); }

/// Without the number behind "heard": quotes in texts are escaped, so it stands there once.
std::string without_heard(const std::string& text) {
  constexpr std::string_view kKey = "\"heard\":";
  const std::size_t begin = text.find(kKey);
  if (begin == text.npos) return text;
  const std::size_t end = text.find_first_of(",}", begin);
  return text.substr(0, begin) + text.substr(end);
}

Json happening_json(const Happening& one) {
  Json json = Json().set("number", one.number).set("at", in_seconds(one.at)).set("kind", one.kind);
  if (one.task != TaskId{}) json.set("task", one.task.value).set("user", one.user);
  return json.set("name", one.name);
}

template <typename Many>
std::string happened_text(const Many& happened) {
  Json list = Json::array();
  for (const Happening& one : happened) list.push(happening_json(one));
  return line_of(list);
}

std::string all_of(const LiveEntries& entries) {
  std::string text = "{";
  for (const auto& [key, entry] : entries) {
    text += (text.size() == 1 ? "" : ",") + escaped_json(json_quote(key)) + ":" + entry.text;
  }
  return text + "}";
}

/// New and changed ones with their text, those that are gone with null; empty: no news.
std::string changes(const LiveEntries& before, const LiveEntries& after) {
  std::string text;
  const auto add = [&](const std::string& key, const std::string& value) {
    text += (text.empty() ? "{" : ",") + escaped_json(json_quote(key)) + ":" + value;
  };
  for (const auto& [key, entry] : after) {
    const auto known = before.find(key);
    if (known == before.end() || known->second != entry) add(key, entry.text);
  }
  for (const auto& [key, entry] : before) {
    if (!after.contains(key)) add(key, "null");
  }
  return text.empty() ? text : text + "}";
}

}  // namespace

LiveEntries worker_entries(const std::vector<WorkerView>& workers) {
  LiveEntries entries;
  for (const WorkerView& worker : workers) {
    std::string text = line_of(worker_json(worker));
    std::string compared = without_heard(text);
    entries.emplace(worker.spec.name, LiveEntry{std::move(text), std::move(compared)});
  }
  return entries;
}

LiveEntries task_entries(const std::vector<TaskView>& tasks) {
  LiveEntries entries;
  for (const TaskView& task : tasks) {
    std::string text = line_of(task_json(task));
    entries.emplace(std::to_string(task.id.value), LiveEntry{text, text});
  }
  return entries;
}

std::string LiveFrames::event(const char* kind, std::uint64_t number,
                              const std::string& data) const {
  return format("id: {}-{}\nevent: {}\ndata: {}\n\n", origin_, number, kind, data);
}

std::string LiveFrames::advance(LiveMoment moment) {
  const bool first = empty();
  std::string data;
  const auto add = [&](const char* key, const std::string& text) {
    if (!text.empty()) data += format("{}\"{}\":{}", data.empty() ? "{" : ",", key, text);
  };
  if (!first) {
    if (moment.status != now_.status) add("status", moment.status);
    if (moment.workers != now_.workers) add("workers", changes(*now_.workers, *moment.workers));
    add("tasks", changes(now_.tasks, moment.tasks));
    if (!moment.happened.empty()) add("happened", happened_text(moment.happened));
  }
  for (const Happening& one : moment.happened) happened_.push_back(one);
  while (happened_.size() > kMaxHappenings) happened_.pop_front();
  now_ = std::move(moment);
  if (first) number_ = 1;
  if (data.empty()) return {};
  kept_.push_back({++number_, event("delta", number_, data + "}")});
  kept_bytes_ += kept_.back().event.size();
  const std::string told = kept_.back().event;
  while (kept_.size() > kMaxKept || kept_bytes_ > kMaxKeptBytes) {
    kept_bytes_ -= kept_.front().event.size();
    kept_.pop_front();
  }
  return told;
}

std::string LiveFrames::snapshot() const {
  return event("snapshot", number_,
               format("{{\"now\":{},\"status\":{},\"workers\":{},\"tasks\":{},\"happened\":{}}}",
                      in_seconds(now_.now), now_.status, all_of(*now_.workers), all_of(now_.tasks),
                      happened_text(happened_)));
}

std::string LiveFrames::since(std::string_view last_id) const {
  const std::size_t dash = last_id.find('-');
  if (dash == last_id.npos) return snapshot();
  const auto number = number_from<std::uint64_t>(last_id.substr(dash + 1));
  if (!number || last_id.substr(0, dash) != origin_ || *number > number_) return snapshot();
  if (*number == number_) return {};
  if (kept_.empty() || kept_.front().number > *number + 1) return snapshot();
  std::string missed;
  for (const Delta& delta : kept_) {
    if (delta.number > *number) missed += delta.event;
  }
  return missed;
}

}  // namespace harmonics::inline in_server
