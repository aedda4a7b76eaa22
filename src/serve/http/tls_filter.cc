#include "tls_filter.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>

#include <harmonics/base/error.h>

namespace harmonics::inline in_serve {
namespace {

std::string tls_reason() {
  const unsigned long code = ::ERR_get_error();
  ::ERR_clear_error();
  if (code == 0) return "the connection broke";
  std::array<char, 256> text{};
  ::ERR_error_string_n(code, text.data(), text.size());
  return text.data();
}

}  // namespace

struct TlsIdentity::State {
  std::unique_ptr<SSL_CTX, decltype(&::SSL_CTX_free)> context{nullptr, &::SSL_CTX_free};
};

TlsIdentity::TlsIdentity(const FrontAccess& access) : state_(std::make_unique<State>()) {
  state_->context.reset(::SSL_CTX_new(::TLS_server_method()));
  SSL_CTX* context = state_->context.get();
  if (context == nullptr) fail(ErrorCode::kInternal, "no TLS context: {}", tls_reason());
  ::SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  ::SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  if (::SSL_CTX_use_certificate_chain_file(context, access.certificate_file.c_str()) != 1) {
    fail(ErrorCode::kInvalidArgument, "cannot use the certificate '{}': {}",
         access.certificate_file, tls_reason());
  }
  if (::SSL_CTX_use_PrivateKey_file(context, access.key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    fail(ErrorCode::kInvalidArgument, "cannot use the key '{}' with the certificate '{}': {}",
         access.key_file, access.certificate_file, tls_reason());
  }
  if (access.authority_file.empty()) return;
  if (::SSL_CTX_load_verify_locations(context, access.authority_file.c_str(), nullptr) != 1) {
    fail(ErrorCode::kInvalidArgument, "cannot use the authority '{}': {}", access.authority_file,
         tls_reason());
  }
  ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
}
TlsIdentity::~TlsIdentity() = default;

struct TlsFilter::State {
  std::unique_ptr<SSL, decltype(&::SSL_free)> ssl{nullptr, &::SSL_free};
  BIO* from_wire = nullptr;  // both belong to `ssl`
  BIO* to_wire = nullptr;
};

TlsFilter::TlsFilter(const TlsIdentity& identity) : state_(std::make_unique<State>()) {
  state_->ssl.reset(::SSL_new(identity.state_->context.get()));
  state_->from_wire = ::BIO_new(::BIO_s_mem());
  state_->to_wire = ::BIO_new(::BIO_s_mem());
  if (!state_->ssl || state_->from_wire == nullptr || state_->to_wire == nullptr) {
    ::BIO_free(state_->from_wire);
    ::BIO_free(state_->to_wire);
    fail(ErrorCode::kResourceExhausted, "no memory for a TLS connection");
  }
  ::SSL_set_bio(state_->ssl.get(), state_->from_wire, state_->to_wire);
  ::SSL_set_accept_state(state_->ssl.get());
}
TlsFilter::~TlsFilter() = default;

std::string TlsFilter::read(std::string_view wire) {
  ::ERR_clear_error();
  if (!wire.empty() &&
      ::BIO_write(state_->from_wire, wire.data(), static_cast<int>(wire.size())) < 0) {
    fail(ErrorCode::kResourceExhausted, "no memory for a TLS connection");
  }
  std::string plain;
  std::array<char, 16384> piece;
  for (;;) {
    const int got = ::SSL_read(state_->ssl.get(), piece.data(), static_cast<int>(piece.size()));
    if (got > 0) {
      plain.append(piece.data(), static_cast<std::size_t>(got));
      continue;
    }
    const int why = ::SSL_get_error(state_->ssl.get(), got);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return plain;
    if (!plain.empty()) return plain;  // the end comes next time
    fail(ErrorCode::kUnauthenticated, "no TLS with a client: {}", tls_reason());
  }
}

void TlsFilter::write(std::string_view plain) {
  std::size_t done = 0;
  while (done < plain.size()) {
    std::size_t count = 0;
    if (::SSL_write_ex(state_->ssl.get(), plain.data() + done, plain.size() - done, &count) != 1) {
      fail(ErrorCode::kUnavailable, "the TLS connection broke: {}", tls_reason());
    }
    done += count;
  }
}

std::string TlsFilter::take_wire() {
  std::string wire(::BIO_ctrl_pending(state_->to_wire), '\0');
  if (!wire.empty()) ::BIO_read(state_->to_wire, wire.data(), static_cast<int>(wire.size()));
  return wire;
}

}  // namespace harmonics::inline in_serve
