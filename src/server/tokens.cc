#include "tokens.h"

#include <sstream>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>

namespace harmonics {
namespace {

constexpr std::size_t kMaxTokensFile = 4 << 20;
constexpr std::size_t kMinTokenLength = 16;

/// True also when lengths differ, but then it is never equal; time depends on `given` alone.
bool equal_in_constant_time(std::string_view given, std::string_view known) {
  unsigned difference = given.size() == known.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char other = known.empty() ? '\0' : known[i % known.size()];
    difference |= static_cast<unsigned char>(given[i] ^ other);
  }
  return difference == 0;
}

void add_role(Identity& identity, const std::string& role, const std::string& where) {
  if (role == "submit") {
    identity.may_submit = true;
  } else if (role == "view") {
    identity.may_view = true;
  } else if (role == "admin") {
    identity.may_submit = identity.may_view = identity.may_administer = true;
  } else if (role == "worker") {
    identity.may_work = true;
  } else {
    fail(ErrorCode::kInvalidArgument, "{}: unknown role '{}': submit, view, admin or worker", where,
         role);
  }
}

}  // namespace

Tokens::Tokens(std::string own_token, const std::string& user) {
  entries_.push_back({std::move(own_token), {user, true, true, true, true}});
}

void Tokens::add_file(const std::filesystem::path& file) {
  std::istringstream lines(read_text_file(file, kMaxTokensFile));
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty() || line.front() == '#') continue;
    const std::string where = format("{}:{}", file.string(), number);
    std::istringstream words(line);
    std::string roles, rest;
    Entry entry;
    words >> roles >> entry.identity.user >> entry.token;
    if (entry.token.empty() || (words >> rest)) {
      fail(ErrorCode::kInvalidArgument, "{}: a line is 'ROLES USER TOKEN'", where);
    }
    if (entry.token.size() < kMinTokenLength) {
      fail(ErrorCode::kInvalidArgument, "{}: a token has at least {} letters", where,
           kMinTokenLength);
    }
    std::istringstream list(roles);
    for (std::string role; std::getline(list, role, ',');) add_role(entry.identity, role, where);
    if (entries_.size() >= kMaxTokens) {
      fail(ErrorCode::kResourceExhausted, "{}: more than {} tokens", where, kMaxTokens);
    }
    entries_.push_back(std::move(entry));
  }
}

std::optional<Identity> Tokens::identify(std::string_view token) const {
  std::optional<Identity> found;
  if (token.empty()) return found;
  for (const Entry& entry : entries_) {
    if (equal_in_constant_time(token, entry.token)) found = entry.identity;
  }
  return found;
}

}  // namespace harmonics
