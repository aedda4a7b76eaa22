#include "host_list.h"

#include <algorithm>
#include <set>

#include <harmonics/base/error.h>
#include <harmonics/base/number_text.h>

#include "foreign_program.h"

namespace harmonics::inline in_cluster_program {
namespace {

bool good_letters(const std::string& text, std::string_view others) {
  return !text.empty() && text.front() != '-' && text.size() <= 253 &&
         std::ranges::all_of(text, [&](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  others.find(c) != others.npos;
         });
}

/// Fills host, user and port; a problem in words, or nothing.
std::string read_target(std::string text, HostLine& line) {
  if (const std::size_t at = text.find('@'); at != text.npos) {
    line.user = text.substr(0, at);
    if (!good_letters(line.user, "._-")) return "'" + line.user + "' is no user";
    text.erase(0, at + 1);
  }
  std::string port;
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == text.npos) return "'" + text + "' has no ']'";
    port = text.substr(close + 1);
    line.host = text.substr(1, close - 1);
  } else {
    const std::size_t colon = std::min(text.find(':'), text.size());
    port = text.substr(colon);
    line.host = text.substr(0, colon);
  }
  if (!good_letters(line.host, "._-:")) return "'" + line.host + "' is no host";
  if (port.empty()) return {};
  const auto number =
      port.front() == ':' ? number_from<std::int64_t>(port.substr(1)) : std::nullopt;
  if (!number || *number < 1 || *number > 65535) return "'" + port + "' is no port";
  line.port = static_cast<std::uint16_t>(*number);
  return {};
}

/// Takes --id out of the flags; a problem in words, or nothing.
std::string read_flags(const std::vector<std::string>& words, HostLine& line) {
  line.worker = line.host;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string flag = words[i].substr(0, words[i].find('='));
    for (const char* own : {"--scheduler", "--tls", "--token-file", "--state-dir"}) {
      if (flag == own) return flag + " is given by 'harmonics up' itself";
    }
    if (flag != "--id") {
      line.flags.push_back(words[i]);
      continue;
    }
    if (flag == words[i] && i + 1 == words.size()) return "--id needs a name";
    line.worker = flag == words[i] ? words[++i] : words[i].substr(flag.size() + 1);
  }
  return good_letters(line.worker, "._-:") ? std::string()
                                           : "'" + line.worker + "' is no name for a worker";
}

}  // namespace

std::vector<HostLine> parse_hosts(std::string_view text, const std::string& where) {
  std::vector<HostLine> hosts;
  std::set<std::string> names;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, text.substr(0, end).find('#')));
    if (line.size() > end) line.resize(end);
    text.remove_prefix(std::min(end + 1, text.size()));
    std::ranges::replace(line, '\r', ' ');
    HostLine host;
    std::string problem;
    const std::vector<std::string> words = shell_words(line);
    if (words.empty()) continue;
    problem = read_target(words.front(), host);
    if (problem.empty()) problem = read_flags(words, host);
    if (problem.empty() && !names.insert(host.worker).second) {
      problem = "there is another worker '" + host.worker + "': tell them apart with --id";
    }
    if (problem.empty() && hosts.size() == kMaxHosts)
      problem = format("more than {} hosts", kMaxHosts);
    if (!problem.empty()) fail(ErrorCode::kInvalidArgument, "{}:{}: {}", where, number, problem);
    hosts.push_back(std::move(host));
  }
  if (hosts.empty()) fail(ErrorCode::kInvalidArgument, "{}: there is no host in it", where);
  return hosts;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host.starts_with("127.") || host == "::1";
}

}  // namespace harmonics::inline in_cluster_program
