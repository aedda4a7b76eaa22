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
