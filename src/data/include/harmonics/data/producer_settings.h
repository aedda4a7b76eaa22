// The text that names a source, in parts: "scheme:path?key=value&…".
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/listed.h>
#include <harmonics/base/number_text.h>
#include <harmonics/data/byte_source.h>
#include <harmonics/data/producer.h>

namespace harmonics::inline in_data {

/// A value that never changes. The readers of settings give nothing for one that is absent, and
/// throw an Error that names the setting for a value that it cannot have.
class ProducerSettings {
 public:
  /// A text without a scheme has an empty one, which nobody knows. A setting without a value or
  /// given twice is an Error.
  explicit ProducerSettings(std::string_view spec);
  /// The same; a path that is not absolute is relative to the folder `relative_to`.
  ProducerSettings(std::string_view spec, const std::filesystem::path& relative_to);

  [[nodiscard]] const std::string& scheme() const { return scheme_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// A key that is not in `known` is an Error that lists them.
  void allow(std::initializer_list<std::string_view> known) const;

  [[nodiscard]] const std::string* text(std::string_view key) const;
  template <typename T>
  [[nodiscard]] std::optional<T> number(std::string_view key) const {
    const std::string* value = text(key);
    if (value == nullptr) return std::nullopt;
    const auto number = number_from<T>(*value);
    if (!number) wrong(key, "a number");
    return number;
  }
  [[nodiscard]] std::optional<DType> dtype() const;
  [[nodiscard]] std::optional<Shape> shape() const;
  /// One of `names`, by its place.
  [[nodiscard]] std::optional<std::size_t> choice(
      std::string_view key, std::initializer_list<std::string_view> names) const;
  /// Where the path lies on this machine, for what lists folders; an Error where files are read by
  /// the caller, who cannot list them.
  [[nodiscard]] std::filesystem::path place() const;
  /// The bytes of the path; none is an Error.
  [[nodiscard]] ByteSourcePtr bytes(const OpenBytes& open) const;
  [[noreturn]] void wrong(std::string_view key, std::string_view wanted) const;

 private:
  std::string spec_;
  std::string scheme_;
  std::string path_;
  std::optional<std::filesystem::path> place_;
  std::map<std::string, std::string, std::less<>> values_;
};

/// Opens the source that the settings of one scheme describe.
using OpenScheme =
    std::function<IndexedProducerPtr(const ProducerSettings& settings, const OpenBytes& open)>;

/// Makes `open_producer` know a scheme. A later module registers its own when it is linked; from
/// outside, call it before the first source is opened. A name that is taken is an Error. Any
/// thread.
void register_producer_scheme(std::string scheme, OpenScheme open);

}  // namespace harmonics::inline in_data
