// A YAML document as a tree with line numbers, read within limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace harmonics::inline in_yaml {

struct YamlNode {
  enum class Kind { kNull, kScalar, kSequence, kMap };

  Kind kind = Kind::kNull;
  int line = 0;  // from 1
  std::string text;
  std::vector<std::string> keys;  // of a map, beside items
  std::vector<YamlNode> items;
};

/// What a document may take; more is refused before anything is built from it.
struct YamlLimits {
  std::size_t bytes;
  std::size_t values;
  /// Levels of maps and lists.
  std::size_t depth;
};

/// Parses one document. An alias (*name) stands for a copy of what its anchor (&name) named before,
/// and counts as much. Broken YAML, tags, duplicate keys, and whatever exceeds the limits is an
/// `Error` with file and line. An empty text is null.
[[nodiscard]] YamlNode parse_yaml(std::string_view text, std::string_view file,
                                  const YamlLimits& limits);

/// A value of a document together with where it stands, for errors. Refers to the tree and to the
/// file name.
class YamlValue {
 public:
  YamlValue(const YamlNode& node, std::string_view file, std::string path)
      : node_(node), file_(file), path_(std::move(path)) {}

  [[nodiscard]] const YamlNode& node() const { return node_; }
  [[nodiscard]] bool is_null() const { return node_.kind == YamlNode::Kind::kNull; }
  [[nodiscard]] const std::string& path() const { return path_; }

  /// Insists on a map whose keys are all among `known`; a null is an empty map.
  void check_keys(const std::vector<std::string_view>& known) const;
  /// A member of a map; a missing one is an error.
  [[nodiscard]] YamlValue at(std::string_view key) const;
  [[nodiscard]] bool has(std::string_view key) const;
  /// The entries of a map (path: its key) or of a sequence (path: its place); null has none.
  [[nodiscard]] std::vector<YamlValue> entries() const;
  [[nodiscard]] const std::vector<std::string>& keys() const { return node_.keys; }
  /// Insist on the kind; null counts as empty.
  void expect_map() const { expect(YamlNode::Kind::kMap, "a map"); }
  void expect_sequence() const { expect(YamlNode::Kind::kSequence, "a list"); }

  [[nodiscard]] const std::string& text() const;
  /// Finite and not negative.
  [[nodiscard]] double number() const;
  [[nodiscard]] std::int64_t integer(std::int64_t least, std::int64_t most) const;
  [[nodiscard]] std::vector<double> numbers() const;
  [[nodiscard]] std::vector<std::int64_t> integers(std::int64_t least, std::int64_t most) const;
  [[nodiscard]] std::vector<std::string> texts() const;

  /// Throws "file:line: path: what".
  [[noreturn]] void broken(std::string_view what) const;

 private:
  void expect(YamlNode::Kind kind, std::string_view what) const;
  [[nodiscard]] YamlValue item(std::size_t k) const;

  const YamlNode& node_;
  std::string_view file_;
  std::string path_;
};

}  // namespace harmonics::inline in_yaml
