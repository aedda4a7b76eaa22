// A chain as statements and back; what was changed on the way is found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include <harmonics/custody/base64.h>
#include <harmonics/custody/chain_picture.h>
#include <harmonics/custody/provenance.h>

#include "custody_testing.h"

namespace harmonics::inline in_custody {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class StatementsTest : public ::testing::Test {
 protected:
  StatementsTest() : chain_(line_chain(keys_, 3)), report_(verify_one(chain_, roster())) {
    text_ = export_statements(std::span(&chain_, 1), report_, keys_[0],
                              {"1.2", "box", {{"net.safetensors", sha256(bytes_of("net"))}}});
  }

  [[nodiscard]] Roster roster() const { return roster_of(keys_); }
  /// All that `harmonics verify` does with statements.
  VerifyReport verify(const std::string& text) const {
    const auto statements = read_statements(text, {roster(), {}});
    const std::vector<Chain> chains = chains_in(statements);
    VerifyReport report = verify_chain(chains, roster());
    check_statements(statements, chains, report);
    return report;
  }
  [[nodiscard]] std::optional<Breach> verdict(const std::string& text) const {
    return breach_of([&] { (void)verify(text); });
  }
  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> all;
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t end = text_.find('\n', at);
      all.push_back(text_.substr(at, end - at + 1));
      at = end + 1;
    }
    return all;
  }
  /// One statement changed as its exporter could: signed again with `key`.
  [[nodiscard]] std::string changed(const std::string& line,
                                    const std::function<void(std::string&)>& change,
                                    const SigningKey& key) const {
    DsseEnvelope envelope = envelope_of(Json::parse(line, "line"), "line");
    change(envelope.payload);
    const Signature signature =
        key.sign(dsse_signed_bytes(envelope.payload_type, envelope.payload));
    envelope.signatures = {{key_text(key.public_key()), {signature.begin(), signature.end()}}};
    return envelope_json(envelope).dump() + "\n";
  }
  static void replace(std::string& text, const std::string& what, const std::string& by) {
    const std::size_t at = text.find(what);
    ASSERT_NE(at, std::string::npos) << what;
    text.replace(at, what.size(), by);
  }

  const std::vector<SigningKey> keys_ = line_keys(3);
  Chain chain_;
  VerifyReport report_;
  std::string text_;
};

TEST_F(StatementsTest, AChainGoesOutAndComesBack) {
  ASSERT_TRUE(is_statements(text_));
  EXPECT_EQ(lines().size(), 3u);
  const VerifyReport report = verify(text_);
  EXPECT_EQ(summary_text(report), summary_text(report_));
  const auto statements = read_statements(text_, {roster(), {}});
  EXPECT_EQ(statements[1].stage, "part1");
  EXPECT_EQ(statements[1].signer, "signer0");
  EXPECT_TRUE(states_file(statements, sha256(bytes_of("net"))));
  EXPECT_FALSE(states_file(statements, sha256(bytes_of("other"))));
  const Chain back = joined_chain(chains_in(statements));
  EXPECT_EQ(back.records.size(), chain_.records.size());
  EXPECT_EQ(explain_text(verify_one(back, roster())), explain_text(report_));
}

TEST_F(StatementsTest, AStatementSaysWhoMadeWhatFromWhat) {
  const auto statements = read_statements(text_, {roster(), {}});
  const Json& first = statements[0].statement;
  EXPECT_EQ(first.at("predicateType").as_string(), kProvenanceType);
  const Json& definition = first.at("predicate").at("buildDefinition");
  EXPECT_THAT(definition.dump(), HasSubstr("data of input"));
  EXPECT_THAT(definition.dump(), HasSubstr(digest_text(report_.stages[0].data[0].root)));
  EXPECT_THAT(definition.dump(), HasSubstr(digest_text(report_.stages[0].graph)));
  EXPECT_THAT(first.at("predicate").at("runDetails").at("builder").dump(), HasSubstr("signer0"));
}

TEST_F(StatementsTest, ABitFlippedAnywhereIsFound) {
  // But in the name of the key, which is for finding it and which DSSE does not sign.
  const std::string honest = lines()[0];
  const std::string rest = lines()[1] + lines()[2];
  int refused = 0;
  for (std::size_t i = 0; i < honest.find("\"keyid\""); i += 37) {
    std::string line = honest;
    line[i] = static_cast<char>(line[i] ^ 4);
    EXPECT_NE(verdict(line + rest), std::nullopt) << "byte " << i << " of " << honest.size();
    ++refused;
  }
  EXPECT_GT(refused, 20);
}

TEST_F(StatementsTest, SignaturesAreOfThoseWhomOneKnows) {
  const std::vector<SigningKey> others = line_keys(1, 77);
  const std::string again = changed(
      lines()[0], [](std::string&) {}, others[0]);
  EXPECT_EQ(verdict(again + lines()[1] + lines()[2]), Breach::kSubstitutedKey);
  // The old name over another signature, and a signature of another line.
  Json line = Json::parse(lines()[0], "line");
  line.set("signatures", Json::parse(lines()[1], "line").at("signatures"));
  EXPECT_EQ(verdict(line.dump() + "\n" + lines()[1] + lines()[2]), Breach::kAlteredStatement);
  line.set("signatures", Json::array());
  EXPECT_EQ(verdict(line.dump() + "\n" + lines()[1] + lines()[2]), Breach::kMalformedStatement);
}

TEST_F(StatementsTest, LinesAreAllThereOnceAndOfOneRun) {
  EXPECT_EQ(verdict(lines()[0] + lines()[2]), Breach::kTruncated);
  EXPECT_EQ(verdict(text_ + lines()[1]), Breach::kReplay);
  EXPECT_EQ(verdict(lines()[2] + lines()[0] + lines()[1]), std::nullopt);  // in any order
  const Chain other = line_chain(keys_, 3, 8);
  const std::string others = export_statements(std::span(&other, 1), verify_one(other, roster()),
                                               keys_[0], {"1.2", "box", {}});
  EXPECT_EQ(
      verdict(lines()[0] + lines()[1] + others.substr(others.rfind("\n", others.size() - 2) + 1)),
      Breach::kOtherRun);
  EXPECT_EQ(verdict(""), Breach::kMalformedStatement);
  EXPECT_EQ(verdict("{\"payloadType\": 1}"), Breach::kMalformedStatement);
}

// Whoever exports holds a key and may sign what he likes: the chain inside contradicts him.
TEST_F(StatementsTest, AnExporterCannotSayWhatTheChainDoesNotProve) {
  const auto lie = [&](const std::string& what, const std::string& by) {
    return verdict(
        changed(
            lines()[0], [&](std::string& payload) { replace(payload, what, by); }, keys_[0]) +
        lines()[1] + lines()[2]);
  };
  const std::string graph = digest_text(report_.stages[0].graph);
  EXPECT_EQ(lie(graph, digest_text(sha256(bytes_of("another")))), Breach::kAlteredStatement);
  EXPECT_EQ(lie("urn:harmonics:signer:signer0", "urn:harmonics:signer:signer2"),
            Breach::kAlteredStatement);
  EXPECT_EQ(lie("\"heads\":4", "\"heads\":5"), Breach::kAlteredStatement);
  EXPECT_EQ(lie("\"stage\":\"part0\"", "\"stage\":\"part9\""), Breach::kDrop);
  EXPECT_EQ(lie(digest_text(report_.stages[0].data[0].root), std::string(64, '0')),
            Breach::kAlteredStatement);
  EXPECT_EQ(lie(digest_text(report_.stages[0].weights.back().root), std::string(64, '0')),
            Breach::kAlteredStatement);
  EXPECT_EQ(lie("\"name\":\"data of input\"", "\"name\":\"data of sensor\""),
            Breach::kAlteredStatement);
}

TEST_F(StatementsTest, TheRecordsInsideAreVerifiedAsAnyChain) {
  Chain forged = chains_in(read_statements(text_, {roster(), {}}))[0];
  for (ChainRecord& record : forged.records) {
    if (record.kind != RecordKind::kLink) continue;
    Link link = decode_link(record.body);
    link.root[0] ^= std::byte{1};
    record.body = encode(link);
    break;
  }
  const Bytes bytes = encode_chain(forged);
  const std::string line = changed(
      lines()[0],
      [&](std::string& payload) {
        const std::size_t at = payload.find("\"content\":\"") + 11;
        payload.replace(at, payload.find('"', at) - at, to_base64(bytes));
      },
      keys_[0]);
  EXPECT_EQ(verdict(line + lines()[1] + lines()[2]), Breach::kAltered);
}

TEST_F(StatementsTest, StatementsOfOthersAreTakenAsTheyAre) {
  const std::string theirs =
      R"({"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"a","digest":{"sha256":")" +
      digest_text(sha256(bytes_of("a"))) + R"("}}],"predicateType":"https://example.org/p"})";
  const std::string line = changed(
      lines()[0], [&](std::string& payload) { payload = theirs; }, keys_[1]);
  const auto statements = read_statements(line, {roster(), {}});
  ASSERT_EQ(statements.size(), 1u);
  EXPECT_EQ(statements[0].signer, "signer1");
  EXPECT_TRUE(statements[0].stage.empty());
  EXPECT_TRUE(chains_in(statements).empty());
  EXPECT_TRUE(states_file(statements, sha256(bytes_of("a"))));
}

TEST_F(StatementsTest, APictureShowsStagesSignersAndHandOvers) {
  const std::string svg = chain_svg(std::span(&chain_, 1), report_, 0);
  for (const char* text : {"part0", "signer2", "forward 'hidden@1', step 1", "weights of part1"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  EXPECT_THAT(svg, Not(HasSubstr("step 4")));
  EXPECT_THROW((void)chain_svg(std::span(&chain_, 1), report_, 3), Error);
}

}  // namespace
}  // namespace harmonics::inline in_custody
