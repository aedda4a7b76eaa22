#include <harmonics/settings/train_settings.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <error_testing.h>

namespace harmonics::inline in_settings {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

HarpDocument document_of(std::vector<Setting> train, std::vector<Setting> data = {}) {
  HarpDocument document;
  document.train.entries = std::move(train);
  document.data.entries = std::move(data);
  return document;
}

Setting setting(const std::string& key, const std::string& value, int line = 1) {
  Setting out;
  out.key = key;
  out.value = value;
  out.line = line;
  return out;
}

TEST(TrainSettings, FlagsStandOverTheFileAndTheFileOverTheDefaults) {
  const HarpDocument file =
      document_of({setting("epochs", "3"), setting("lr", "0.5")}, {setting("test_split", "0.25")});
  const std::vector<Setting> flags = {setting("lr", "0.1"), setting("shuffle", "false")};
  const TrainSettings merged = merge_settings(file, "m.harp", flags);
  EXPECT_EQ(merged.epochs, 3);
  EXPECT_EQ(merged.lr, 0.1);
  EXPECT_EQ(merged.test_split, 0.25);
  EXPECT_FALSE(merged.shuffle);
  EXPECT_EQ(merged.batch_size, TrainSettings().batch_size);
}

TEST(TrainSettings, WhatIsWrongInAFileIsNamedWithItsLine) {
  EXPECT_THAT(
      error_of([] { (void)merge_settings(document_of({setting("epoch", "3", 7)}), "m.harp", {}); }),
      AllOf(HasSubstr("m.harp:7"), HasSubstr("no setting 'epoch'"), HasSubstr("epochs")));
  EXPECT_THAT(error_of([] {
                (void)merge_settings(document_of({setting("test_split", "0.1", 2)}), "m.harp", {});
              }),
              HasSubstr("m.harp:2"))
      << "a setting of the data section";
  EXPECT_THAT(error_of([] {
                (void)merge_settings(document_of({setting("epochs", "0", 4)}), "m.harp", {});
              }),
              AllOf(HasSubstr("m.harp:4: epochs"), HasSubstr("from 1 to 1000000000")));
  EXPECT_THAT(error_of([] {
                (void)merge_settings(document_of({setting("optimizer", "sgd|adam", 1)}), "m", {});
              }),
              HasSubstr("is none of sgd|adam|adamw"));
}

TEST(TrainSettings, EveryRuleHasAFlagAndRefusesWhatItCannotRead) {
  for (const TrainSettingRule& rule : train_setting_rules()) {
    EXPECT_EQ(find_train_setting_rule(rule.key), &rule);
    EXPECT_EQ(flag_of(rule).find('_'), std::string::npos) << rule.key;
    EXPECT_FALSE(rule.help.empty()) << rule.key;
    TrainSettings settings;
    EXPECT_THAT(error_of([&] { rule.apply(settings, "no such value"); }),
                HasSubstr("no such value"))
        << rule.key;
  }
  EXPECT_EQ(find_train_setting_rule("nothing"), nullptr);
  EXPECT_THAT(setting_words(*find_train_setting_rule("batch_size"), "8"),
              ElementsAre("--batch-size", "8"));
  EXPECT_THAT(setting_words(*find_train_setting_rule("shuffle"), "true"), ElementsAre("--shuffle"));
  EXPECT_THAT(setting_words(*find_train_setting_rule("shuffle"), "false"),
              ElementsAre("--no-shuffle"));
}

TEST(TrainSettings, ABindingOfNoProducerIsRefused) {
  const HarpDocument file = document_of({}, {setting("pixels", "x.csv", 5)});
  EXPECT_THAT(error_of([&] { (void)merge_bindings(file, "m.harp", {}); }),
              AllOf(HasSubstr("m.harp:5"), HasSubstr("'pixels'"), HasSubstr("test_split")));
  const std::vector<Binding> flags = {{"pixels", "y.csv"}};
  EXPECT_THAT(error_of([&] { (void)merge_bindings(document_of({}), "m.harp", flags); }),
              HasSubstr("--bind pixels"));
}

}  // namespace
}  // namespace harmonics::inline in_settings
