#include "peer_check.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>

namespace harmonics::inline in_rpc {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxListBytes = 4 << 20;

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using List = std::unique_ptr<X509_CRL, decltype(&X509_CRL_free)>;

template <typename Kind>
Kind* parse(const std::string& pem, Kind* (*read)(BIO*, Kind**, pem_password_cb*, void*)) {
  const Bio memory(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free);
  return memory ? read(memory.get(), nullptr, nullptr, nullptr) : nullptr;
}

std::string host_of(const std::string& dialled) {
  const std::size_t colon = dialled.rfind(':');
  const bool has_port = colon != dialled.npos && dialled.find(':') == colon;
  std::string host = has_port || dialled.starts_with('[') ? dialled.substr(0, colon) : dialled;
  if (dialled.starts_with('[')) host = dialled.substr(1, dialled.find(']') - 1);
  return host;
}

bool names(X509* certificate, const std::string& host) {
  return X509_check_ip_asc(certificate, host.c_str(), 0) == 1 ||
         X509_check_host(certificate, host.data(), host.size(), 0, nullptr) == 1;
}

std::string refuse_revoked(X509* certificate, const PeerRules& rules) {
  if (rules.revoked.empty() || !fs::exists(rules.revoked)) return {};
  const List list(parse(read_text_file(rules.revoked, kMaxListBytes), &PEM_read_bio_X509_CRL),
                  X509_CRL_free);
  const Certificate authority(
      parse(read_text_file(rules.authority, kMaxListBytes), &PEM_read_bio_X509), X509_free);
  const Key key(authority ? X509_get_pubkey(authority.get()) : nullptr, EVP_PKEY_free);
  if (!list || !key || X509_CRL_verify(list.get(), key.get()) != 1) {
    return format("'{}' is no list of revoked certificates that '{}' has signed",
                  rules.revoked.string(), rules.authority.string());
  }
  X509_REVOKED* entry = nullptr;
  const bool found = X509_CRL_get0_by_cert(list.get(), &entry, certificate) == 1;
  return found ? "its certificate was revoked" : "";
}

}  // namespace

std::string refuse_peer(const std::string& pem, const PeerRules& rules, const std::string& host) {
  try {
    const Certificate certificate(parse(pem, &PEM_read_bio_X509), X509_free);
    if (!certificate) return "it shows no certificate";
    if (rules.names_host && !names(certificate.get(), host_of(host))) {
      return format("its certificate does not name '{}'", host_of(host));
    }
    return refuse_revoked(certificate.get(), rules);
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace harmonics::inline in_rpc
