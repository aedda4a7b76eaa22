#include "tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <utility>

#include <harmonics/base/error.h>

namespace harmonics::inline in_transport {
namespace {

std::string openssl_reason() {
  const unsigned long code = ::ERR_get_error();
  ::ERR_clear_error();
  if (code == 0) return "the connection broke";
  std::array<char, 256> text{};
  ::ERR_error_string_n(code, text.data(), text.size());
  return text.data();
}

struct FreeSsl {
  void operator()(SSL* ssl) const { ::SSL_free(ssl); }
};
using SslPtr = std::unique_ptr<SSL, FreeSsl>;

// OpenSSL's own socket BIO would raise SIGPIPE when the peer is gone; this one answers an error.
int bio_write(BIO* bio, const char* data, int size) {
  ::BIO_clear_retry_flags(bio);
  const int fd = static_cast<int>(reinterpret_cast<std::intptr_t>(::BIO_get_data(bio)));
  const ssize_t count =
      ::send(fd, data, static_cast<std::size_t>(size), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) ::BIO_set_retry_write(bio);
  return static_cast<int>(count);
}

int bio_read(BIO* bio, char* data, int size) {
  ::BIO_clear_retry_flags(bio);
  const int fd = static_cast<int>(reinterpret_cast<std::intptr_t>(::BIO_get_data(bio)));
  const ssize_t count = ::recv(fd, data, static_cast<std::size_t>(size), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) ::BIO_set_retry_read(bio);
  return static_cast<int>(count);
}

long bio_control(BIO* /*bio*/, int command, long /*number*/, void* /*argument*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO* make_bio(int fd) {
  static BIO_METHOD* const kMethod = [] {
    BIO_METHOD* method =
        ::BIO_meth_new(::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "harmonics socket");
    ::BIO_meth_set_write(method, bio_write);
    ::BIO_meth_set_read(method, bio_read);
    ::BIO_meth_set_ctrl(method, bio_control);
    return method;
  }();
  BIO* bio = ::BIO_new(kMethod);
  if (bio == nullptr) fail(ErrorCode::kResourceExhausted, "no memory for a TLS connection");
  ::BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)));
  ::BIO_set_init(bio, 1);
  return bio;
}

// An SSL object serves one thread at a time, so reading and writing take turns; neither blocks.
class TlsStream final : public Stream {
 public:
  TlsStream(Descriptor socket, std::string peer, SslPtr ssl)
      : socket_(std::move(socket)), peer_(std::move(peer)), ssl_(std::move(ssl)) {}

  Transfer read_some(std::span<const iovec> pieces) override {
    const std::lock_guard lock(mutex_);
    Transfer total;
    for (const iovec& piece : pieces) {
      std::size_t done = 0;
      while (done < piece.iov_len) {
        std::size_t count = 0;
        ::ERR_clear_error();
        const int code = ::SSL_read_ex(ssl_.get(), static_cast<std::byte*>(piece.iov_base) + done,
                                       piece.iov_len - done, &count);
        if (code != 1) return stopped(code, total);
        done += count;
        total.bytes += count;
      }
    }
    return total;
  }

  Transfer write_some(std::span<const iovec> pieces, bool /*more*/) override {
    const std::lock_guard lock(mutex_);
    Transfer total;
    for (const iovec& piece : pieces) {
      std::size_t done = 0;
      while (done < piece.iov_len) {
        std::size_t count = 0;
        ::ERR_clear_error();
        const int code =
            ::SSL_write_ex(ssl_.get(), static_cast<const std::byte*>(piece.iov_base) + done,
                           piece.iov_len - done, &count);
        if (code != 1) return stopped(code, total);
        done += count;
        total.bytes += count;
      }
    }
    return total;
  }

  int fd() const override { return socket_.get(); }
  const std::string& peer() const override { return peer_; }
  void shut() override { ::shutdown(socket_.get(), SHUT_RDWR); }
  void part(Deadline until) override { part_socket(socket_.get(), until); }

 private:
  Transfer stopped(int code, Transfer total) {
    switch (::SSL_get_error(ssl_.get(), code)) {
      case SSL_ERROR_WANT_READ: total.wait = POLLIN; break;
      case SSL_ERROR_WANT_WRITE: total.wait = POLLOUT; break;
      case SSL_ERROR_ZERO_RETURN:
        if (total.bytes == 0) fail(ErrorCode::kUnavailable, "{} closed the connection", peer_);
        break;
      default:
        if (total.bytes == 0) {
          fail(ErrorCode::kUnavailable, "the connection to {} broke: {}", peer_, openssl_reason());
        }
    }
    return total;
  }

  Descriptor socket_;
  std::string peer_;
  std::mutex mutex_;
  SslPtr ssl_;
};

void shake_hands(SSL* ssl, int fd, const std::string& peer, Deadline deadline,
                 const WakeEvent* cancel) {
  for (;;) {
    ::ERR_clear_error();
    const int code = ::SSL_do_handshake(ssl);
    if (code == 1) return;
    const int error = ::SSL_get_error(ssl, code);
    if (error == SSL_ERROR_SYSCALL || error == SSL_ERROR_ZERO_RETURN) {
      fail(ErrorCode::kUnavailable,
           "{} closed the connection during the TLS handshake; does it have TLS options?", peer);
    }
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
      const long verified = ::SSL_get_verify_result(ssl);
      fail(ErrorCode::kUnauthenticated,
           "no TLS with {}: {}; both ends need TLS options, and certificates that the other trusts",
           peer,
           verified != X509_V_OK ? ::X509_verify_cert_error_string(verified) : openssl_reason());
    }
    if (!wait_for(fd, error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, deadline, cancel)) {
      fail(ErrorCode::kDeadlineExceeded, "{} did not finish the TLS handshake in time", peer);
    }
  }
}

bool is_address(const std::string& name) {
  std::array<std::byte, sizeof(in6_addr)> parsed;
  return ::inet_pton(AF_INET, name.c_str(), parsed.data()) == 1 ||
         ::inet_pton(AF_INET6, name.c_str(), parsed.data()) == 1;
}

}  // namespace

struct TlsContext::State {
  std::unique_ptr<SSL_CTX, decltype(&::SSL_CTX_free)> context{nullptr, &::SSL_CTX_free};
  Side side = Side::kConnecting;
  bool checks_peer = false;
};

TlsContext::TlsContext(const TlsOptions& options, Side side) : state_(std::make_unique<State>()) {
  state_->side = side;
  state_->context.reset(
      ::SSL_CTX_new(side == Side::kListening ? ::TLS_server_method() : ::TLS_client_method()));
  SSL_CTX* context = state_->context.get();
  if (context == nullptr) fail(ErrorCode::kInternal, "no TLS context: {}", openssl_reason());
  ::SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  ::SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // A peer that is gone is noticed by its socket; resumed sessions are not used.
  ::SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF);
  ::SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  ::SSL_CTX_set_num_tickets(context, 0);

  if (side == Side::kListening && options.certificate_file.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "the listening end of a TLS boundary needs a certificate_file");
  }
  if (!options.certificate_file.empty()) {
    if (::SSL_CTX_use_certificate_chain_file(context, options.certificate_file.c_str()) != 1) {
      fail(ErrorCode::kInvalidArgument, "cannot use the certificate '{}': {}",
           options.certificate_file, openssl_reason());
    }
    if (::SSL_CTX_use_PrivateKey_file(context, options.key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
      fail(ErrorCode::kInvalidArgument, "cannot use the key '{}' with the certificate '{}': {}",
           options.key_file, options.certificate_file, openssl_reason());
    }
  }
  if (!options.authority_file.empty()) {
    if (::SSL_CTX_load_verify_locations(context, options.authority_file.c_str(), nullptr) != 1) {
      fail(ErrorCode::kInvalidArgument, "cannot use the authority '{}': {}", options.authority_file,
           openssl_reason());
    }
    state_->checks_peer = true;
  } else if (side == Side::kConnecting) {
    // Without an authority of one's own, those that the system trusts.
    ::SSL_CTX_set_default_verify_paths(context);
    state_->checks_peer = true;
  }
  ::SSL_CTX_set_verify(
      context,
      state_->checks_peer ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT : SSL_VERIFY_NONE,
      nullptr);
}

TlsContext::~TlsContext() = default;

StreamPtr TlsContext::wrap(Descriptor socket, const std::string& expected_name, Deadline deadline,
                           const WakeEvent* cancel) {
  SslPtr ssl(::SSL_new(state_->context.get()));
  if (!ssl) fail(ErrorCode::kResourceExhausted, "no memory for a TLS connection");
  BIO* const bio = make_bio(socket.get());
  ::SSL_set_bio(ssl.get(), bio, bio);
  if (state_->side == Side::kListening) {
    ::SSL_set_accept_state(ssl.get());
  } else {
    if (is_address(expected_name)) {
      ::X509_VERIFY_PARAM_set1_ip_asc(::SSL_get0_param(ssl.get()), expected_name.c_str());
    } else {
      ::SSL_set_tlsext_host_name(ssl.get(), expected_name.c_str());
      ::SSL_set1_host(ssl.get(), expected_name.c_str());
    }
    ::SSL_set_connect_state(ssl.get());
  }
  shake_hands(ssl.get(), socket.get(), expected_name, deadline, cancel);
  return std::make_unique<TlsStream>(std::move(socket), expected_name, std::move(ssl));
}

}  // namespace harmonics::inline in_transport
