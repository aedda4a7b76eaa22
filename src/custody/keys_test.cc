#include <harmonics/custody/keys.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/random.h>
#include <harmonics/custody/hex.h>

#include <error_testing.h>

#include "custody_testing.h"
#include "ed25519.h"

namespace harmonics::inline in_custody {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Bytes from_digits(std::string_view digits) {
  Bytes bytes(digits.size() / 2);
  EXPECT_TRUE(from_hex(digits, bytes));
  return bytes;
}

unsigned mode_of(const std::filesystem::path& path) {
  struct stat facts {};
  EXPECT_EQ(::stat(path.c_str(), &facts), 0);
  return facts.st_mode & 0777u;
}

// RFC 8032, section 7.1: tests 1 and 3.
TEST(Keys, GiveTheKnownAnswersOfEd25519) {
  const SigningKey one = SigningKey::from_seed(
      "one", from_digits("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"));
  EXPECT_EQ(key_text(one.public_key()),
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
  EXPECT_EQ(to_hex(one.sign({})),
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
            "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b");
  const SigningKey three = SigningKey::from_seed(
      "three", from_digits("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7"));
  EXPECT_EQ(to_hex(three.sign(from_digits("af82"))),
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
            "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a");
}

TEST(Keys, ASignatureVerifiesWithItsKeyAndMessageOnly) {
  const SigningKey key = test_key("a", 1);
  Signature signature = key.sign(bytes_of("message"));
  EXPECT_TRUE(verify_signature(key.public_key(), bytes_of("message"), signature));
  EXPECT_FALSE(verify_signature(key.public_key(), bytes_of("massage"), signature));
  EXPECT_FALSE(verify_signature(test_key("b", 2).public_key(), bytes_of("message"), signature));
  signature[40] ^= std::byte{1};
  EXPECT_FALSE(verify_signature(key.public_key(), bytes_of("message"), signature));
}

// What this build signs and accepts is what every build does.
TEST(Keys, AllLibrariesSignAndAcceptTheSame) {
  Random random(1, "ed25519");
  const auto fill = [&](auto& bytes) {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
  };
  for (int round = 0; round < 50; ++round) {
    Ed25519Seed seed;
    fill(seed);
    Bytes message(random.below(300));
    fill(message);
    const auto ours = make_ed25519_secret(seed);
    const auto openssl = make_openssl_secret(seed);
    PublicKey key = ours->public_key();
    ASSERT_EQ(key, openssl->public_key());
    Signature signature = ours->sign(message);
    ASSERT_EQ(signature, openssl->sign(message));
    EXPECT_TRUE(verify_ed25519(key, message, signature));
    EXPECT_TRUE(verify_with_openssl(key, message, signature));
    std::byte& hit = round % 2 == 0 ? signature[random.below(64)] : key[random.below(32)];
    hit ^= static_cast<std::byte>(1u << random.below(8));
    EXPECT_FALSE(verify_ed25519(key, message, signature)) << round;
    EXPECT_FALSE(verify_with_openssl(key, message, signature)) << round;
  }
}

// With the neutral element as key and as first half of a signature, and zero as second, the
// equation of RFC 8032 holds for every message; with the other points of small order for some.
TEST(Keys, PointsOfSmallOrderSignNothing) {
  const std::string zeros(62, '0'), ones(60, 'f');
  for (const std::string& digits :
       {"00" + zeros, "01" + zeros, "ec" + ones + "7f", "ed" + ones + "7f", "ee" + ones + "7f",
        std::string("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
        std::string("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a")}) {
    PublicKey point;
    ASSERT_TRUE(from_hex(digits, point));
    for (const std::byte sign : {std::byte{0}, std::byte{0x80}}) {
      point[31] = (point[31] & std::byte{0x7f}) | sign;
      EXPECT_TRUE(has_small_order(point)) << digits;
      Signature signature{std::byte{1}};
      for (int round = 0; round < 16; ++round) {
        const std::string message = std::to_string(round);
        EXPECT_FALSE(verify_ed25519(point, bytes_of(message), signature)) << digits;
        EXPECT_FALSE(verify_with_openssl(point, bytes_of(message), signature)) << digits;
      }
    }
  }
  EXPECT_FALSE(has_small_order(test_key("a", 1).public_key()));
}

TEST(Keys, AreKeptInFilesThatOnlyTheirOwnerReads) {
  const TemporaryFolder folder;
  const std::filesystem::path keys = folder.path() / "keys";
  const SigningKey made = SigningKey::make("alice");
  made.save(keys);
  EXPECT_EQ(mode_of(keys), 0700u);
  EXPECT_EQ(mode_of(keys / "alice.key"), 0600u);
  const SigningKey loaded = SigningKey::load(keys / "alice.key");
  EXPECT_EQ(loaded.name(), "alice");
  EXPECT_EQ(loaded.public_key(), made.public_key());
  EXPECT_EQ(loaded.sign(bytes_of("x")), made.sign(bytes_of("x")));
  const Roster roster = Roster::load(keys);
  ASSERT_NE(roster.find("alice"), nullptr);
  EXPECT_EQ(*roster.find("alice"), made.public_key());
  EXPECT_EQ(roster.name_of(made.public_key()), "alice");
  EXPECT_EQ(roster.find("bob"), nullptr);
}

TEST(Keys, ASecretThatOthersMayReadIsRefused) {
  const TemporaryFolder folder;
  SigningKey::make("alice").save(folder.path());
  ::chmod((folder.path() / "alice.key").c_str(), 0640);
  EXPECT_THAT(error_of([&] { (void)SigningKey::load(folder.path() / "alice.key"); }),
              HasSubstr("others may read"));
}

TEST(Keys, AreNeverOverwritten) {
  const TemporaryFolder folder;
  const SigningKey first = SigningKey::make("alice");
  first.save(folder.path());
  EXPECT_THAT(error_of([&] { SigningKey::make("alice").save(folder.path()); }),
              HasSubstr("exists already"));
  EXPECT_EQ(SigningKey::load(folder.path() / "alice.key").public_key(), first.public_key());
  std::filesystem::remove(folder.path() / "alice.key");
  EXPECT_THAT(error_of([&] { SigningKey::make("alice").save(folder.path()); }),
              HasSubstr("exists already"));
}

TEST(Keys, TheOnlyKeyOfAFolderSignsUnlessOneIsNamed) {
  const TemporaryFolder folder;
  const auto found = [&](const std::string& name) {
    return find_signing_key(folder.path(), name).name();
  };
  EXPECT_THAT(error_of([&] { (void)found(""); }), HasSubstr("harmonics keys new"));
  EXPECT_THAT(error_of([&] { (void)found("../x"); }), HasSubstr("no key '../x'"));
  SigningKey::make("alice").save(folder.path());
  EXPECT_EQ(found(""), "alice");
  SigningKey::make("bob").save(folder.path());
  EXPECT_EQ(found("bob"), "bob");
  EXPECT_THAT(error_of([&] { (void)found(""); }), HasSubstr("several keys"));
  EXPECT_THAT(error_of([&] { (void)found("carol"); }), HasSubstr("no key 'carol'"));
}

TEST(Keys, AFolderThatCannotBeMadeIsNamed) {
  const TemporaryFolder folder;
  write_text_file(folder / "file", "no folder");
  EXPECT_THAT(error_of([&] { make_key_folder(folder / "file" / "keys"); }),
              AllOf(HasSubstr("file/keys"), HasSubstr("Not a directory"), HasSubstr("--keys")));
}

TEST(Keys, TwoNewKeysDiffer) {
  EXPECT_NE(SigningKey::make("a").public_key(), SigningKey::make("a").public_key());
}

TEST(Keys, NamesAreSafeInFileNames) {
  for (const std::string_view good : {"alice", "a.b-c_d@host", "0"}) {
    EXPECT_EQ(key_name_problem(good), "") << good;
  }
  const std::string longest(kMaxCustodyName, 'a');
  EXPECT_EQ(key_name_problem(longest), "");
  for (const std::string& bad : {std::string(), std::string("../a"), std::string("a/b"),
                                 std::string(".a"), std::string("a b"), longest + "a"}) {
    EXPECT_NE(key_name_problem(bad), "") << bad;
    EXPECT_THROW((void)SigningKey::make(bad), Error) << bad;
  }
}

TEST(Keys, FilesThatAreNoKeysAreErrorsThatNameThem) {
  const TemporaryFolder folder;
  write_text_file(folder.path() / "x.pub", "harmonics-ed25519-public 00\n");
  EXPECT_THAT(error_of([&] { (void)Roster::load(folder.path()); }), HasSubstr("x.pub"));
  const std::filesystem::path key = folder.path() / "y.key";
  write_text_file(key, "garbage");
  ::chmod(key.c_str(), 0600);
  EXPECT_THAT(error_of([&] { (void)SigningKey::load(key); }), HasSubstr("y.key"));
  EXPECT_TRUE(Roster::load(folder.path() / "absent").keys().empty());
}

}  // namespace
}  // namespace harmonics::inline in_custody
