#include "tokens.h"

#include <sys/stat.h>

#include <sstream>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/log.h>

namespace harmonics::inline in_server {
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

/// Empty: there is no such file.
std::string stamp_of(const std::filesystem::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return {};
  return format("{}.{} {} {}", status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_size,
                status.st_ino);
}

}  // namespace

Tokens::Tokens(std::string own_token, const std::string& user)
    : own_{std::move(own_token), {user, true, true, true, true}},
      sources_(std::make_unique<Sources>()) {}

std::vector<Tokens::Entry> Tokens::read(const std::filesystem::path& file) {
  std::vector<Entry> entries;
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
    if (entries.size() + 1 >= kMaxTokens) {
      fail(ErrorCode::kResourceExhausted, "{}: more than {} tokens", where, kMaxTokens);
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

void Tokens::add_file(const std::filesystem::path& file) {
  const std::lock_guard lock(sources_->mutex);
  std::string stamp = stamp_of(file);  // before it is read: a change meanwhile is seen later
  sources_->files.push_back({file, std::move(stamp), read(file)});
}

void Tokens::look_again(Source& source) {
  const std::string stamp = stamp_of(source.file);
  if (stamp == source.stamp) return;
  source.stamp = stamp;
  try {
    source.entries = read(source.file);
    log_info("server", "read '{}' again: {} tokens", source.file.string(), source.entries.size());
  } catch (const Error& error) {
    log_warn("server", "the list of tokens has changed and cannot be used, the older one stays: {}",
             error.what());
  }
}

std::optional<Identity> Tokens::find(std::string_view token) const {
  std::optional<Identity> found;
  for (const Source& source : sources_->files) {
    for (const Entry& entry : source.entries) {
      if (equal_in_constant_time(token, entry.token)) found = entry.identity;
    }
  }
  return found;
}

std::optional<Identity> Tokens::identify(std::string_view token, Nanoseconds now) const {
  if (token.empty()) return std::nullopt;
  const bool owner = equal_in_constant_time(token, own_.token);
  const std::lock_guard lock(sources_->mutex);
  std::optional<Identity> found = find(token);
  // One that is not known may just have been added: whoever was told it need not wait.
  if (now - sources_->looked >= kTokensLook || (!owner && !found)) {
    sources_->looked = now;
    for (Source& source : sources_->files) look_again(source);
    found = find(token);
  }
  return owner ? own_.identity : found;
}

}  // namespace harmonics::inline in_server
