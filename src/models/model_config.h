// config.json of a model: every value is either honoured or an Error (private to models).
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/json.h>

namespace harmonics::inline in_models {

/// Values by key. It remembers what was asked for, so that `finish` can name what nobody took. A
/// value that is null counts as absent.
class ModelConfig {
 public:
  /// `origin` stands for the file in errors.
  ModelConfig(Json json, std::string origin);

  [[nodiscard]] const Json& json() const { return json_; }
  /// A whole number from 1 to 2^31; a missing one is an Error without `fallback`.
  [[nodiscard]] std::int64_t whole(std::string_view key);
  [[nodiscard]] std::int64_t whole(std::string_view key, std::int64_t fallback);
  [[nodiscard]] double real(std::string_view key, double fallback);
  [[nodiscard]] std::string text(std::string_view key, std::string_view fallback);
  [[nodiscard]] bool truth(std::string_view key, bool fallback);
  /// The value, or null.
  [[nodiscard]] const Json* take(std::string_view key);
  /// The first architecture that the file names; empty without.
  [[nodiscard]] std::string architecture();
  /// The name that a graph has for an activation that `key` names.
  [[nodiscard]] std::string activation(std::string_view key, std::string_view fallback);

  /// Only this value, or none, is honoured.
  void expect(std::string_view key, const Json& value);
  /// These have no bearing on what the model computes.
  void pass_over(std::initializer_list<std::string_view> keys);
  /// Chance in training that the graph leaves out; a rate above 0 is remembered.
  void leave_out(std::initializer_list<std::string_view> keys);
  /// "hidden_dropout_prob = 0.1" and so on.
  [[nodiscard]] const std::vector<std::string>& left_out() const { return left_out_; }

  /// An Error (kUnimplemented) that names the first key that nobody took, with its value.
  void finish() const;
  /// The same for a key whose value is not honoured.
  [[noreturn]] void refuse(std::string_view key, const std::string& why) const;

 private:
  Json json_;
  std::string origin_;
  std::set<std::string, std::less<>> taken_;
  std::vector<std::string> left_out_;
};

}  // namespace harmonics::inline in_models
