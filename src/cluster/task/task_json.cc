// Task JSON (docs/formats/task-json.md).
#include <algorithm>
#include <cmath>
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

bool is_number(const Json& value) {
  if (value.is_integer()) return true;
  return !value.is_null() && !value.is_object() && !value.is_array() && !value.is_string() &&
         value.dump() != "true" && value.dump() != "false";
}

/// 0.25 as 2,500 of 10,000.
std::uint32_t read_parts(const Json& value, const Place& place) {
  const double parts = is_number(value) ? value.as_number() * kWholeDevice : -1;
  if (!(parts >= 0.5) || parts > 1'000.0 * kWholeDevice) {
    place.broken("must be a number from 0.0001 on, is {}", value.dump());
  }
  const auto whole = static_cast<std::uint32_t>(std::llround(parts));
  if (std::abs(parts - whole) > 1e-6 * parts) {
    place.broken("is {}, which has more than four decimals", value.dump());
  }
  return whole;
}

// read(value, place, field): what JSON says of a field, by the field's type.

template <std::integral Number>
void read(const Json& value, const Place& place, Number& number) {
  const TaskField& field = place.field;
  if (!field.word.empty() && value.is_string() && value.as_string() == field.word) {
    number = static_cast<Number>(field.means);
    return;
  }
  if (field.parts) {
    number = static_cast<Number>(read_parts(value, place));
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

void read(const Json& value, const Place& place, ResourceCounts& counts) {
  if (!value.is_object()) place.broken("must be an object of numbers, is {}", value.dump());
  counts.clear();
  for (const auto& [name, count] : value.as_object()) {
    counts.emplace_back(name, read_number<std::uint64_t>(count, place));
  }
}

void read(const Json& value, const Place& place, MaybePipeline& pipeline);
void read(const Json& value, const Place& place, MaybeTerms& terms);
void read(const Json& value, const Place& place, TaskVariants& variants);

/// "required_gpus": 0.25 is a share of one device, 2 are two whole ones.
template <typename Record>
void read_devices(Record& record, const Json& value, const Place& place) {
  record.gpu_share = kWholeDevice;
  if (value.is_integer() || !is_number(value)) return;
  const std::uint32_t share = read_parts(value, place);
  if (share >= kWholeDevice)
    place.broken("must be a whole number, or a share below 1, is {}", value.dump());
  record.required_gpus = 1;
  record.gpu_share = share;
}

/// Fills the member that `key` names; false where none has that name.
template <typename Record>
bool read_member(Record& record, std::string_view key, const Json& value, std::string_view where) {
  bool known = false;
  visit_fields(std::type_identity<Record>(), [&](const TaskField& field, auto member) {
    if (field.key != key || field.joined) return;
    known = true;
    const Place place{where, field};
    if constexpr (requires { record.gpu_share; }) {
      if (key == "required_gpus") {
        read_devices(record, value, place);
        if (record.gpu_share != kWholeDevice) return;
      }
    }
    read(value, place, record.*member);
  });
  return known;
}

template <typename Record>
std::vector<std::string> keys_of() {
  std::vector<std::string> keys;
  visit_fields(std::type_identity<Record>(), [&](const TaskField& field, auto) {
    if (!field.joined) keys.emplace_back(field.key);
  });
  return keys;
}

/// A record out of an object that holds no other keys than its own.
template <typename Record>
Record read_object(const Json& value, const Place& place) {
  if (!value.is_object()) place.broken("must be an object, is {}", value.dump());
  Record record;
  for (const auto& [key, entry] : value.as_object()) {
    if (read_member(record, key, entry, place.where)) continue;
    place.broken("unknown key '{}'; known are {}", key, listed(keys_of<Record>()));
  }
  return record;
}

void read(const Json& value, const Place& place, MaybeTerms& terms) {
  terms = read_object<TaskTerms>(value, place);
}

void read(const Json& value, const Place& place, TaskVariants& variants) {
  if (!value.is_array()) place.broken("must be a list of objects, is {}", value.dump());
  std::vector<TaskVariant> list;
  for (const Json& item : value.as_array()) list.push_back(read_object<TaskVariant>(item, place));
  variants = std::move(list);
}

void read(const Json& value, const Place& place, MaybePipeline& pipeline) {
  auto spec = read_object<PipelineSpec>(value, place);
  lift_old_settings(spec);
  pipeline = std::move(spec);
}

// write(field, value): the same way back.

Json write(const TaskField& field, std::integral auto number) {
  if (field.parts) return static_cast<double>(number) / kWholeDevice;
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

Json write(const TaskField&, const ResourceCounts& counts) {
  Json json = Json::object();
  for (const auto& [name, count] : counts) json.set(name, count);
  return json;
}

Json write(const TaskField&, const MaybeTerms& terms);
Json write(const TaskField&, const TaskVariants& variants);
Json write(const TaskField&, const MaybePipeline& pipeline);

/// Those fields of a record that differ from `defaults`, or all.
template <typename Record>
Json write_object(const Record& record, const Record* defaults) {
  Json::Object object;
  visit_fields(std::type_identity<Record>(), [&](const TaskField& field, auto member) {
    if (field.joined) return;
    if constexpr (requires { record.gpu_share; }) {
      if (field.key == "required_gpus" && record.gpu_share != kWholeDevice) {
        object.emplace_back(field.key, static_cast<double>(record.gpu_share) / kWholeDevice);
        return;
      }
    }
    if (defaults != nullptr && !field.always && record.*member == (*defaults).*member) return;
    object.emplace_back(field.key, write(field, record.*member));
  });
  return Json(std::move(object));
}

Json write(const TaskField&, const MaybeTerms& terms) {
  static const TaskTerms kNone;
  return terms ? write_object(*terms, &kNone) : Json::object();
}

Json write(const TaskField&, const TaskVariants& variants) {
  static const TaskVariant kPlain;
  Json list = Json::array();
  for (const TaskVariant& variant : variants.all()) list.push(write_object(variant, &kPlain));
  return list;
}

Json write(const TaskField&, const MaybePipeline& pipeline) {
  if (!pipeline) return {};
  return write_object<PipelineSpec>(*pipeline, nullptr);
}

/// A variant that does not say how large its devices are wants the task's.
void fill_variants(TaskSpec& spec, const Json& variants) {
  const std::span<const TaskVariant> read = spec.variants.all();
  std::vector<TaskVariant> filled(read.begin(), read.end());
  for (std::size_t i = 0; i < filled.size(); ++i) {
    if (variants.as_array()[i].find("min_gpu_memory") != nullptr) continue;
    filled[i].min_gpu_memory_mb = spec.min_gpu_memory_mb;
  }
  spec.variants = std::move(filled);
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
  if (const Json* variants = root.find("variants")) fill_variants(spec, *variants);
  try {
    check_task(spec);
  } catch (const Error& error) {
    throw Error(error.code(), format("{}: {}", where, error.what()));
  }
  return spec;
}

std::string write_task(const TaskSpec& spec) {
  const TaskSpec defaults = defaults_beside(spec);
  return write_object(spec, &defaults).dump(2);
}

}  // namespace harmonics::inline in_cluster
