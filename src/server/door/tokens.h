// Who holds which token (private to server).
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/clock.h>
#include <harmonics/rpc/service.h>

namespace harmonics::inline in_server {

inline constexpr std::size_t kMaxTokens = 10'000;

/// How often a file of tokens is looked at for changes.
inline constexpr Nanoseconds kTokensLook = std::chrono::seconds(1);

/// The user's own token and those of files, which may change while the server runs. Any thread.
class Tokens {
 public:
  /// The user's own token opens everything.
  Tokens(std::string own_token, const std::string& user);
  /// Adds lines of "ROLES USER TOKEN", ROLES being submit, view, admin, worker joined by commas;
  /// empty lines and those that begin with # are skipped. An Error names file and line.
  void add_file(const std::filesystem::path& file);
  /// The user's own, from which other secrets are drawn.
  [[nodiscard]] const std::string& own() const { return own_.token; }
  /// Takes the same time whichever known token it is. A file that has changed is read again, for an
  /// unknown token at once, else when it was not looked at for kTokensLook (`now` never runs
  /// backwards); one that is wrong then is told in the log, and what was known stays.
  [[nodiscard]] std::optional<Identity> identify(std::string_view token, Nanoseconds now) const;

 private:
  struct Entry {
    std::string token;
    Identity identity;
  };
  struct Source {
    std::filesystem::path file;
    std::string stamp{};  ///< Changes when the file does.
    std::vector<Entry> entries{};
  };
  /// What identify changes: sources as they were read last.
  struct Sources {
    std::mutex mutex;
    Nanoseconds looked{};
    std::vector<Source> files;
  };
  static std::vector<Entry> read(const std::filesystem::path& file);
  static void look_again(Source& source);
  /// Among those of files; under the lock.
  std::optional<Identity> find(std::string_view token) const;

  Entry own_;
  std::unique_ptr<Sources> sources_;
};

}  // namespace harmonics::inline in_server
