#include <harmonics/server/certificates.h>

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <memory>

#include <harmonics/base/error.h>
#include <harmonics/server/state_folder.h>

namespace harmonics {
namespace {

namespace fs = std::filesystem;

constexpr long kValidSeconds = 10L * 365 * 24 * 3600;
/// Clocks of a cluster may differ a little.
constexpr long kValidBefore = -24L * 3600;
constexpr std::size_t kMaxHostName = 256;

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

/// What OpenSSL gave; a null is an Error.
template <typename Pointer>
Pointer* made(Pointer* pointer, const char* what) {
  if (pointer == nullptr) fail(ErrorCode::kInternal, "OpenSSL could not make {}", what);
  return pointer;
}

void require(int answer, const char* what) {
  if (answer <= 0) fail(ErrorCode::kInternal, "OpenSSL could not {}", what);
}

Key make_key() { return {made(EVP_EC_gen("P-256"), "a key"), EVP_PKEY_free}; }

void add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension =
      made(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()), "an extension");
  require(X509_add_ext(certificate, extension, -1), "add an extension");
  X509_EXTENSION_free(extension);
}

struct Issuer {
  X509* certificate = nullptr;  ///< Null: signed by itself.
  EVP_PKEY* key = nullptr;
};

Certificate make_certificate(const std::string& name, EVP_PKEY* key, const Issuer& issuer,
                             const std::string& host_names) {
  Certificate certificate(made(X509_new(), "a certificate"), X509_free);
  X509* x = certificate.get();
  std::uint64_t serial = 0;
  if (::getrandom(&serial, sizeof serial, 0) != sizeof serial) {
    fail_errno(errno, "the system gives no random numbers");
  }
  require(X509_set_version(x, 2), "set a version");
  require(ASN1_INTEGER_set_uint64(X509_get_serialNumber(x), serial >> 1), "set a serial number");
  X509_gmtime_adj(X509_getm_notBefore(x), kValidBefore);
  X509_gmtime_adj(X509_getm_notAfter(x), kValidSeconds);
  require(X509_set_pubkey(x, key), "set a key");
  require(
      X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0),
      "set a name");
  X509* signer = issuer.certificate == nullptr ? x : issuer.certificate;
  require(X509_set_issuer_name(x, X509_get_subject_name(signer)), "set the issuer");
  if (issuer.certificate == nullptr) {
    add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign");
  } else {
    add_extension(x, signer, NID_basic_constraints, "critical,CA:FALSE");
    add_extension(x, signer, NID_subject_alt_name, host_names);
  }
  require(X509_sign(x, issuer.key == nullptr ? key : issuer.key, EVP_sha256()),
          "sign a certificate");
  return certificate;
}

void write_private(const fs::path& path, const std::function<bool(FILE*)>& write) {
  const int descriptor =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (descriptor < 0) {
    fail_errno(errno,
               format("cannot make '{}' (an older one is never overwritten)", path.string()));
  }
  FILE* file = ::fdopen(descriptor, "w");
  const bool written = write(file);
  const bool closed = ::fclose(file) == 0;
  if (!written || !closed) fail(ErrorCode::kUnknown, "cannot write '{}'", path.string());
}

void write_pair(const fs::path& folder, const std::string& name, X509* certificate, EVP_PKEY* key) {
  write_private(folder / (name + ".pem"),
                [&](FILE* file) { return PEM_write_X509(file, certificate) == 1; });
  write_private(folder / (name + ".key"), [&](FILE* file) {
    return PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr) == 1;
  });
}

bool is_address(const std::string& host) {
  return host.find(':') != host.npos || host.find_first_not_of("0123456789.") == host.npos;
}

std::string alternative_names(const std::vector<std::string>& hosts) {
  std::array<char, kMaxHostName> name{};
  std::string names = "DNS:localhost,IP:127.0.0.1,IP:::1";
  if (::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0') {
    names += format(",DNS:{}", name.data());
  }
  for (const std::string& host : hosts) {
    if (host.empty() || host.find(',') != host.npos) {
      fail(ErrorCode::kInvalidArgument, "'{}' is no name of a host", host);
    }
    names += format(",{}:{}", is_address(host) ? "IP" : "DNS", host);
  }
  return names;
}

}  // namespace

void make_certificates(const fs::path& folder, const std::vector<std::string>& hosts) {
  const std::string names = alternative_names(hosts);
  make_state_folder(folder);
  const Key authority_key = make_key();
  const Certificate authority =
      make_certificate("Harmonics cluster authority", authority_key.get(), {}, {});
  write_pair(folder, "ca", authority.get(), authority_key.get());
  const Issuer issuer{authority.get(), authority_key.get()};
  for (const char* role : {"server", "worker", "client"}) {
    const Key key = make_key();
    const Certificate certificate =
        make_certificate(format("harmonics {}", role), key.get(), issuer, names);
    write_pair(folder, role, certificate.get(), key.get());
  }
  std::string list = "# ROLES USER TOKEN\n";
  for (const char* role : {"submit", "view", "admin", "worker"}) {
    const std::string token = random_token();
    write_private(folder / format("{}.token", role),
                  [&](FILE* file) { return std::fputs((token + "\n").c_str(), file) >= 0; });
    list += format("{} {} {}\n", role, role, token);
  }
  write_private(folder / "tokens", [&](FILE* file) { return std::fputs(list.c_str(), file) >= 0; });
}

}  // namespace harmonics
