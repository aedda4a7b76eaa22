#include <harmonics/server/certificates.h>

#include <fcntl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>

#include <harmonics/base/descriptor.h>
#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/server/client_file.h>
#include <harmonics/server/state_folder.h>

#include "x509.h"

namespace harmonics::inline in_server {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::days kAuthorityDays(3650);
constexpr std::size_t kMaxHostName = 256;
constexpr std::size_t kMaxListFile = 4 << 20;

void write_private(const fs::path& path, const std::string& text, int how = O_EXCL) {
  const Descriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, S_IRUSR | S_IWUSR));
  if (!file) {
    fail_errno(errno,
               format("cannot make '{}' (an older one is never overwritten)", path.string()));
  }
  const bool written =
      ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fsync(file.get()) == 0;
  if (!written) fail(ErrorCode::kUnknown, "cannot write '{}'", path.string());
}

/// All or nothing, in place of the older one.
void replace_private(const fs::path& path, const std::string& text) {
  const fs::path temporary = path.string() + "~";
  ::unlink(temporary.c_str());
  write_private(temporary, text);
  fs::rename(temporary, path);
}

bool is_address(const std::string& host) {
  return host.find(':') != host.npos || host.find_first_not_of("0123456789.") == host.npos;
}

std::string alternative_name(const std::string& host) {
  return format("{}:{}", is_address(host) ? "IP" : "DNS", host);
}

/// This machine under all its names, and `hosts`.
std::string alternative_names(const std::vector<std::string>& hosts) {
  std::array<char, kMaxHostName> name{};
  std::string names = "DNS:localhost,IP:127.0.0.1,IP:::1";
  if (::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0') {
    names += format(",DNS:{}", name.data());
  }
  for (const std::string& host : hosts) names += format(",{}", alternative_name(host));
  return names;
}

/// A name becomes that of a folder, a word of the list of tokens and a part of a certificate.
void check_name(const std::string& name, const char* what, const char* letters) {
  const auto fits = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view(letters).find(c) != std::string_view::npos;
  };
  if (name.empty() || name.size() >= kMaxHostName || name.starts_with('.') ||
      !std::ranges::all_of(name, fits)) {
    fail(ErrorCode::kInvalidArgument, "'{}' is no name of a {}", name, what);
  }
}

struct UserWish {
  std::string name;
  std::string role;
};

UserWish user_of(const std::string& text) {
  const std::size_t colon = text.find(':');
  const UserWish user{text.substr(0, colon),
                      colon == text.npos ? "submit" : text.substr(colon + 1)};
  check_name(user.name, "user", "._-@");
  if (user.role != "submit" && user.role != "view" && user.role != "admin") {
    fail(ErrorCode::kInvalidArgument, "'{}' is no role of a user: submit, view or admin",
         user.role);
  }
  return user;
}

/// A folder of --init at work.
class Workshop {
 public:
  Workshop(fs::path folder, const InitWishes& wishes)
      : folder_(std::move(folder)), days_(wishes.days), fresh_(!fs::exists(folder_ / "ca.pem")) {
    if (!fresh_ && !fs::exists(folder_ / "ca.key")) {
      fail(ErrorCode::kFailedPrecondition,
           "'{}' holds certificates but not the authority's key (ca.key): add machines and users "
           "in the folder where 'harmonics server --init' first made it",
           folder_.string());
    }
    open_authority("ca", "Harmonics cluster authority", ca_key_, ca_);
    open_authority("peers", "Harmonics peers authority", peers_key_, peers_);
  }

  void add_roles(const std::vector<std::string>& hosts, std::uint16_t port) {
    const std::string names = alternative_names(hosts);
    issue("server",
          {"harmonics server", names + ",URI:harmonics://server", "serverAuth,clientAuth", days_});
    issue("worker", {"harmonics worker", "URI:harmonics://worker", "clientAuth", days_});
    issue("client", {"harmonics client", "URI:harmonics://client", "clientAuth", days_});
    issue("peer", {"harmonics peer", names, "serverAuth,clientAuth", days_});
    if (!fs::exists(folder_ / "tokens")) {
      std::string list = "# ROLES USER TOKEN\n";
      for (const char* role : {"submit", "view", "admin", "worker"}) {
        list += format("{} {} {}\n", role, role, add_token(folder_, role));
      }
      write_private(folder_ / "tokens", list);
    }
    if (!fs::exists(folder_ / "revoked.pem")) {
      write_private(folder_ / "revoked.pem", revocation_list(issuer(), {}));
    }
    if (!fs::exists(folder_ / "client.yml")) {
      const std::string host = hosts.empty() ? "localhost" : hosts.front();
      const std::string server = host.find(':') == host.npos ? host : format("[{}]", host);
      write_private(folder_ / "client.yml",
                    client_file_text({format("{}:{}", server, port), ".", {}}));
    }
  }

  void add_host(const std::string& host) {
    const fs::path place = make_place("hosts", host);
    issue_into(place, "worker",
               {format("harmonics worker {}", host), format("URI:harmonics://worker/{}", host),
                "clientAuth", days_});
    issue_into(place, "peer",
               {format("harmonics peer {}", host),
                format("DNS:localhost,IP:127.0.0.1,{}", alternative_name(host)),
                "serverAuth,clientAuth", days_});
    add_line(format("worker {} {}\n", host, add_token(place, "worker")));
    copy_into(place, {"ca.pem", "peers.pem", "client.yml"});
    say("machine '{}': copy '{}' there and start 'harmonics worker --tls FOLDER --addr {}:0'; its "
        "certificate is good until {}",
        host, place.string(), host, certificate_end(place / "worker.pem"));
  }

  void add_user(const UserWish& user) {
    const fs::path place = make_place("users", user.name);
    issue_into(place, "client",
               {format("harmonics user {}", user.name),
                format("URI:harmonics://user/{}", user.name), "clientAuth", days_});
    add_line(format("{} {} {}\n", user.role, user.name, add_token(place, user.role)));
    copy_into(place, {"ca.pem", "revoked.pem", "client.yml"});
    say("user '{}' ({}): '{}' as ~/.config/harmonics, or with --tls, is all that it takes; its "
        "certificate is good until {}",
        user.name, user.role, place.string(), certificate_end(place / "client.pem"));
  }

  void revoke(const std::string& name) {
    std::vector<std::string> serials = revoked_serials(folder_ / "revoked.pem");
    const std::size_t before = serials.size();
    for (const std::string& serial : issued_to(name)) {
      if (std::ranges::find(serials, serial) == serials.end()) serials.push_back(serial);
    }
    if (serials.size() == before) {
      fail(ErrorCode::kNotFound,
           "no certificate that is still good was made here for '{}': '{}' lists them", name,
           (folder_ / "issued").string());
    }
    replace_private(folder_ / "revoked.pem", revocation_list(issuer(), serials));
    drop_tokens(name);
    std::error_code ignored;
    for (const char* kind : {"hosts", "users"}) fs::remove_all(folder_ / kind / name, ignored);
    say("'{}' is let in no longer: the server heeds '{}' and 'tokens' at once for new connections; "
        "restart it to end those that are open, and copy revoked.pem to clients",
        name, (folder_ / "revoked.pem").string());
  }

  [[nodiscard]] bool fresh() const { return fresh_; }
  [[nodiscard]] std::vector<std::string> take() { return std::move(said_); }

 private:
  Issuer issuer() const { return {ca_.get(), ca_key_.get()}; }

  template <typename... Args>
  void say(FormatString<Args...> text, Args&&... args) {
    said_.push_back(format(text, std::forward<Args>(args)...));
  }

  void open_authority(const std::string& name, const char* title, Key& key, Certificate& cert) {
    if (fs::exists(folder_ / (name + ".pem"))) {
      key = read_key(folder_ / (name + ".key"));
      cert = read_certificate(folder_ / (name + ".pem"));
      return;
    }
    key = make_key();
    cert = make_certificate(key.get(), {}, {title, {}, {}, kAuthorityDays});
    write_private(folder_ / (name + ".pem"), pem_of(cert.get()));
    write_private(folder_ / (name + ".key"), pem_of(key.get()));
  }

  /// A role's own, unless it is there.
  void issue(const std::string& role, const CertificateText& text) {
    if (fs::exists(folder_ / (role + ".pem"))) return;
    issue_into(folder_, role, text);
    if (fresh_) return;
    say("made '{}', good until {}", (folder_ / (role + ".pem")).string(),
        certificate_end(folder_ / (role + ".pem")));
  }

  void issue_into(const fs::path& place, const std::string& role, const CertificateText& text) {
    const Key key = make_key();
    const bool peer = role == "peer";
    const Issuer by = peer ? Issuer{peers_.get(), peers_key_.get()} : issuer();
    const Certificate made = make_certificate(key.get(), by, text);
    write_private(place / (role + ".pem"), pem_of(made.get()));
    write_private(place / (role + ".key"), pem_of(key.get()));
    const std::string name = place == folder_ ? role : place.filename().string();
    if (!peer) {
      write_private(
          folder_ / "issued",
          format("{} {} {} {}\n", serial_of(made.get()), role, name, last_day_of(made.get())),
          O_APPEND);
    }
  }

  std::string add_token(const fs::path& place, const std::string& role) {
    const std::string token = random_token();
    write_private(place / (role + ".token"), token + "\n");
    return token;
  }
  void add_line(const std::string& line) { write_private(folder_ / "tokens", line, O_APPEND); }

  fs::path make_place(const char* kind, const std::string& name) {
    const fs::path place = folder_ / kind / name;
    if (fs::exists(place)) {
      fail(ErrorCode::kAlreadyExists,
           "'{}' is there already and is never overwritten: --revoke {} takes it back, or remove "
           "the folder and give it a new certificate beside the old one",
           place.string(), name);
    }
    make_state_folder(place);
    return place;
  }

  void copy_into(const fs::path& place, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      write_private(place / name, read_text_file(folder_ / name, kMaxListFile));
    }
  }

  std::vector<std::string> issued_to(const std::string& name) const {
    std::vector<std::string> serials;
    if (fs::exists(folder_ / "issued")) {
      std::istringstream lines(read_text_file(folder_ / "issued", kMaxListFile));
      for (std::string serial, role, whose, end; lines >> serial >> role >> whose >> end;) {
        if (whose == name) serials.push_back(serial);
      }
    }
    // Those of older folders are listed nowhere.
    if (serials.empty() && (name == "worker" || name == "client")) {
      serials.push_back(serial_of(read_certificate(folder_ / (name + ".pem")).get()));
    }
    return serials;
  }

  void drop_tokens(const std::string& user) {
    std::istringstream lines(read_text_file(folder_ / "tokens", kMaxListFile));
    std::string kept;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string roles, whose;
      words >> roles >> whose;
      if (roles.starts_with('#') || whose != user) kept += line + "\n";
    }
    replace_private(folder_ / "tokens", kept);
  }

  const fs::path folder_;
  const std::chrono::days days_;
  const bool fresh_;
  Key ca_key_{nullptr, EVP_PKEY_free};
  Certificate ca_{nullptr, X509_free};
  Key peers_key_{nullptr, EVP_PKEY_free};
  Certificate peers_{nullptr, X509_free};
  std::vector<std::string> said_;
};

}  // namespace

std::vector<std::string> make_certificates(const fs::path& folder, const InitWishes& wishes) {
  std::vector<UserWish> users;
  for (const std::string& user : wishes.users) users.push_back(user_of(user));
  for (const std::string& host : wishes.hosts) {
    // "*.example" is every host of a domain: machines that come and go get one certificate.
    check_name(host.starts_with("*.") ? host.substr(2) : host, "host", "._-:");
  }
  make_state_folder(folder);
  Workshop workshop(folder, wishes);
  workshop.add_roles(wishes.hosts, wishes.port);
  for (const std::string& host : wishes.hosts) workshop.add_host(host);
  for (const UserWish& user : users) workshop.add_user(user);
  for (const std::string& name : wishes.revoked) workshop.revoke(name);
  std::vector<std::string> said = workshop.take();
  if (said.empty() && !workshop.fresh()) {
    fail(ErrorCode::kAlreadyExists,
         "'{}' has a cluster's certificates and tokens, which are never overwritten: add a machine "
         "with --init-host, a user with --init-user, or take one back with --revoke",
         folder.string());
  }
  return said;
}

bool certificate_serves(const fs::path& file) {
  return X509_check_purpose(read_certificate(file).get(), X509_PURPOSE_SSL_SERVER, 0) == 1;
}

std::string certificate_end(const fs::path& file) {
  return last_day_of(read_certificate(file).get());
}

}  // namespace harmonics::inline in_server
