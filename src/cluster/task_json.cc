// Task JSON (docs/formats/task-json.md).
#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/base/listed.h>
#include <harmonics/cluster/task.h>

#include "nearest.h"

namespace harmonics {
namespace {

/// Where in which text: the start of every message.
struct Place {
  std::string_view where;
  std::string_view key;

  template <typename... Args>
  [[noreturn]] void broken(FormatString<Args...> text, Args&&... args) const {
    fail(ErrorCode::kInvalidArgument, "{}: {}: {}", where, key,
         format(text, std::forward<Args>(args)...));
  }
};

std::int64_t read_integer(const Json& value, const Place& place) {
  if (!value.is_integer()) place.broken("must be a whole number, is {}", value.dump());
  return value.as_integer();
}

template <typename Number>
Number read_number(const Json& value, const Place& place) {
  const std::int64_t number = read_integer(value, place);
  if constexpr (std::is_unsigned_v<Number>) {
    if (number < 0) place.broken("is {}, must not be negative", number);
  }
  if (!std::in_range<Number>(number)) place.broken("{} is too large", number);
  return static_cast<Number>(number);
}

const std::string& read_text(const Json& value, const Place& place) {
  if (!value.is_string()) place.broken("must be a text, is {}", value.dump());
  return value.as_string();
}

std::vector<std::string> read_texts(const Json& value, const Place& place) {
  if (!value.is_array()) place.broken("must be a list of texts, is {}", value.dump());
  std::vector<std::string> texts;
  for (const Json& item : value.as_array()) texts.push_back(read_text(item, place));
  return texts;
}

TextPairs read_pairs(const Json& value, const Place& place) {
  if (!value.is_object()) place.broken("must be an object of texts, is {}", value.dump());
  TextPairs pairs;
  for (const auto& [key, text] : value.as_object()) {
    if (!text.is_string()) {
      place.broken("'{}' must be a text, is {}: write {}", key, text.dump(),
                   json_quote(text.dump()));
    }
    pairs.emplace_back(key, text.as_string());
  }
  return pairs;
}

/// A text is for the shell, a list is the program and its arguments.
std::vector<std::string> read_command(const Json& value, const Place& place) {
  if (value.is_string()) return {"/bin/sh", "-c", value.as_string()};
  return read_texts(value, place);
}

std::vector<TaskId> read_tasks(const Json& value, const Place& place) {
  if (!value.is_array()) place.broken("must be a list of task ids, is {}", value.dump());
  std::vector<TaskId> tasks;
  for (const Json& item : value.as_array()) {
    tasks.push_back(TaskId{read_number<std::uint64_t>(item, place)});
  }
  return tasks;
}

OnDisconnect read_on_disconnect(const Json& value, const Place& place) {
  const std::string& word = read_text(value, place);
  if (word == "stop") return OnDisconnect::kStop;
  if (word == "continue") return OnDisconnect::kContinue;
  place.broken("'{}' is unknown, choose \"stop\" or \"continue\"", word);
}

/// One key of task JSON: how it is read and, if it differs from its default, written.
struct Field {
  std::string_view key;
  void (*read)(TaskSpec&, const Json&, const Place&);
  Json (*write)(const TaskSpec&);
  bool always = false;
};

template <auto Member>
constexpr Field number_field(std::string_view key, bool always = false) {
  using Number = std::remove_reference_t<decltype(std::declval<TaskSpec&>().*Member)>;
  return {key,
          [](TaskSpec& spec, const Json& value, const Place& place) {
            spec.*Member = read_number<Number>(value, place);
          },
          [](const TaskSpec& spec) { return Json(static_cast<std::int64_t>(spec.*Member)); },
          always};
}

template <auto Member>
constexpr Field text_field(std::string_view key, bool always = false) {
  return {key,
          [](TaskSpec& spec, const Json& value, const Place& place) {
            spec.*Member = read_text(value, place);
          },
          [](const TaskSpec& spec) { return Json(spec.*Member); }, always};
}

template <auto Member>
constexpr Field pairs_field(std::string_view key, bool always = false) {
  return {key,
          [](TaskSpec& spec, const Json& value, const Place& place) {
            spec.*Member = read_pairs(value, place);
          },
          [](const TaskSpec& spec) {
            Json::Object pairs;
            for (const auto& [name, text] : spec.*Member) pairs.emplace_back(name, text);
            return Json(pairs);
          },
          always};
}

template <auto Member>
Json write_texts(const TaskSpec& spec) {
  Json texts = Json::array();
  for (const std::string& text : spec.*Member) texts.push(text);
  return texts;
}

constexpr std::array kFields{
    text_field<&TaskSpec::name>("name", true),
    number_field<&TaskSpec::required_gpus>("required_gpus", true),
    number_field<&TaskSpec::min_gpu_memory_mb>("min_gpu_memory", true),
    pairs_field<&TaskSpec::params>("params", true),
    Field{"command",
          [](TaskSpec& spec, const Json& value, const Place& place) {
            spec.command = read_command(value, place);
          },
          write_texts<&TaskSpec::command>},
    pairs_field<&TaskSpec::env>("env"),
    text_field<&TaskSpec::working_dir>("working_dir"),
    number_field<&TaskSpec::cpus>("cpus"),
    number_field<&TaskSpec::memory_mb>("memory_mb"),
    number_field<&TaskSpec::timeout_s>("timeout_s"),
    number_field<&TaskSpec::max_retries>("max_retries"),
    number_field<&TaskSpec::priority>("priority"),
    number_field<&TaskSpec::gang>("gang"),
    number_field<&TaskSpec::array>("array"),
    Field{"depends_on",
          [](TaskSpec& spec, const Json& value, const Place& place) {
            spec.depends_on = read_tasks(value, place);
          },
          [](const TaskSpec& spec) {
            Json tasks = Json::array();
            for (const TaskId id : spec.depends_on) tasks.push(id.value);
            return tasks;
          }},
    text_field<&TaskSpec::idempotency_key>("idempotency_key"),
    Field{"artifacts",
          [](TaskSpec& spec, const Json& value, const Place& place) {
            spec.artifacts = read_texts(value, place);
          },
          write_texts<&TaskSpec::artifacts>},
    Field{"on_disconnect",
          [](TaskSpec& spec, const Json& value, const Place& place) {
            spec.on_disconnect = read_on_disconnect(value, place);
          },
          [](const TaskSpec& spec) {
            return Json(spec.on_disconnect == OnDisconnect::kStop ? "stop" : "continue");
          }},
};

const Field& find_field(std::string_view key, std::string_view where) {
  const auto field = std::ranges::find(kFields, key, &Field::key);
  if (field != kFields.end()) return *field;
  std::vector<std::string_view> keys;
  for (const Field& known : kFields) keys.push_back(known.key);
  const std::string_view nearest = nearest_word(key, keys);
  if (nearest.empty()) {
    fail(ErrorCode::kInvalidArgument, "{}: unknown key '{}'; known are {}", where, key,
         listed(keys, [](std::string_view word) { return std::string(word); }));
  }
  fail(ErrorCode::kInvalidArgument, "{}: unknown key '{}'; did you mean '{}'?", where, key,
       nearest);
}

}  // namespace

TaskSpec parse_task(std::string_view json, std::string_view where) {
  // Escapes can make the text larger than what it says, not by more than six times.
  if (json.size() > 8 * kMaxTaskBytes) {
    fail(ErrorCode::kInvalidArgument, "{}: {} bytes are too many for a task (at most {})", where,
         json.size(), 8 * kMaxTaskBytes);
  }
  const Json root = Json::parse(json, where);
  if (!root.is_object()) {
    fail(ErrorCode::kInvalidArgument, "{}: a task is an object: {{\"name\": ...}}", where);
  }
  TaskSpec spec;
  for (const auto& [key, value] : root.as_object()) {
    find_field(key, where).read(spec, value, Place{where, key});
  }
  try {
    check_task(spec);
  } catch (const Error& error) {
    throw Error(error.code(), format("{}: {}", where, error.what()));
  }
  return spec;
}

std::string write_task(const TaskSpec& spec) {
  const TaskSpec defaults;
  Json::Object fields;
  for (const Field& field : kFields) {
    Json value = field.write(spec);
    if (field.always || value.dump() != field.write(defaults).dump()) {
      fields.emplace_back(field.key, std::move(value));
    }
  }
  return Json(std::move(fields)).dump(2);
}

}  // namespace harmonics
