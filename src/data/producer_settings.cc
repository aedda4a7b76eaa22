#include <harmonics/data/producer_settings.h>

#include <charconv>

#include <harmonics/base/error.h>

namespace harmonics::inline in_data {
namespace {

std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(&text[i + 1], &text[i + 1] + 2, byte, 16).ptr == &text[i + 1] + 2) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

ProducerSettings::ProducerSettings(std::string_view spec) : spec_(spec) {
  const std::size_t colon = spec.find(':');
  if (colon == std::string_view::npos) return;
  scheme_ = spec.substr(0, colon);
  const std::string_view rest = spec.substr(colon + 1);
  const std::size_t question = rest.find('?');
  path_ = rest.substr(0, question);
  std::string_view settings =
      question == std::string_view::npos ? std::string_view() : rest.substr(question + 1);
  while (!settings.empty()) {
    const std::string_view setting = settings.substr(0, settings.find('&'));
    settings.remove_prefix(std::min(settings.size(), setting.size() + 1));
    const std::size_t equals = setting.find('=');
    if (equals == std::string_view::npos) {
      fail(ErrorCode::kInvalidArgument, "'{}': the setting '{}' has no '='", spec, setting);
    }
    const auto [place, added] =
        values_.emplace(setting.substr(0, equals), decoded(setting.substr(equals + 1)));
    if (!added) fail(ErrorCode::kInvalidArgument, "'{}' sets '{}' twice", spec, place->first);
  }
}

ProducerSettings::ProducerSettings(std::string_view spec, const std::filesystem::path& relative_to)
    : ProducerSettings(spec) {
  place_ = relative_to / path_;
}

std::filesystem::path ProducerSettings::place() const {
  if (path_.empty()) {
    fail(ErrorCode::kInvalidArgument, "'{}' names no path: write {}:PATH", spec_, scheme_);
  }
  if (!place_) {
    fail(ErrorCode::kUnimplemented,
         "'{}': {} data is read from folders of this machine, and here files come from elsewhere",
         spec_, scheme_);
  }
  return *place_;
}

void ProducerSettings::allow(std::initializer_list<std::string_view> known) const {
  for (const auto& [key, value] : values_) {
    if (std::ranges::count(known, std::string_view(key)) == 0) {
      fail(ErrorCode::kInvalidArgument, "'{}': {} data has no setting '{}'; there are {}", spec_,
           scheme_, key, listed(known));
    }
  }
}

const std::string* ProducerSettings::text(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::optional<DType> ProducerSettings::dtype() const {
  const std::string* value = text("dtype");
  if (value == nullptr) return std::nullopt;
  const auto dtype = dtype_from_name(*value);
  if (!dtype) wrong("dtype", "float32, float64, int64, int32, int8, uint8 or bool");
  return dtype;
}

std::optional<Shape> ProducerSettings::shape() const {
  const std::string* value = text("shape");
  if (value == nullptr) return std::nullopt;
  Shape shape;
  const char* at = value->data();
  const char* const end = at + value->size();
  while (true) {
    std::int64_t axis = 0;
    const auto read = std::from_chars(at, end, axis);
    if (read.ec != std::errc{} || axis < 1) wrong("shape", "axis lengths such as 1x8x8");
    shape.push_back(axis);
    if (read.ptr == end) return shape;
    if (*read.ptr != 'x') wrong("shape", "axis lengths such as 1x8x8");
    at = read.ptr + 1;
  }
}

std::optional<std::size_t> ProducerSettings::choice(
    std::string_view key, std::initializer_list<std::string_view> names) const {
  const std::string* value = text(key);
  if (value == nullptr) return std::nullopt;
  const auto found = std::ranges::find(names, std::string_view(*value));
  if (found == names.end()) wrong(key, "one of " + listed(names));
  return static_cast<std::size_t>(found - names.begin());
}

ByteSourcePtr ProducerSettings::bytes(const OpenBytes& open) const {
  if (path_.empty()) {
    fail(ErrorCode::kInvalidArgument, "'{}:' names no file: write {}:PATH", scheme_, scheme_);
  }
  return open(path_);
}

void ProducerSettings::wrong(std::string_view key, std::string_view wanted) const {
  fail(ErrorCode::kInvalidArgument, "'{}': the setting {}={} must be {}", spec_, key, *text(key),
       wanted);
}

}  // namespace harmonics::inline in_data
