#include <harmonics/data/open_producer.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <string>

#include <harmonics/base/listed.h>
#include <harmonics/base/number_text.h>
#include <harmonics/data/csv_producer.h>
#include <harmonics/data/idx_producer.h>
#include <harmonics/data/synthetic_producer.h>

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

// "scheme:path?key=value&…", with readers for the values that name the setting when they fail.
class Settings {
 public:
  explicit Settings(std::string_view spec);

  [[nodiscard]] const std::string& scheme() const { return scheme_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// A key that is not in `known` is an Error.
  void allow(std::initializer_list<std::string_view> known) const;

  [[nodiscard]] const std::string* text(std::string_view key) const;
  template <typename T>
  [[nodiscard]] std::optional<T> number(std::string_view key) const;
  [[nodiscard]] std::optional<DType> dtype() const;
  [[nodiscard]] std::optional<Shape> shape() const;
  /// One of `names`, by its place.
  template <std::size_t kCount>
  [[nodiscard]] std::optional<std::size_t> choice(
      std::string_view key, const std::array<std::string_view, kCount>& names) const;
  [[noreturn]] void wrong(std::string_view key, std::string_view wanted) const;

 private:
  std::string spec_;
  std::string scheme_;
  std::string path_;
  std::map<std::string, std::string, std::less<>> values_;
};

constexpr std::array<std::string_view, 3> kSchemes = {"csv", "idx", "synthetic"};

Settings::Settings(std::string_view spec) : spec_(spec) {
  const std::size_t colon = spec.find(':');
  scheme_ = spec.substr(0, colon);
  if (colon == std::string_view::npos || !std::ranges::count(kSchemes, scheme_)) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' names no kind of data: write csv:PATH, idx:PATH or synthetic:?size=N (kinds: {})",
         spec, joined(kSchemes));
  }
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

void Settings::allow(std::initializer_list<std::string_view> known) const {
  for (const auto& [key, value] : values_) {
    if (std::ranges::count(known, key) == 0) {
      fail(ErrorCode::kInvalidArgument, "'{}': {} data has no setting '{}'; there are {}", spec_,
           scheme_, key, joined(known));
    }
  }
}

const std::string* Settings::text(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

template <typename T>
std::optional<T> Settings::number(std::string_view key) const {
  const std::string* value = text(key);
  if (value == nullptr) return std::nullopt;
  const auto number = number_from<T>(*value);
  if (!number) wrong(key, "a number");
  return number;
}

std::optional<DType> Settings::dtype() const {
  const std::string* value = text("dtype");
  if (value == nullptr) return std::nullopt;
  const auto dtype = dtype_from_name(*value);
  if (!dtype) wrong("dtype", "float32, float64, int64, int32, int8, uint8 or bool");
  return dtype;
}

std::optional<Shape> Settings::shape() const {
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

template <std::size_t kCount>
std::optional<std::size_t> Settings::choice(
    std::string_view key, const std::array<std::string_view, kCount>& names) const {
  const std::string* value = text(key);
  if (value == nullptr) return std::nullopt;
  const auto found = std::ranges::find(names, *value);
  if (found == names.end()) wrong(key, "one of " + joined(names));
  return static_cast<std::size_t>(found - names.begin());
}

void Settings::wrong(std::string_view key, std::string_view wanted) const {
  fail(ErrorCode::kInvalidArgument, "'{}': the setting {}={} must be {}", spec_, key, *text(key),
       wanted);
}

ByteSourcePtr bytes_of(const Settings& settings, const OpenBytes& open) {
  if (settings.path().empty()) {
    fail(ErrorCode::kInvalidArgument, "'{}:' names no file: write {}:PATH", settings.scheme(),
         settings.scheme());
  }
  return open(settings.path());
}

constexpr std::array<std::string_view, 2> kNan = {"refuse", "allow"};

IndexedProducerPtr open_csv(const Settings& settings, const OpenBytes& open) {
  settings.allow({"columns", "dtype", "scale", "shape", "header", "delimiter", "nan"});
  constexpr std::array<std::string_view, 3> kHeaders = {"auto", "yes", "no"};
  CsvOptions options;
  if (const auto* columns = settings.text("columns")) options.columns = *columns;
  options.dtype = settings.dtype().value_or(options.dtype);
  options.scale = settings.number<double>("scale").value_or(options.scale);
  options.shape = settings.shape().value_or(Shape{});
  options.allow_nan = settings.choice("nan", kNan).value_or(0) == 1;
  options.header = static_cast<CsvHeader>(settings.choice("header", kHeaders).value_or(0));
  if (const auto* delimiter = settings.text("delimiter")) {
    if (*delimiter != "tab" && delimiter->size() != 1) settings.wrong("delimiter", "one character");
    options.delimiter = *delimiter == "tab" ? '\t' : delimiter->front();
  }
  return std::make_shared<CsvProducer>(bytes_of(settings, open), std::move(options));
}

IndexedProducerPtr open_idx(const Settings& settings, const OpenBytes& open) {
  settings.allow({"dtype", "scale", "nan"});
  const IdxOptions options{settings.dtype(), settings.number<double>("scale").value_or(1.0),
                           settings.choice("nan", kNan).value_or(0) == 1};
  return std::make_shared<IdxProducer>(bytes_of(settings, open), options);
}

IndexedProducerPtr open_synthetic(const Settings& settings) {
  settings.allow({"shape", "size", "kind", "below", "dtype", "seed"});
  constexpr std::array<std::string_view, 3> kKinds = {"uniform", "normal", "integers"};
  const auto size = settings.number<std::int64_t>("size");
  if (!size) {
    fail(ErrorCode::kInvalidArgument, "synthetic data needs a size: write synthetic:?size=1000");
  }
  SyntheticOptions options;
  options.shape = settings.shape().value_or(options.shape);
  options.kind = static_cast<SyntheticKind>(settings.choice("kind", kKinds).value_or(0));
  options.dtype = settings.dtype();
  options.below = settings.number<std::int64_t>("below").value_or(options.below);
  options.seed = settings.number<std::uint64_t>("seed").value_or(0);
  return std::make_shared<SyntheticProducer>(*size, std::move(options));
}

}  // namespace

IndexedProducerPtr open_producer(std::string_view spec, const std::filesystem::path& relative_to) {
  return open_producer(
      spec, [&](const std::string& path) { return open_file((relative_to / path).string()); });
}

IndexedProducerPtr open_producer(std::string_view spec, const OpenBytes& open) {
  const Settings settings(spec);
  if (settings.scheme() == "csv") return open_csv(settings, open);
  if (settings.scheme() == "idx") return open_idx(settings, open);
  return open_synthetic(settings);
}

}  // namespace harmonics::inline in_data
