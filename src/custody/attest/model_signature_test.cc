// Signatures of models: what was signed is accepted, everything else is not.
#include <harmonics/custody/model_signature.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>

#include <harmonics/base/file.h>
#include <harmonics/base/json.h>
#include <harmonics/custody/base64.h>
#include <harmonics/custody/breach.h>
#include <harmonics/custody/dsse.h>

#include "custody_testing.h"

namespace harmonics::inline in_custody {
namespace {

using ::testing::HasSubstr;

TEST(Base64Test, OneValueHasOneText) {
  for (const auto& [plain, text] : std::vector<std::pair<std::string, std::string>>{
           {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}}) {
    EXPECT_EQ(to_base64(bytes_of(plain)), text);
    ASSERT_TRUE(from_base64(text).has_value()) << text;
    EXPECT_EQ(text_of(*from_base64(text)), plain);
  }
  for (const char* text : {"Z", "Zg=", "Zg", "Zh==", "Zm9=", "Zm 9v", "====", "Zg==Zg==", "Zm-_"}) {
    EXPECT_FALSE(from_base64(text).has_value()) << text;
  }
}

class ModelSignatureTest : public ::testing::Test {
 protected:
  ModelSignatureTest() {
    std::filesystem::create_directories(model_ / "shards");
    write_text_file(model_ / "config.json", "{}");
    write_text_file(model_ / "shards" / "0.safetensors", std::string(5000, 'a'));
    write_text_file(model_ / "shards" / "1.safetensors", std::string(300, 'b'));
    bundle_ = sign_manifest(model_manifest(model_, {"model.sig"}), key_);
    write_text_file(signature_, bundle_);
  }

  void check() const { check_model(model_, check_bundle(bundle_, key_.public_key()), signature_); }
  [[nodiscard]] std::optional<Breach> verdict() const {
    return breach_of([&] { check(); });
  }
  // Changes the statement and signs it again: what someone who holds the key could write.
  void resign(const std::function<void(Json&)>& change) {
    Json bundle = Json::parse(bundle_, "bundle");
    DsseEnvelope envelope = envelope_of(bundle.at("dsseEnvelope"), "bundle");
    Json statement = statement_of(envelope, "bundle");
    change(statement);
    envelope.payload = statement.dump();
    envelope.signatures = {
        {"", key_.sign(dsse_signed_bytes(envelope.payload_type, envelope.payload))}};
    bundle.set("dsseEnvelope", envelope_json(envelope));
    bundle_ = bundle.dump();
  }
  void change_bundle(const std::function<void(Json&)>& change) {
    Json bundle = Json::parse(bundle_, "bundle");
    change(bundle);
    bundle_ = bundle.dump();
  }

  const TemporaryFolder folder_;
  const std::filesystem::path model_ = folder_.path() / "model";
  const std::filesystem::path signature_ = model_ / "model.sig";
  const EcSigningKey key_ = EcSigningKey::make();
  std::string bundle_;
};

TEST_F(ModelSignatureTest, AnUnchangedModelIsAccepted) {
  EXPECT_NO_THROW(check());
  EXPECT_TRUE(is_model_bundle(bundle_));
  EXPECT_EQ(bundle_hint(bundle_), key_.public_key().hint());
  const ModelManifest manifest = check_bundle(bundle_, key_.public_key());
  EXPECT_EQ(manifest.model, "model");
  ASSERT_EQ(manifest.files.size(), 3u);
  EXPECT_EQ(manifest.files[1].name, "shards/0.safetensors");
  EXPECT_EQ(digest_text(manifest.files[0].digest), digest_text(sha256(bytes_of("{}"))));
}

TEST_F(ModelSignatureTest, OneFileIsAModelToo) {
  const std::filesystem::path file = model_ / "config.json";
  bundle_ = sign_manifest(model_manifest(file, {}), key_);
  EXPECT_NO_THROW(check_model(file, check_bundle(bundle_, key_.public_key()), signature_));
  write_text_file(file, "{ }");
  EXPECT_EQ(
      breach_of([&] { check_model(file, check_bundle(bundle_, key_.public_key()), signature_); }),
      Breach::kAlteredModel);
}

TEST_F(ModelSignatureTest, AFlippedBitOfAFileIsNamed) {
  std::fstream file(model_ / "shards" / "0.safetensors",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4321).put('a' ^ 1);
  file.close();
  try {
    check();
    FAIL();
  } catch (const CustodyError& error) {
    EXPECT_EQ(error.breach(), Breach::kAlteredModel);
    EXPECT_THAT(error.what(), HasSubstr("shards/0.safetensors"));
  }
}

TEST_F(ModelSignatureTest, AFileTooMuchOrMissingOrRenamedIsNamed) {
  write_text_file(model_ / "extra.bin", "x");
  EXPECT_EQ(verdict(), Breach::kAlteredModel);
  remove_tree(model_ / "extra.bin");
  EXPECT_EQ(verdict(), std::nullopt);
  std::filesystem::rename(model_ / "shards" / "1.safetensors", model_ / "shards" / "2.safetensors");
  EXPECT_EQ(verdict(), Breach::kAlteredModel);
  remove_tree(model_ / "shards" / "2.safetensors");
  EXPECT_EQ(verdict(), Breach::kAlteredModel);
}

TEST_F(ModelSignatureTest, ALinkIsRefused) {
  std::filesystem::create_symlink("config.json", model_ / "link.json");
  EXPECT_THROW(check(), Error);
  EXPECT_THROW((void)model_manifest(model_, {}), Error);
}

TEST_F(ModelSignatureTest, WhatWasSignedCannotBeChanged) {
  const std::string honest = bundle_;
  const auto payload = [](Json& bundle, const std::function<void(std::string&)>& change) {
    DsseEnvelope envelope = envelope_of(bundle.at("dsseEnvelope"), "bundle");
    change(envelope.payload);
    bundle.set("dsseEnvelope", envelope_json(envelope));
  };
  change_bundle([&](Json& bundle) {
    payload(bundle, [](std::string& text) { text[text.find("config")] = 'k'; });
  });
  EXPECT_EQ(verdict(), Breach::kAlteredStatement);

  bundle_ = honest;  // another type is signed too
  change_bundle([](Json& bundle) {
    Json envelope = bundle.at("dsseEnvelope");
    bundle.set("dsseEnvelope", envelope.set("payloadType", "text/plain"));
  });
  EXPECT_EQ(verdict(), Breach::kAlteredStatement);

  bundle_ = honest;
  change_bundle([](Json& bundle) {
    Json envelope = bundle.at("dsseEnvelope");
    bundle.set("dsseEnvelope", envelope.set("signatures", Json::array()));
  });
  EXPECT_EQ(verdict(), Breach::kMalformedStatement);

  bundle_ = honest;
  change_bundle([](Json& bundle) { bundle.set("mediaType", "application/json"); });
  EXPECT_EQ(verdict(), Breach::kMalformedStatement);
}

TEST_F(ModelSignatureTest, AFlippedBitOfTheSignatureIsRefusedWhereverItIs) {
  const Json honest = Json::parse(bundle_, "bundle");
  const DsseEnvelope signed_one = envelope_of(honest.at("dsseEnvelope"), "bundle");
  for (std::size_t i = 0; i < signed_one.signatures[0].signature.size(); ++i) {
    DsseEnvelope envelope = signed_one;
    envelope.signatures[0].signature[i] ^= std::byte{1};
    Json bundle = honest;
    bundle_ = bundle.set("dsseEnvelope", envelope_json(envelope)).dump();
    EXPECT_EQ(verdict(), Breach::kAlteredStatement) << "byte " << i;
  }
}

TEST_F(ModelSignatureTest, AnotherKeyIsRefused) {
  const EcSigningKey other = EcSigningKey::make();
  EXPECT_EQ(breach_of([&] { (void)check_bundle(bundle_, other.public_key()); }),
            Breach::kSubstitutedKey);
  // Also where the bundle does not say whose it is.
  change_bundle([](Json& bundle) { bundle.set("verificationMaterial", Json::object()); });
  EXPECT_EQ(breach_of([&] { (void)check_bundle(bundle_, other.public_key()); }),
            Breach::kAlteredStatement);
  EXPECT_NO_THROW(check());
}

TEST_F(ModelSignatureTest, AStatementMustAgreeWithItself) {
  const std::string honest = bundle_;
  const auto files = [](Json& statement) {
    return statement.at("predicate").at("resources").as_array();
  };
  const auto set_files = [](Json& statement, Json::Array list) {
    Json predicate = statement.at("predicate");
    statement.set("predicate", predicate.set("resources", Json(std::move(list))));
  };
  resign([&](Json& statement) {  // a file dropped, the digest over all of them not
    Json::Array list = files(statement);
    list.pop_back();
    set_files(statement, std::move(list));
  });
  EXPECT_EQ(verdict(), Breach::kAlteredStatement);

  bundle_ = honest;
  resign([&](Json& statement) {
    Json::Array list = files(statement);
    list[0].set("name", "../../etc/passwd");
    set_files(statement, std::move(list));
  });
  EXPECT_EQ(verdict(), Breach::kMalformedStatement);

  bundle_ = honest;
  resign([](Json& statement) { statement.set("predicateType", "https://example.org/other"); });
  EXPECT_EQ(verdict(), Breach::kMalformedStatement);

  bundle_ = honest;
  resign([](Json& statement) { statement.set("_type", "https://in-toto.io/Statement/v0.1"); });
  EXPECT_EQ(verdict(), Breach::kMalformedStatement);
}

TEST_F(ModelSignatureTest, KeysAreKeptInPemFiles) {
  const std::filesystem::path keys = folder_.path() / "keys";
  key_.save(keys, "release");
  EXPECT_THROW(key_.save(keys, "release"), Error);
  const EcSigningKey loaded = EcSigningKey::load(find_ec_key(keys, ""));
  EXPECT_EQ(loaded.public_key().pem(), key_.public_key().pem());
  const auto roster = load_ec_roster(keys);
  ASSERT_EQ(roster.size(), 1u);
  EXPECT_EQ(roster[0].first, "release");
  EXPECT_TRUE(roster[0].second.verify(bytes_of("text"), loaded.sign(bytes_of("text"))));
  EXPECT_FALSE(roster[0].second.verify(bytes_of("texts"), loaded.sign(bytes_of("text"))));
  ::chmod((keys / "release.pem").c_str(), 0644);
  EXPECT_THROW((void)EcSigningKey::load(keys / "release.pem"), Error);
  EXPECT_THROW((void)find_ec_key(keys, "nobody"), Error);
}

}  // namespace
}  // namespace harmonics::inline in_custody
