#include <harmonics/schedule/manifest.h>

#include <gtest/gtest.h>

#include <filesystem>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/format.h>

#include <fuzz_mutation_testing.h>
#include <temporary_folder_testing.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_schedule {
namespace {

const std::string kDigest(64, 'a');

Manifest two_stages() {
  return {{20, {{"net_0", "net.1", kDigest}, {"net_1", "net.2", kDigest}}},
          SavedStep{10, {{"net_0", "net.3", kDigest}}}};
}

TEST(Manifest, ComesBackFromItsText) {
  for (const Manifest& manifest : {two_stages(), Manifest{{7, {{"", "a", kDigest}}}, SavedStep{}},
                                   Manifest{{7, {{"x\"y\n", "a b", kDigest}}}, std::nullopt}}) {
    EXPECT_EQ(decode_manifest(encode_manifest(manifest), "text"), manifest);
  }
}

TEST(Manifest, IsToldFromOtherFilesAndWrittenWhole) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "manifest";
  write_manifest(path, two_stages());
  EXPECT_TRUE(is_manifest(path));
  EXPECT_EQ(read_manifest(path), two_stages());
  write_text_file(path, "{}");
  EXPECT_FALSE(is_manifest(path));
  EXPECT_THROW(static_cast<void>(read_manifest(path)), Error);
  std::filesystem::remove(path);
  EXPECT_THROW(static_cast<void>(is_manifest(path)), Error);
}

TEST(Manifest, RefusesWhatLeadsElsewhere) {
  for (const std::string& file :
       {std::string("../secret"), std::string("/etc/passwd"), std::string(".."), std::string(""),
        std::string("a\0b", 3), std::string(256, 'x')}) {
    Manifest manifest = two_stages();
    manifest.latest.stages[1].file = file;
    EXPECT_THROW(static_cast<void>(decode_manifest(encode_manifest(manifest), "text")), Error)
        << file;
  }
  Manifest manifest = two_stages();
  manifest.latest.stages[0].sha256 = "12";
  EXPECT_THROW(static_cast<void>(decode_manifest(encode_manifest(manifest), "text")), Error);
  manifest = two_stages();
  manifest.latest.stages.clear();
  EXPECT_THROW(static_cast<void>(decode_manifest(encode_manifest(manifest), "text")), Error);
}

TEST(Manifest, HoldsNoMoreThanItsLimit) {
  Manifest manifest = two_stages();
  while (manifest.latest.stages.size() < kMaxManifestStages) {
    manifest.latest.stages.push_back(manifest.latest.stages.front());
  }
  EXPECT_EQ(decode_manifest(encode_manifest(manifest), "text"), manifest);
  manifest.latest.stages.push_back(manifest.latest.stages.front());
  EXPECT_THROW(static_cast<void>(decode_manifest(encode_manifest(manifest), "text")), Error);
}

TEST(Manifest, BrokenTextsAreErrors) {
  FuzzMutation mutation(
      3, {encode_manifest(two_stages()), encode_manifest({{0, {}}, {}})},
      {"\"previous\":", "\"stages\":[]", "\"file\":\"../x\"", "null", "-1", "{}", "[]", kDigest});
  for (int i = 0; i < 20'000; ++i) {
    const std::string input = mutation.next();
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
}

}  // namespace
}  // namespace harmonics::inline in_schedule
