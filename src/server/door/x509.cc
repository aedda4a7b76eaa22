#include "x509.h"

#include <openssl/bn.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <functional>
#include <span>

#include <harmonics/base/entropy.h>
#include <harmonics/base/error.h>
#include <harmonics/base/file.h>

namespace harmonics::inline in_server {
namespace {

namespace fs = std::filesystem;

constexpr long kDaySeconds = 24L * 3600;
constexpr std::size_t kMaxPemBytes = 4 << 20;

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using RevocationList = std::unique_ptr<X509_CRL, decltype(&X509_CRL_free)>;
using Number = std::unique_ptr<BIGNUM, decltype(&BN_free)>;

/// What OpenSSL gave; a null is an Error.
template <typename Pointer>
Pointer* made(Pointer* pointer, const char* what) {
  if (pointer == nullptr) fail(ErrorCode::kInternal, "OpenSSL could not make {}", what);
  return pointer;
}

void require(int answer, const char* what) {
  if (answer <= 0) fail(ErrorCode::kInternal, "OpenSSL could not {}", what);
}

void add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension =
      made(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()), "an extension");
  const int added = X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
  require(added, "add an extension");
}

std::uint64_t random_serial() {
  std::uint64_t serial = 0;
  fill_entropy(std::as_writable_bytes(std::span(&serial, 1)));
  return (serial >> 1) | 1;
}

std::string text_of(const std::function<int(BIO*)>& write) {
  const Bio memory(made(BIO_new(BIO_s_mem()), "a buffer"), BIO_free);
  require(write(memory.get()), "write PEM");
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

template <typename Kind>
Kind* read_pem(const fs::path& file, Kind* (*read)(BIO*, Kind**, pem_password_cb*, void*),
               const char* what) {
  const std::string text = read_text_file(file, kMaxPemBytes);
  const Bio memory(made(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), "a buffer"),
                   BIO_free);
  Kind* found = read(memory.get(), nullptr, nullptr, nullptr);
  if (found == nullptr) {
    fail(ErrorCode::kInvalidArgument, "'{}' holds no {} in PEM", file.string(), what);
  }
  return found;
}

std::string hex_of(const ASN1_INTEGER* number) {
  const Number value(made(ASN1_INTEGER_to_BN(number, nullptr), "a number"), BN_free);
  char* text = made(BN_bn2hex(value.get()), "digits");
  const std::string digits = text;
  OPENSSL_free(text);
  return digits;
}

void revoke(X509_CRL* list, const std::string& serial) {
  BIGNUM* parsed = nullptr;
  require(BN_hex2bn(&parsed, serial.c_str()), "read a serial number");
  const Number value(parsed, BN_free);
  X509_REVOKED* entry = made(X509_REVOKED_new(), "an entry");
  ASN1_INTEGER* number = made(BN_to_ASN1_INTEGER(value.get(), nullptr), "a number");
  ASN1_TIME* now = made(X509_gmtime_adj(nullptr, 0), "a time");
  const int set = X509_REVOKED_set_serialNumber(entry, number) > 0 &&
                  X509_REVOKED_set_revocationDate(entry, now) > 0;
  ASN1_INTEGER_free(number);
  ASN1_TIME_free(now);
  if (set == 0) X509_REVOKED_free(entry);
  require(set, "fill an entry");
  require(X509_CRL_add0_revoked(list, entry), "add an entry");
}

}  // namespace

Key make_key() { return {made(EVP_EC_gen("P-256"), "a key"), EVP_PKEY_free}; }

Certificate make_certificate(EVP_PKEY* key, const Issuer& issuer, const CertificateText& text) {
  Certificate certificate(made(X509_new(), "a certificate"), X509_free);
  X509* x = certificate.get();
  require(X509_set_version(x, 2), "set a version");
  require(ASN1_INTEGER_set_uint64(X509_get_serialNumber(x), random_serial()), "set a number");
  X509_gmtime_adj(X509_getm_notBefore(x), -kDaySeconds);
  X509_gmtime_adj(X509_getm_notAfter(x), text.valid.count() * kDaySeconds);
  require(X509_set_pubkey(x, key), "set a key");
  require(X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_UTF8,
                                     reinterpret_cast<const unsigned char*>(text.name.c_str()), -1,
                                     -1, 0),
          "set a name");
  X509* signer = issuer.certificate == nullptr ? x : issuer.certificate;
  require(X509_set_issuer_name(x, X509_get_subject_name(signer)), "set the issuer");
  if (issuer.certificate == nullptr) {
    add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign");
  } else {
    add_extension(x, signer, NID_basic_constraints, "critical,CA:FALSE");
    add_extension(x, signer, NID_key_usage, "critical,digitalSignature");
    add_extension(x, signer, NID_ext_key_usage, text.usage);
    add_extension(x, signer, NID_subject_alt_name, text.names);
  }
  require(X509_sign(x, issuer.key == nullptr ? key : issuer.key, EVP_sha256()),
          "sign a certificate");
  return certificate;
}

std::string pem_of(X509* certificate) {
  return text_of([&](BIO* out) { return PEM_write_bio_X509(out, certificate); });
}

std::string pem_of(EVP_PKEY* key) {
  return text_of([&](BIO* out) {
    return PEM_write_bio_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

Certificate read_certificate(const fs::path& file) {
  return {read_pem(file, &PEM_read_bio_X509, "certificate"), X509_free};
}

Key read_key(const fs::path& file) {
  return {read_pem(file, &PEM_read_bio_PrivateKey, "private key"), EVP_PKEY_free};
}

std::string serial_of(const X509* certificate) {
  return hex_of(X509_get0_serialNumber(certificate));
}

std::string last_day_of(const X509* certificate) {
  std::tm time{};
  require(ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &time), "read a time");
  return format("{:04}-{:02}-{:02}", time.tm_year + 1900, time.tm_mon + 1, time.tm_mday);
}

std::string revocation_list(const Issuer& issuer, const std::vector<std::string>& serials) {
  const RevocationList list(made(X509_CRL_new(), "a list"), X509_CRL_free);
  require(X509_CRL_set_version(list.get(), 1), "set a version");
  require(X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(issuer.certificate)),
          "set the issuer");
  ASN1_TIME* now = made(X509_gmtime_adj(nullptr, 0), "a time");
  const int dated = X509_CRL_set1_lastUpdate(list.get(), now);
  ASN1_TIME_free(now);
  require(dated, "set a time");
  require(X509_CRL_set1_nextUpdate(list.get(), X509_get0_notAfter(issuer.certificate)),
          "set a time");
  for (const std::string& serial : serials) revoke(list.get(), serial);
  require(X509_CRL_sort(list.get()), "sort a list");
  require(X509_CRL_sign(list.get(), issuer.key, EVP_sha256()), "sign a list");
  return text_of([&](BIO* out) { return PEM_write_bio_X509_CRL(out, list.get()); });
}

std::vector<std::string> revoked_serials(const fs::path& file) {
  std::vector<std::string> serials;
  if (!fs::exists(file)) return serials;
  const RevocationList list(read_pem(file, &PEM_read_bio_X509_CRL, "list of revoked certificates"),
                            X509_CRL_free);
  const STACK_OF(X509_REVOKED)* entries = X509_CRL_get_REVOKED(list.get());
  for (int i = 0; i < sk_X509_REVOKED_num(entries); ++i) {
    serials.push_back(hex_of(X509_REVOKED_get0_serialNumber(sk_X509_REVOKED_value(entries, i))));
  }
  return serials;
}

}  // namespace harmonics::inline in_server
