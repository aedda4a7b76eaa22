#include <harmonics/server/certificates.h>

#include <gtest/gtest.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/server/client_file.h>
#include <harmonics/server/state_folder.h>

#include <temporary_folder_testing.h>

#include "tokens.h"
#include "x509.h"

namespace harmonics::inline in_server {
namespace {

namespace fs = std::filesystem;

class CertificatesTest : public testing::Test {
 protected:
  static unsigned mode_of(const fs::path& path) {
    struct stat status {};
    ::stat(path.c_str(), &status);
    return status.st_mode & 0777;
  }
  std::optional<Identity> holder(const fs::path& token) const {
    Tokens tokens("0123456789abcdef", "ann");
    tokens.add_file(tls_ / "tokens");
    return tokens.identify(read_token_file(token), {});
  }
  static bool good_for(const fs::path& file, int purpose) {
    return X509_check_purpose(read_certificate(file).get(), purpose, 0) == 1;
  }
  static bool names(const fs::path& file, const char* host) {
    return X509_check_host(read_certificate(file).get(), host, 0, 0, nullptr) == 1;
  }
  static bool signed_by(const fs::path& file, const fs::path& authority) {
    const Key key(X509_get_pubkey(read_certificate(authority).get()), EVP_PKEY_free);
    return X509_verify(read_certificate(file).get(), key.get()) == 1;
  }

  TemporaryFolder folder_;
  const fs::path tls_ = folder_ / "tls";
};

TEST_F(CertificatesTest, ArePrivateAndNeverOverwritten) {
  make_certificates(tls_, {.hosts = {"head.example", "10.0.0.1"}});
  for (const char* name : {"ca.key", "peers.key", "server.key", "worker.key", "client.key",
                           "peer.key", "admin.token", "tokens", "hosts/10.0.0.1/worker.key"}) {
    EXPECT_EQ(mode_of(tls_ / name), 0600u) << name;
  }
  EXPECT_TRUE(holder(tls_ / "worker.token")->may_work);
  const std::string before = read_text_file(tls_ / "server.pem");
  EXPECT_THROW(make_certificates(tls_, {}), Error);
  EXPECT_THROW(make_certificates(tls_, {.hosts = {"head.example"}}), Error);
  EXPECT_EQ(read_text_file(tls_ / "server.pem"), before);
  for (const char* wrong : {"a,b", "", "../a", "a/b", ".hidden"}) {
    EXPECT_THROW(make_certificates(folder_ / "other", {.hosts = {wrong}}), Error) << wrong;
    EXPECT_THROW(make_certificates(folder_ / "other", {.users = {wrong}}), Error) << wrong;
  }
  EXPECT_THROW(make_certificates(folder_ / "other", {.users = {"ann:king"}}), Error);
}

TEST_F(CertificatesTest, OnlyTheServerHasOneThatAClientTakesForTheServers) {
  make_certificates(tls_, {.hosts = {"head.example"}, .users = {"ann"}});
  EXPECT_TRUE(good_for(tls_ / "server.pem", X509_PURPOSE_SSL_SERVER));
  EXPECT_TRUE(names(tls_ / "server.pem", "head.example"));
  for (const char* name :
       {"worker.pem", "client.pem", "hosts/head.example/worker.pem", "users/ann/client.pem"}) {
    EXPECT_TRUE(good_for(tls_ / name, X509_PURPOSE_SSL_CLIENT)) << name;
    EXPECT_FALSE(good_for(tls_ / name, X509_PURPOSE_SSL_SERVER)) << name;
    EXPECT_FALSE(names(tls_ / name, "head.example")) << name;
    EXPECT_FALSE(names(tls_ / name, "localhost")) << name;
    EXPECT_TRUE(signed_by(tls_ / name, tls_ / "ca.pem")) << name;
  }
  // A worker's door is signed by an authority that no client has.
  const fs::path peer = tls_ / "hosts" / "head.example" / "peer.pem";
  EXPECT_TRUE(names(peer, "head.example"));
  EXPECT_FALSE(signed_by(peer, tls_ / "ca.pem"));
  EXPECT_TRUE(signed_by(peer, tls_ / "peers.pem"));
  EXPECT_FALSE(fs::exists(tls_ / "users" / "ann" / "peers.pem"));
}

TEST_F(CertificatesTest, AFolderThatIsThereGetsAnotherMachineAndAnotherUser) {
  make_certificates(tls_, {.hosts = {"head.example"}});
  const auto said = make_certificates(tls_, {.hosts = {"gpu-6.example"}, .users = {"ann:admin"}});
  ASSERT_EQ(said.size(), 2u);
  EXPECT_NE(said[0].find("gpu-6.example"), std::string::npos);
  const fs::path host = tls_ / "hosts" / "gpu-6.example";
  EXPECT_TRUE(signed_by(host / "worker.pem", tls_ / "ca.pem"));
  EXPECT_TRUE(names(host / "peer.pem", "gpu-6.example"));
  EXPECT_EQ(holder(host / "worker.token")->user, "gpu-6.example");
  EXPECT_TRUE(holder(host / "worker.token")->may_work);
  const fs::path user = tls_ / "users" / "ann";
  EXPECT_TRUE(holder(user / "admin.token")->may_administer);
  const ClientFile file = read_client_file(user / "client.yml");
  EXPECT_EQ(file.scheduler, "head.example:50051");
  EXPECT_EQ(file.tls, fs::absolute(user) / "");
  EXPECT_FALSE(names(tls_ / "server.pem", "gpu-6.example"));
}

TEST_F(CertificatesTest, AllHostsOfADomainMayShareOne) {
  make_certificates(tls_, {.hosts = {"head.example", "*.workers.example"}});
  const fs::path peer = tls_ / "hosts" / "*.workers.example" / "peer.pem";
  EXPECT_TRUE(names(peer, "10-0-0-7.workers.example"));
  EXPECT_FALSE(names(peer, "head.example"));
  EXPECT_FALSE(names(peer, "a.b.workers.example"));
  EXPECT_THROW(make_certificates(tls_, {.hosts = {"*"}}), Error);
  EXPECT_THROW(make_certificates(tls_, {.hosts = {"a.*.example"}}), Error);
}

TEST_F(CertificatesTest, TheClientFileNamesThePortOfTheServer) {
  make_certificates(tls_, {.hosts = {"head.example"}, .users = {"ann"}, .port = 6000});
  EXPECT_EQ(read_client_file(tls_ / "users" / "ann" / "client.yml").scheduler, "head.example:6000");
}

TEST_F(CertificatesTest, WhatIsMissingIsMadeAgainAndWithoutTheKeyNothingIs) {
  make_certificates(tls_, {});
  fs::remove(tls_ / "server.pem");
  fs::remove(tls_ / "server.key");
  EXPECT_EQ(make_certificates(tls_, {}).size(), 1u);
  EXPECT_TRUE(signed_by(tls_ / "server.pem", tls_ / "ca.pem"));
  fs::remove(tls_ / "ca.key");
  EXPECT_THROW(make_certificates(tls_, {.users = {"ann"}}), Error);
}

TEST_F(CertificatesTest, RevokedOnesAreListedAndTheirTokensAreGone) {
  make_certificates(tls_, {.hosts = {"gpu-1"}, .users = {"ann", "bob"}});
  const fs::path saved = folder_ / "token";
  fs::copy_file(tls_ / "users" / "ann" / "submit.token", saved);
  const std::string serial = serial_of(read_certificate(tls_ / "users/ann/client.pem").get());
  EXPECT_TRUE(revoked_serials(tls_ / "revoked.pem").empty());
  make_certificates(tls_, {.revoked = {"ann"}});
  EXPECT_EQ(revoked_serials(tls_ / "revoked.pem"), std::vector<std::string>{serial});
  EXPECT_FALSE(holder(saved));
  EXPECT_TRUE(holder(tls_ / "users" / "bob" / "submit.token"));
  make_certificates(tls_, {.revoked = {"gpu-1"}});
  EXPECT_EQ(revoked_serials(tls_ / "revoked.pem").size(), 2u);
  EXPECT_THROW(make_certificates(tls_, {.revoked = {"ann"}}), Error);
  EXPECT_THROW(make_certificates(tls_, {.revoked = {"nobody"}}), Error);
  make_certificates(tls_, {.users = {"ann"}});  // a new one, for a new start
  EXPECT_NE(serial_of(read_certificate(tls_ / "users/ann/client.pem").get()), serial);
}

TEST_F(CertificatesTest, TheEndIsStatedAndMayBeChosen) {
  make_certificates(tls_, {.users = {"ann"}, .days = 1});
  const std::string soon = certificate_end(tls_ / "users" / "ann" / "client.pem");
  EXPECT_EQ(soon.size(), std::string("2029-02-18").size());
  EXPECT_LT(soon, certificate_end(tls_ / "ca.pem"));
}

}  // namespace
}  // namespace harmonics::inline in_server
