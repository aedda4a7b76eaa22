// Task JSON (docs/formats/task-json.md).
#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include <harmonics/base/bytes.h>
#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/nearest_word.h>
#include <harmonics/cluster/task.h>

namespace harmonics::inline in_cluster {
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

std::vector<TaskFile> read_files(const Json& value, const Place& place) {
  if (!value.is_array()) place.broken("must be a list of files");
  std::vector<TaskFile> files;
  for (const Json& item : value.as_array()) files.push_back(read_file(item, place));
  return files;
}

/// As text where it is one that JSON holds as it is.
Json write_files(const TaskSpec& spec) {
  Json files = Json::array();
  for (const TaskFile& file : spec.files.all()) {
    const bool plain = std::ranges::all_of(file.data, [](char letter) {
      return letter == '\n' || letter == '\t' || (letter >= ' ' && letter <= '~');
    });
    Json one;
    one.set("path", file.path);
    one.set(plain ? "text" : "hex",
            plain ? file.data : to_hex(std::as_bytes(std::span(file.data))));
    if (file.executable) one.set("executable", true);
    files.push(std::move(one));
  }
  return files;
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
  for (const auto wish : {OnDisconnect::kStop, OnDisconnect::kForever, OnDisconnect::kContinue}) {
    if (word == to_string(wish)) return wish;
  }
  place.broken("'{}' is unknown, choose \"continue\", \"stop\" or \"forever\"", word);
}

std::uint32_t read_losses(const Json& value, const Place& place) {
  if (value.is_string() && value.as_string() == "unlimited") return kUnlimitedLosses;
  const auto losses = read_number<std::uint32_t>(value, place);
  if (losses == 0 || losses > kMaxTaskLosses) {
    place.broken("is {}, must be 1 to {} or \"unlimited\"", losses, kMaxTaskLosses);
  }
  return losses;
}

std::uint32_t read_stages(const Json& value, const Place& place) {
  if (value.is_string() && value.as_string() == "auto") return 0;
  const auto stages = read_number<std::uint32_t>(value, place);
  if (stages == 0) place.broken("is 0, must be at least 1 or \"auto\"");
  return stages;
}

/// One key of the object "pipeline".
struct PipelineField {
  std::string_view key;
  void (*read)(PipelineSpec&, const Json&, const Place&);
};

template <auto Member>
constexpr PipelineField pipeline_text(std::string_view key) {
  return {key, [](PipelineSpec& spec, const Json& value, const Place& place) {
            spec.*Member = read_text(value, place);
          }};
}

template <auto Member>
constexpr PipelineField pipeline_pairs(std::string_view key) {
  return {key, [](PipelineSpec& spec, const Json& value, const Place& place) {
            spec.*Member = read_pairs(value, place);
          }};
}

template <auto Member>
constexpr PipelineField pipeline_flag(std::string_view key) {
  return {key, [](PipelineSpec& spec, const Json& value, const Place& place) {
            spec.*Member = read_flag(value, place);
          }};
}

constexpr std::array kPipelineFields{
    pipeline_text<&PipelineSpec::model>("model"),
    pipeline_text<&PipelineSpec::graph>("graph"),
    PipelineField{"stages", [](PipelineSpec& spec, const Json& value,
                               const Place& place) { spec.stages = read_stages(value, place); }},
    pipeline_pairs<&PipelineSpec::bindings>("bind"),
    pipeline_pairs<&PipelineSpec::settings>("settings"),
    pipeline_text<&PipelineSpec::checkpoint>("checkpoint"),
    PipelineField{"checkpoint_every",
                  [](PipelineSpec& spec, const Json& value, const Place& place) {
                    spec.checkpoint_every = read_number<std::uint32_t>(value, place);
                  }},
    pipeline_flag<&PipelineSpec::profile>("profile"),
    pipeline_flag<&PipelineSpec::trace>("trace"),
    pipeline_flag<&PipelineSpec::elastic>("elastic"),
    pipeline_flag<&PipelineSpec::secure>("secure"),
};

PipelineSpec read_pipeline(const Json& value, const Place& place) {
  if (!value.is_object()) place.broken("must be an object, is {}", value.dump());
  PipelineSpec spec;
  for (const auto& [key, entry] : value.as_object()) {
    const auto field = std::ranges::find(kPipelineFields, key, &PipelineField::key);
    if (field == kPipelineFields.end()) {
      place.broken("unknown key '{}'; known are {}", key,
                   listed(kPipelineFields, [](const auto& one) { return std::string(one.key); }));
    }
    field->read(spec, entry, Place{place.where, key});
  }
  lift_old_settings(spec);
  return spec;
}

Json pairs_json(const TextPairs& pairs) {
  Json::Object object;
  for (const auto& [name, text] : pairs) object.emplace_back(name, text);
  return Json(std::move(object));
}

Json write_pipeline(const TaskSpec& task) {
  if (!task.pipeline) return {};
  const PipelineSpec& spec = *task.pipeline;
  Json json;
  json.set("model", spec.model).set("graph", spec.graph);
  json.set("stages", spec.stages == 0 ? Json("auto") : Json(std::int64_t{spec.stages}));
  json.set("bind", pairs_json(spec.bindings)).set("settings", pairs_json(spec.settings));
  json.set("checkpoint", spec.checkpoint);
  json.set("checkpoint_every", std::int64_t{spec.checkpoint_every});
  json.set("profile", spec.profile).set("trace", spec.trace);
  return json.set("elastic", spec.elastic).set("secure", spec.secure);
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
          [](const TaskSpec& spec) { return pairs_json(spec.*Member); }, always};
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
    Field{"max_losses",
          [](TaskSpec& spec, const Json& value, const Place& place) {
            spec.max_losses = read_losses(value, place);
          },
          [](const TaskSpec& spec) {
            return spec.max_losses == kUnlimitedLosses ? Json("unlimited")
                                                       : Json(std::int64_t{spec.max_losses});
          }},
    number_field<&TaskSpec::priority>("priority"),
    Field{"gang",
          [](TaskSpec& spec, const Json& value, const Place& place) {
            spec.gang = read_number<std::uint32_t>(value, place);
          },
          // That of a pipeline follows from its stages.
          [](const TaskSpec& spec) { return Json(std::int64_t{spec.pipeline ? 1 : spec.gang}); }},
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
          [](const TaskSpec& spec) { return Json(std::string(to_string(spec.on_disconnect))); }},
    Field{"pipeline",
          [](TaskSpec& spec, const Json& value, const Place& place) {
            spec.pipeline = read_pipeline(value, place);
          },
          write_pipeline},
    Field{"files",
          [](TaskSpec& spec, const Json& value, const Place& place) {
            spec.files = read_files(value, place);
          },
          write_files},
};

const Field& find_field(std::string_view key, std::string_view where) {
  const auto field = std::ranges::find(kFields, key, &Field::key);
  if (field != kFields.end()) return *field;
  std::vector<std::string> keys;
  for (const Field& known : kFields) keys.emplace_back(known.key);
  const std::string meant = suggestion(std::string(key), keys);
  fail(ErrorCode::kInvalidArgument, "{}: unknown key '{}'{}", where, key,
       meant.empty() ? "; known are " + listed(keys) : meant);
}

}  // namespace

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
    find_field(key, where).read(spec, value, Place{where, key});
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
  TaskSpec defaults;
  defaults.cpus = default_cpus(spec);
  if (spec.pipeline) {
    defaults.max_retries = kPipelineRetries;
    defaults.on_disconnect = kPipelineOnDisconnect;
  }
  Json::Object fields;
  for (const Field& field : kFields) {
    Json value = field.write(spec);
    if (field.always || value.dump() != field.write(defaults).dump()) {
      fields.emplace_back(field.key, std::move(value));
    }
  }
  return Json(std::move(fields)).dump(2);
}

}  // namespace harmonics::inline in_cluster
