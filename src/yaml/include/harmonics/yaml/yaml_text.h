// Writing plain YAML: names and flow lists.
#pragma once

#include <string>
#include <string_view>

namespace harmonics::inline in_yaml {

/// A name as it is, or in double quotes where YAML would read something else.
[[nodiscard]] std::string yaml_name(std::string_view name);

/// "[a, b, c]" in lines of at most about 90 columns, continued lines indented by `indent`; `head`
/// is what stands on the line before it.
class YamlFlowList {
 public:
  YamlFlowList(std::string head, int indent) : text_(std::move(head)), indent_(indent) {
    text_ += '[';
  }
  void add(std::string_view item);
  /// The list with its closing bracket and a line end.
  [[nodiscard]] std::string finish();

 private:
  std::string text_;
  int indent_;
  std::size_t line_start_ = 0;
  bool first_ = true;
};

}  // namespace harmonics::inline in_yaml
