#include "tls_testing.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <string>

#include <harmonics/base/error.h>

namespace harmonics::inline in_transport {
namespace {

using KeyPtr = std::unique_ptr<EVP_PKEY, decltype(&::EVP_PKEY_free)>;
using CertificatePtr = std::unique_ptr<X509, decltype(&::X509_free)>;
using FilePtr = std::unique_ptr<std::FILE, decltype(&std::fclose)>;

struct Identity {
  KeyPtr key{nullptr, &::EVP_PKEY_free};
  CertificatePtr certificate{nullptr, &::X509_free};
};

void extend(X509* certificate, int kind, const char* value) {
  X509V3_CTX context{};
  X509_EXTENSION* extension = ::X509V3_EXT_conf_nid(nullptr, &context, kind, value);
  ::X509_add_ext(certificate, extension, -1);
  ::X509_EXTENSION_free(extension);
}

// Signed by `issuer`, or by itself when that is null.
Identity make_identity(const char* name, const Identity* issuer, bool authority) {
  static long serial = 1;
  Identity out;
  out.key.reset(::EVP_EC_gen("P-256"));
  out.certificate.reset(::X509_new());
  X509* certificate = out.certificate.get();
  ::X509_set_version(certificate, 2);
  ::ASN1_INTEGER_set(::X509_get_serialNumber(certificate), serial++);
  ::X509_gmtime_adj(::X509_getm_notBefore(certificate), -3600);
  ::X509_gmtime_adj(::X509_getm_notAfter(certificate), 24 * 3600);
  ::X509_set_pubkey(certificate, out.key.get());
  X509_NAME* subject = ::X509_get_subject_name(certificate);
  ::X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
  ::X509_set_issuer_name(certificate, issuer != nullptr
                                          ? ::X509_get_subject_name(issuer->certificate.get())
                                          : subject);
  extend(certificate, NID_basic_constraints, authority ? "critical,CA:TRUE" : "CA:FALSE");
  if (!authority) extend(certificate, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
  ::X509_sign(certificate, issuer != nullptr ? issuer->key.get() : out.key.get(), ::EVP_sha256());
  return out;
}

void write_identity(const std::filesystem::path& folder, const std::string& name,
                    const Identity& identity) {
  const FilePtr key(std::fopen((folder / (name + ".key")).c_str(), "w"), &std::fclose);
  const FilePtr certificate(std::fopen((folder / (name + ".pem")).c_str(), "w"), &std::fclose);
  if (!key || !certificate ||
      ::PEM_write_PrivateKey(key.get(), identity.key.get(), nullptr, nullptr, 0, nullptr,
                             nullptr) != 1 ||
      ::PEM_write_X509(certificate.get(), identity.certificate.get()) != 1) {
    fail(ErrorCode::kInternal, "cannot write test certificates into {}", folder.string());
  }
}

}  // namespace

TestCertificates::TestCertificates() {
  const Identity authority = make_identity("Test authority", nullptr, true);
  write_identity(folder_, "authority", authority);
  write_identity(folder_, "host", make_identity("localhost", &authority, false));
  write_identity(folder_, "stranger", make_identity("localhost", nullptr, false));
}

TlsOptions TestCertificates::options() const {
  return {(folder_ / "host.pem").string(), (folder_ / "host.key").string(),
          (folder_ / "authority.pem").string(), ""};
}

TlsOptions TestCertificates::stranger() const {
  return {(folder_ / "stranger.pem").string(), (folder_ / "stranger.key").string(),
          (folder_ / "authority.pem").string(), ""};
}

}  // namespace harmonics::inline in_transport
