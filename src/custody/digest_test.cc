#include <harmonics/custody/digest.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <harmonics/base/error.h>

namespace harmonics::inline in_custody {
namespace {

std::string hashed(std::string_view text) { return digest_text(sha256(bytes_of(text))); }

// The messages and digests that NIST gives as examples for SHA-256 in FIPS 180-4.
TEST(Digest, GivesTheKnownAnswersOfSha256) {
  EXPECT_EQ(hashed(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hashed("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hashed("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hashed(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

std::string keyed(ByteSpan key, ByteSpan message) { return digest_text(hmac_sha256(key, message)); }

// Test cases 1, 2, 3, 4, 6 and 7 of RFC 4231 (the fifth is of a digest that is cut off).
TEST(Digest, GivesTheKnownAnswersOfHmac) {
  EXPECT_EQ(keyed(Bytes(20, std::byte{0x0b}), bytes_of("Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(keyed(bytes_of("Jefe"), bytes_of("what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(keyed(Bytes(20, std::byte{0xaa}), Bytes(50, std::byte{0xdd})),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  Bytes counted;
  for (unsigned i = 1; i <= 25; ++i) counted.push_back(static_cast<std::byte>(i));
  EXPECT_EQ(keyed(counted, Bytes(50, std::byte{0xcd})),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  const Bytes long_key(131, std::byte{0xaa});
  EXPECT_EQ(keyed(long_key, bytes_of("Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(keyed(long_key,
                  bytes_of("This is a test using a larger than block-size key and a larger than "
                           "block-size data. The key needs to be hashed before being used by the "
                           "HMAC algorithm.")),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(Digest, AnHmacMayHaveAnEmptyKeyAndMessage) {
  EXPECT_EQ(keyed({}, {}), "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

TEST(Digest, DoesNotDependOnHowTheBytesArrive) {
  const std::string text(1000, 'x');
  for (const std::size_t piece : {1u, 7u, 63u, 64u, 65u, 999u}) {
    Sha256 hash;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      hash.update(bytes_of(std::string_view(text).substr(at, piece)));
    }
    hash.update({});
    EXPECT_EQ(digest_text(hash.finish()), hashed(text)) << piece;
  }
}

TEST(Digest, MovesWithWhatItHasSeen) {
  Sha256 first;
  first.update(bytes_of("ab"));
  Sha256 second = std::move(first);
  second.update(bytes_of("c"));
  EXPECT_EQ(digest_text(second.finish()), hashed("abc"));
}

TEST(Digest, AFinishedDigestTakesNoMore) {
  Sha256 hash;
  (void)hash.finish();
  EXPECT_THROW(hash.update(bytes_of("more")), Error);
  EXPECT_THROW((void)hash.finish(), Error);
}

}  // namespace
}  // namespace harmonics::inline in_custody
