// Task JSON (docs/formats/task-json.md).
#include <algorithm>
#include <concepts>
#include <span>

#include <harmonics/base/bytes.h>
#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/nearest_word.h>
#include <harmonics/cluster/task_fields.h>

namespace harmonics::inline in_cluster {
namespace {

/// Where in which text: the start of every message.
struct Place {
  std::string_view where;
  const TaskField& field;

  template <typename... Args>
  [[noreturn]] void broken(FormatString<Args...> text, Args&&... args) const {
    fail(ErrorCode::kInvalidArgument, "{}: {}: {}", where, field.key,
         format(text, std::forward<Args>(args)...));
  }
};

template <typename Number>
Number read_number(const Json& value, const Place& place) {
  if (!value.is_integer()) place.broken("must be a whole number, is {}", value.dump());
  const std::int64_t number = value.as_integer();
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

bool read_flag(const Json& value, const Place& place) {
  if (value.dump() != "true" && value.dump() != "false") {
    place.broken("must be true or false, is {}", value.dump());
  }
  return value.as_bool();
}

std::string from_hex(const std::string& digits, const Place& place) {
  const auto nibble = [&](char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    place.broken("'hex' holds pairs of the digits 0-9 a-f, not '{}'", digit);
  };
  if (digits.size() % 2 != 0) place.broken("'hex' must hold pairs of the digits 0-9 a-f");
  std::string bytes;
  bytes.reserve(digits.size() / 2);
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(nibble(digits[i]) * 16 + nibble(digits[i + 1])));
  }
  return bytes;
}

TaskFile read_file(const Json& value, const Place& place) {
  if (!value.is_object() || value.find("path") == nullptr ||
      (value.find("text") == nullptr) == (value.find("hex") == nullptr)) {
    place.broken("a file is an object with its path and either text or hex");
  }
  TaskFile file;
  for (const auto& [key, part] : value.as_object()) {
    if (key == "path") {
      file.path = read_text(part, place);
    } else if (key == "text") {
      file.data = read_text(part, place);
    } else if (key == "hex") {
      file.data = from_hex(read_text(part, place), place);
    } else if (key == "executable") {
      file.executable = read_flag(part, place);
    } else {
      place.broken("a file has path, text or hex, and executable, but no '{}'", key);
    }
  }
  return file;
}

// read(value, place, field): what JSON says of a field, by the field's type.

template <std::integral Number>
void read(const Json& value, const Place& place, Number& number) {
  const TaskField& field = place.field;
  if (!field.word.empty() && value.is_string() && value.as_string() == field.word) {
    number = static_cast<Number>(field.means);
    return;
  }
  number = read_number<Number>(value, place);
  if (field.word.empty()) return;  // The range is that of check_task.
  const std::int64_t said = value.as_integer();
  const bool inside = field.means >= field.low && field.means <= field.high;
  if (inside ? said == field.means : said < field.low || said > field.high) {
    place.broken(
        "is {}, must be {} or \"{}\"", said,
        inside ? format("at least {}", field.means + 1) : format("{} to {}", field.low, field.high),
        field.word);
  }
}

void read(const Json& value, const Place& place, bool& flag) { flag = read_flag(value, place); }

void read(const Json& value, const Place& place, std::string& text) {
  text = read_text(value, place);
}

void read(const Json& value, const Place& place, TextPairs& pairs) {
  if (!value.is_object()) place.broken("must be an object of texts, is {}", value.dump());
  pairs.clear();
  for (const auto& [key, text] : value.as_object()) {
    if (!text.is_string()) {
      place.broken("'{}' must be a text, is {}: write {}", key, text.dump(),
                   json_quote(text.dump()));
    }
    pairs.emplace_back(key, text.as_string());
  }
}

/// A text is for the shell, a list is the program and its arguments.
void read(const Json& value, const Place& place, std::vector<std::string>& texts) {
  if (place.field.shell && value.is_string()) {
    texts = {"/bin/sh", "-c", value.as_string()};
    return;
  }
  if (!value.is_array()) place.broken("must be a list of texts, is {}", value.dump());
  texts.clear();
  for (const Json& item : value.as_array()) texts.push_back(read_text(item, place));
}

void read(const Json& value, const Place& place, std::vector<TaskId>& tasks) {
  if (!value.is_array()) place.broken("must be a list of task ids, is {}", value.dump());
  tasks.clear();
  for (const Json& item : value.as_array()) {
    tasks.push_back(TaskId{read_number<std::uint64_t>(item, place)});
  }
}

void read(const Json& value, const Place& place, OnDisconnect& wish) {
  const std::string& word = read_text(value, place);
  for (const auto one : {OnDisconnect::kStop, OnDisconnect::kForever, OnDisconnect::kContinue}) {
    if (word != to_string(one)) continue;
    wish = one;
    return;
  }
  place.broken("'{}' is unknown, choose \"continue\", \"stop\" or \"forever\"", word);
}

void read(const Json& value, const Place& place, TaskFiles& files) {
  if (!value.is_array()) place.broken("must be a list of files");
  std::vector<TaskFile> list;
  for (const Json& item : value.as_array()) list.push_back(read_file(item, place));
  files = std::move(list);
}

void read(const Json& value, const Place& place, MaybePipeline& pipeline);

/// Fills the member that `key` names; false where none has that name.
template <typename Record>
bool read_member(Record& record, std::string_view key, const Json& value, std::string_view where) {
  bool known = false;
  visit_fields(std::type_identity<Record>(), [&](const TaskField& field, auto member) {
    if (field.key != key) return;
    known = true;
    read(value, Place{where, field}, record.*member);
  });
  return known;
}

template <typename Record>
std::vector<std::string> keys_of() {
  std::vector<std::string> keys;
  visit_fields(std::type_identity<Record>(),
               [&](const TaskField& field, auto) { keys.emplace_back(field.key); });
  return keys;
}

void read(const Json& value, const Place& place, MaybePipeline& pipeline) {
  if (!value.is_object()) place.broken("must be an object, is {}", value.dump());
  PipelineSpec spec;
  for (const auto& [key, entry] : value.as_object()) {
    if (read_member(spec, key, entry, place.where)) continue;
    place.broken("unknown key '{}'; known are {}", key, listed(keys_of<PipelineSpec>()));
  }
  lift_old_settings(spec);
  pipeline = std::move(spec);
}

// write(field, value): the same way back.

Json write(const TaskField& field, std::integral auto number) {
  if (!field.word.empty() && static_cast<std::int64_t>(number) == field.means) return field.word;
  return static_cast<std::int64_t>(number);
}

Json write(const TaskField&, bool flag) { return flag; }
Json write(const TaskField&, const std::string& text) { return text; }
Json write(const TaskField&, OnDisconnect wish) { return to_string(wish); }

Json write(const TaskField&, const TextPairs& pairs) {
  Json::Object object;
  for (const auto& [name, text] : pairs) object.emplace_back(name, text);
  return object;
}

Json write(const TaskField&, const std::vector<std::string>& texts) {
  return Json::Array(texts.begin(), texts.end());
}

Json write(const TaskField&, const std::vector<TaskId>& tasks) {
  Json list = Json::array();
  for (const TaskId id : tasks) list.push(id.value);
  return list;
}

/// As text where it is one that JSON holds as it is.
Json write(const TaskField&, const TaskFiles& files) {
  Json list = Json::array();
  for (const TaskFile& file : files.all()) {
    const bool plain = std::ranges::all_of(file.data, [](char letter) {
      return letter == '\n' || letter == '\t' || (letter >= ' ' && letter <= '~');
    });
    Json one;
    one.set("path", file.path);
    one.set(plain ? "text" : "hex",
            plain ? file.data : to_hex(std::as_bytes(std::span(file.data))));
    if (file.executable) one.set("executable", true);
    list.push(std::move(one));
  }
  return list;
}

Json write(const TaskField&, const MaybePipeline& pipeline) {
  if (!pipeline) return {};
  Json json;
  visit_fields(std::type_identity<PipelineSpec>(), [&](const TaskField& field, auto member) {
    json.set(field.key, write(field, (*pipeline).*member));
  });
  return json;
}

/// What a task has that does not say so.
TaskSpec defaults_beside(const TaskSpec& spec) {
  TaskSpec defaults;
  defaults.cpus = default_cpus(spec);
  if (!spec.pipeline) return defaults;
  defaults.gang = spec.gang;  // It follows from the stages.
  defaults.max_retries = kPipelineRetries;
  defaults.on_disconnect = kPipelineOnDisconnect;
  return defaults;
}

}  // namespace

void set_task_field(TaskSpec& spec, std::string_view key, const Json& value,
                    std::string_view where) {
  if (read_member(spec, key, value, where)) return;
  const std::vector<std::string> keys = keys_of<TaskSpec>();
  const std::string meant = suggestion(std::string(key), keys);
  fail(ErrorCode::kInvalidArgument, "{}: unknown key '{}'{}", where, key,
       meant.empty() ? "; known are " + listed(keys) : meant);
}

TaskSpec parse_task(std::string_view json, std::string_view where) {
  if (json.size() > kMaxTaskJsonBytes) {
    fail(ErrorCode::kInvalidArgument, "{}: {} bytes are too many for a task (at most {})", where,
         json.size(), kMaxTaskJsonBytes);
  }
  const Json root = Json::parse(json, where);
  if (!root.is_object()) {
    fail(ErrorCode::kInvalidArgument, "{}: a task is an object: {{\"name\": ...}}", where);
  }
  TaskSpec spec;
  for (const auto& [key, value] : root.as_object()) {
    set_task_field(spec, key, value, where);
  }
  if (spec.pipeline) {
    set_pipeline(spec, *spec.pipeline);
    if (root.find("required_gpus") == nullptr) spec.required_gpus = 0;
    if (root.find("max_retries") == nullptr) spec.max_retries = kPipelineRetries;
    if (root.find("on_disconnect") == nullptr) spec.on_disconnect = kPipelineOnDisconnect;
  }
  if (root.find("cpus") == nullptr) spec.cpus = default_cpus(spec);
  try {
    check_task(spec);
  } catch (const Error& error) {
    throw Error(error.code(), format("{}: {}", where, error.what()));
  }
  return spec;
}

std::string write_task(const TaskSpec& spec) {
  const TaskSpec defaults = defaults_beside(spec);
  Json::Object object;
  visit_fields(std::type_identity<TaskSpec>(), [&](const TaskField& field, auto member) {
    if (!field.always && spec.*member == defaults.*member) return;
    object.emplace_back(field.key, write(field, spec.*member));
  });
  return Json(std::move(object)).dump(2);
}

}  // namespace harmonics::inline in_cluster
