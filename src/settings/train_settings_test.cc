#include <harmonics/settings/train_settings.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/graph/harp.h>

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

std::vector<std::string> sources_of(const std::string& weights, const std::vector<Binding>& flags) {
  HarpDocument document = parse_harp_document(
      "axis T <= 128; producer input_ids {T} int64; producer labels {T} int64;"
      "producer pixel_values {3, 8, 8}; producer kind {1} int64; layer a embedding(9, 4);"
      "layer b linear(2); cycle { input_ids -> a; pixel_values -> b; }" +
          weights,
      "m.harp");
  document.folder = "/models";
  std::vector<std::string> specs;
  for (const SourceBinding& each : merge_bindings(document, "m.harp", flags)) {
    specs.push_back(each.spec);
  }
  return specs;
}

TEST(SourceBindings, TakeWhatTheModelSaysWhereTheyLeaveItOpen) {
  const std::string weights =
      "weights { file = \"m.safetensors\"; tokenizer = \"m&t.json\"; preprocessor = \"p.json\"; }";
  const std::vector<Binding> open = {{"input_ids", "text:a.txt"},
                                     {"labels", "text:a.txt?field=x"},
                                     {"pixel_values", "images:flowers"},
                                     {"kind", "images:flowers"}};
  EXPECT_THAT(
      sources_of(weights, open),
      ElementsAre("text:a.txt?tokenizer=/models/m%26t.json&length=128&column=input_ids",
                  "text:a.txt?field=x&tokenizer=/models/m%26t.json&length=128&column=labels",
                  "images:flowers?preprocessor=/models/p.json", "images:flowers?column=label"));
  const std::vector<Binding> said = {{"input_ids", "text:a.txt?tokenizer=other&length=5"},
                                     {"labels", "text:a.txt?length=64&column=input_ids"},
                                     {"pixel_values", "images:flowers?size=224"},
                                     {"kind", "csv:kinds.csv"}};
  EXPECT_THAT(sources_of(weights, said),
              ElementsAre("text:a.txt?tokenizer=other&length=5",
                          "text:a.txt?length=64&column=input_ids&tokenizer=/models/m%26t.json",
                          "images:flowers?size=224", "csv:kinds.csv"));
  EXPECT_THAT(sources_of("", open),
              ElementsAre("text:a.txt", "text:a.txt?field=x", "images:flowers", "images:flowers"));
}

}  // namespace
}  // namespace harmonics::inline in_settings
