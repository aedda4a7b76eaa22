// Keys, certificates and lists of revoked ones, in terms of OpenSSL (private to server).
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace harmonics::inline in_server {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

/// Who signs; both null: a certificate signs itself and is an authority.
struct Issuer {
  X509* certificate = nullptr;
  EVP_PKEY* key = nullptr;
};

/// What a certificate says.
struct CertificateText {
  std::string name{};   ///< For people.
  std::string names{};  ///< "DNS:head.example,IP:192.0.2.7,URI:harmonics://server"
  std::string usage{};  ///< "serverAuth,clientAuth"
  std::chrono::days valid{};
};

[[nodiscard]] Key make_key();
/// Signed by `issuer`, with a serial number of chance. Valid from a day ago on: clocks differ.
[[nodiscard]] Certificate make_certificate(EVP_PKEY* key, const Issuer& issuer,
                                           const CertificateText& text);

[[nodiscard]] std::string pem_of(X509* certificate);
[[nodiscard]] std::string pem_of(EVP_PKEY* key);
/// An Error names the file.
[[nodiscard]] Certificate read_certificate(const std::filesystem::path& file);
[[nodiscard]] Key read_key(const std::filesystem::path& file);

/// In hexadecimal digits.
[[nodiscard]] std::string serial_of(const X509* certificate);
/// The last day of a certificate, "2029-02-18".
[[nodiscard]] std::string last_day_of(const X509* certificate);

/// A list of revoked certificates of `issuer` (PEM), valid as long as the issuer is.
[[nodiscard]] std::string revocation_list(const Issuer& issuer,
                                          const std::vector<std::string>& serials);
/// The serial numbers of such a list; none where the file is not there.
[[nodiscard]] std::vector<std::string> revoked_serials(const std::filesystem::path& file);

}  // namespace harmonics::inline in_server
