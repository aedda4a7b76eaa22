// Who holds which token (private to server).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/rpc/service.h>

namespace harmonics {

inline constexpr std::size_t kMaxTokens = 10'000;

/// A fixed set of tokens. Any thread.
class Tokens {
 public:
  /// The user's own token opens everything.
  Tokens(std::string own_token, const std::string& user);
  /// Adds lines of "ROLES USER TOKEN", ROLES being submit, view, admin, worker joined by commas;
  /// empty lines and those that begin with # are skipped. An Error names file and line.
  void add_file(const std::filesystem::path& file);
  /// The user's own, from which other secrets are drawn.
  [[nodiscard]] const std::string& own() const { return entries_.front().token; }
  /// Takes the same time whichever token it is.
  [[nodiscard]] std::optional<Identity> identify(std::string_view token) const;

 private:
  struct Entry {
    std::string token;
    Identity identity;
  };
  std::vector<Entry> entries_;
};

}  // namespace harmonics
