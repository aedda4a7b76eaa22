// Mistakes in .harp texts: each is an error that shows the place. And the limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/graph/harp.h>

namespace harmonics::inline in_graph {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string error_of(std::string_view text) {
  try {
    (void)parse_harp_document(text, "m.harp");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(HarpErrors, ShowTheLineWithACaret) {
  EXPECT_EQ(
      error_of("producer x {4};\n  layer h lineer(10);\ncycle { x -> h; }"),
      "m.harp:2:11: layer 'h' has the unknown type 'lineer'; there are: " +
          [] {
            std::string all;
            for (const std::string& name : layer_type_names())
              all += (all.empty() ? "" : ", ") + name;
            return all;
          }() +
          "\n      layer h lineer(10);\n              ^");
}

TEST(HarpErrors, CaretFollowsTabsAndUtf8) {
  EXPECT_EQ(error_of("\t\"é\" x"),
            "m.harp:1:2: expected axis, producer, consumer, layer, group, repeat, cycle, data, "
            "train or weights\n"
            "    \t\"é\" x\n    \t^");
  EXPECT_THAT(error_of("data { s = \"é\" ]; }"), HasSubstr("m.harp:1:16: "));
  EXPECT_THAT(error_of("data { s = \"é\" ]; }"), HasSubstr("\n                   ^"));
}

TEST(HarpErrors, LongLinesAreClipped) {
  const std::string message = error_of(std::string(100'000, ' ') + "?" + std::string(100'000, ' '));
  EXPECT_THAT(message, StartsWith("m.harp:1:100001: "));
  EXPECT_LT(message.size(), 1'000U);
  EXPECT_THAT(message, HasSubstr("?"));
}

struct Mistake {
  std::string text;
  std::string message;  // with its line and column
};

void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.message; }

class HarpMistakes : public testing::TestWithParam<Mistake> {};

TEST_P(HarpMistakes, AreErrorsWithTheirPlace) {
  EXPECT_THAT(error_of(GetParam().text), StartsWith("m.harp:" + GetParam().message))
      << GetParam().text;
}

// x is a producer {4}, h a linear layer that takes it.
std::string with(const std::string& declarations, const std::string& flows) {
  return "producer x {4}; layer h; " + declarations + "\ncycle { x -> h;\n" + flows + "}";
}

INSTANTIATE_TEST_SUITE_P(
    Lexical, HarpMistakes,
    testing::Values(Mistake{"producer x [4];", "1:12: this character means nothing here"},
                    Mistake{"producer x {4;", "1:14: expected a whole number"},
                    Mistake{"producer 4x;", "1:10: a name cannot begin with a digit"},
                    Mistake{"producer x {1.5};", "1:13: expected a whole number"},
                    Mistake{"producer x {99999999999999999999};", "1:13: this number is too large"},
                    Mistake{"producer x {" + std::string(200, '1') + "};",
                            "1:13: this number is too long"},
                    Mistake{"data { x = \"abc; }\n", "1:12: this text is not closed"},
                    Mistake{"data { x = \"abc", "1:12: this text is not closed"},
                    Mistake{"data { x = \"a\\b\"; }", "1:14: unknown escape"},
                    Mistake{"producer $(i;", "1:10: this '$(' has no ')'"},
                    Mistake{"producer é;", "1:10: this character means nothing here"}));

INSTANTIATE_TEST_SUITE_P(
    Declarations, HarpMistakes,
    testing::Values(
        Mistake{"", "1:1: this text describes no graph"},
        Mistake{"# nothing\n", "2:1: this text describes no graph"},
        Mistake{"produce x;", "1:1: expected axis, producer, consumer"},
        Mistake{"producer x", "1:11: expected ';' after the producer"},
        Mistake{"producer {4};", "1:10: expected the producer's name"},
        Mistake{"producer x {4} float;", "1:16: 'float' is no element type; there are float32"},
        Mistake{"producer x {4,};", "1:15: a number is missing after the comma"},
        Mistake{"producer x {4", "1:12: this shape is not closed"},
        Mistake{"producer x {0};", "1:10: producer 'x' has a tensor of shape {0}"},
        Mistake{"producer x {4};\nproducer y 1/2 x;",
                "2:12: 'y' and 'x' can only advance in lock-step"},
        Mistake{"producer x {4};\nproducer y 1/1 z;",
                "2:12: 'y' is to advance with 'z', which is no producer"},
        Mistake{"producer x gradients -1;", "1:22: this number of gradients is out of range"},
        Mistake{"producer x;\nproducer x;",
                "2:10: 'x' is declared twice; the first time at m.harp:1"},
        Mistake{"producer x;\nlayer x;", "2:7: 'x' is declared twice; the first time at m.harp:1"},
        Mistake{"consumer x;\nconsumer x;",
                "2:10: 'x' is declared twice; the first time at m.harp:1"},
        Mistake{"consumer x;", "1:10: nothing in the cycle flows into consumer 'x'"},
        Mistake{"layer h;", "1:7: layer 'h' (linear) needs 1 input, the cycle gives it 0"},
        Mistake{"layer h conv2d(3);", "1:9: layer 'h' (conv2d): 'kernel' is missing"},
        Mistake{"layer h linear(3, true, 5);", "1:25: linear takes 2 values: out, bias"},
        Mistake{"layer h linear(width=3);",
                "1:16: linear has no attribute 'width'; it takes: out, bias"},
        Mistake{"layer h flatten(3);", "1:17: flatten takes 0 values"},
        Mistake{"layer h linear(out=3, 1);", "1:23: a value without a name must stand before"},
        Mistake{"layer h linear(3, out=3);", "1:19: 'out' is given twice"},
        Mistake{"layer h linear(3 4);", "1:18: expected ',' or ')'"},
        Mistake{"layer h linear(;", "1:16: expected a value"},
        Mistake{"layer h linear(-x);", "1:16: expected a value"},
        Mistake{"layer h dropout(1e999);", "1:17: this number is too large or too small"},
        Mistake{"layer h 1/0 x;", "1:9: a ratio is made of two positive numbers"},
        Mistake{"layer h 1 x;", "1:11: expected '/'"},
        Mistake{"layer h flatten 1/2 x;", "1:17: only a linear layer takes a ratio"},
        Mistake{"layer h 1/2 y;", "1:9: 'y' is not declared"},
        Mistake{"group g { producer x; }", "1:11: a group holds only layers"},
        Mistake{"group g { group k { } }", "1:11: a group holds only layers"},
        Mistake{"group g { layer x;", "1:9: this block is not closed"},
        Mistake{"harmonic g { producer x;", "1:12: this block is not closed"},
        Mistake{"harmonic g { } producer x;",
                "1:16: only data, train and weights sections may stand beside"},
        Mistake{"harmonic g { } harmonic k { }",
                "1:16: only data, train and weights sections may stand beside"},
        Mistake{"producer x; harmonic k { }", "1:13: 'harmonic' must enclose every declaration"},
        Mistake{"harmonic g { harmonic k { } }", "1:14: a text holds one 'harmonic'"},
        Mistake{"producer a@;", "1:10: 'a@' is no valid name"},
        Mistake{"producer " + std::string(kMaxNameLength + 1, 'a') + ";",
                "1:10: '" + std::string(kMaxNameLength + 1, 'a') + "' is no valid name"}));

INSTANTIATE_TEST_SUITE_P(
    Repeats, HarpMistakes,
    testing::Values(
        Mistake{"repeat x as i { }", "1:8: expected a whole number"},
        Mistake{"repeat 0 as i { }", "1:8: a repeat has 1 to 2000000 rounds"},
        Mistake{"repeat 3 { }", "1:10: expected 'as' and a variable"},
        Mistake{"repeat 3 as i { layer h; }", "1:23: 'h' is declared twice"},
        Mistake{"repeat 3 as i { layer h$j; }", "1:24: no repeat around counts 'j'; there are: i"},
        Mistake{"layer h$i;", "1:8: '$i' is used outside of a repeat"},
        Mistake{"repeat 3 as i { layer h$(i/2); }", "1:24: no repeat around counts 'i/2'"},
        Mistake{"repeat 3 as i { layer h$(i-x); }", "1:24: expected $i or $(i + 1)"},
        Mistake{"repeat 3 as i { layer h$(i-2); }", "1:24: this comes to -1"},
        Mistake{"repeat 3 as i { repeat 2 as i { } }", "1:29: 'i' already counts an outer repeat"},
        Mistake{"repeat 3 as i { data { x = 1; } }", "1:17: a data, train or weights section"}));

INSTANTIATE_TEST_SUITE_P(
    Flows, HarpMistakes,
    testing::Values(
        Mistake{"producer x; cycle { -> x; }", "1:21: this is the first flow"},
        Mistake{with("", "h;"), "3:2: expected '->' here: a flow needs an arrow"},
        Mistake{with("", "h -> y;"), "3:6: 'y' is not declared"},
        Mistake{with("layer hidden;", "h -> hiden;"),
                "3:6: 'hiden' is not declared; did you mean 'hidden'?"},
        Mistake{with("", "y -> h;"), "3:1: 'y' is not declared"},
        Mistake{with("", "h -> x;"), "3:6: 'x' is a producer: nothing can flow into it"},
        Mistake{with("consumer y;", "h -> y -> h;"),
                "3:6: 'y' is a consumer: nothing can be taken from it"},
        Mistake{with("consumer y;", "h -> y; x -> y;"),
                "3:9: consumer 'y' takes one tensor, and it has 'h' already"},
        Mistake{with("consumer y;", "h, x -> y;"), "3:4: consumer 'y' takes one tensor"},
        Mistake{with("consumer h;", "h -> h;"),
                "3:1: layer 'h' (linear) takes 1 input, and it has 'x' already; for the consumer "
                "of that name write 'consumer h'"},
        Mistake{with("", "x -> h;"),
                "3:1: layer 'h' (linear) takes 1 input, and it has 'x' already"},
        Mistake{with("layer s add;", "x -> s;"),
                "1:32: layer 's' (add): takes at least 2 inputs, it has 1 and no 'constant'"},
        Mistake{with("layer a; layer b;", "h -> a, b;"), "3:7: an arrow leads to one node"},
        Mistake{with("layer a;", "h -(rely)-> a;"),
                "3:5: unknown activation 'rely'; there are: gelu"},
        Mistake{with("layer a;", "h -(relu)> a;"), "3:10: this character means nothing here"},
        Mistake{with("layer a;", "h -(relu) a;"), "3:11: expected '->' to end the arrow"},
        Mistake{with("layer a;", "h - a;"), "3:5: expected '(' after '-'"},
        Mistake{with("layer s add;", "h -(relu)-> s; x -(tanh)-> s;"),
                "3:20: layer 's' has the activation 'tanh' here and 'relu' at m.harp:3"},
        Mistake{with("", "h <- x;"), "3:3: a backward arrow needs a loss"},
        Mistake{with("", "h <-(mae)- x;"), "3:6: unknown loss 'mae'; there are: bce"},
        Mistake{with("", "h <-(mse * 0)- x;"), "3:12: the weight of a loss must be above 0"},
        Mistake{with("", "h <-(mse * -1)- x;"), "3:12: the weight of a loss must be above 0"},
        Mistake{with("", "h <-(mse * w)- x;"), "3:12: expected a number"},
        Mistake{with("", "h <-(mse) x;"), "3:11: expected '-' to end the arrow"},
        Mistake{with("", "h, x <-(mse)- x;"), "3:6: a loss compares one prediction"},
        Mistake{with("", "h <-(mse)- y;"), "3:12: 'y' is not declared"},
        Mistake{with("", "if ready { h -> x; }"), "3:1: a cycle has no conditions"},
        Mistake{with("", "layer k;"), "3:7: expected '->' here"}));

INSTANTIATE_TEST_SUITE_P(
    Sections, HarpMistakes,
    testing::Values(Mistake{"data { x = 1; x = 2; }",
                            "1:15: 'x' is set twice; the first time in line 1"},
                    Mistake{"data { x 1; }", "1:10: expected '=' after the setting's name"},
                    Mistake{"data { x = ; }", "1:12: expected a value"},
                    Mistake{"data { x = -y; }", "1:12: expected a value"},
                    Mistake{"data { x = 1x8x8; }", "1:12: a name cannot begin with a digit"},
                    Mistake{"data { x = 1 }", "1:14: expected ';' after the setting"},
                    Mistake{"train { 5 = 1; }", "1:9: expected a setting"}));

// What only the builder can find points at the declaration.
INSTANTIATE_TEST_SUITE_P(
    Built, HarpMistakes,
    testing::Values(
        Mistake{"producer x {4};\nlayer a conv2d(2, 3);\ncycle { x -> a; }",
                "2:7: layer 'a' (conv2d): needs an input of shape {channels, height, width}; input "
                "is float32 {4}"},
        Mistake{"producer x {4};\nproducer y {5};\nlayer s add;\ncycle { x, y -> s; }",
                "3:7: layer 's' (add): all inputs must agree"},
        Mistake{"producer x {4};\nlayer a add;\nlayer b;\ncycle { x, b -> a; a -> b; }",
                "2:7: layer 'a' depends on itself"},
        Mistake{"producer x {4};\nconsumer y {5};\ncycle { x -> y; }",
                "2:10: consumer 'y' wants {5}, but 'x' has {4}"},
        Mistake{
            "producer x {4};\nproducer t {5};\nlayer p linear(4);\ncycle { x -> p; p <-(mse)- t; }",
            "3:7: mse of 'p' (float32 {4}) against 't' (float32 {5})"},
        Mistake{"producer x {4};\nlayer a dropout(many);\ncycle { x -> a; }",
                "2:7: layer 'a' (dropout): 'p' must be a number, not many"}));

// --- limits: what reaches them, and what goes past ---

TEST(HarpLimits, TextSize) {
  std::string text = "producer x {4};";
  text.resize(kMaxHarpTextBytes, ' ');
  EXPECT_EQ(error_of(text), "no error");
  EXPECT_THAT(error_of(text + " "), HasSubstr("16777217 bytes; a .harp text may have 16777216"));
}

TEST(HarpLimits, Depth) {
  const auto nested = [](std::size_t depth) {
    std::string open;
    for (std::size_t i = 0; i < depth; ++i) open += format("repeat 1 as v{} {{ ", i);
    return "producer x {4}; " + open + std::string(depth, '}');
  };
  EXPECT_EQ(error_of(nested(kMaxHarpDepth)), "no error");
  EXPECT_THAT(error_of(nested(kMaxHarpDepth + 1)), HasSubstr("blocks nest more than 16 deep"));
  EXPECT_THAT(error_of(nested(100'000)), HasSubstr("blocks nest more than 16 deep"));
}

TEST(HarpLimits, Steps) {
  // Empty rounds cost as well: nested repeats cannot keep the parser busy for ever.
  const auto rounds = [](std::size_t count) {
    return format("producer x {{4}}; repeat {} as i {{ }}", count);
  };
  EXPECT_EQ(error_of(rounds(kMaxHarpSteps - 2)), "no error");
  EXPECT_THAT(error_of(rounds(kMaxHarpSteps - 1)), HasSubstr("more than 2000000 statements"));
  EXPECT_THAT(error_of("producer x {4}; repeat 2000000 as i { repeat 2000000 as j { } }"),
              HasSubstr("more than 2000000 statements"));
  EXPECT_THAT(error_of("repeat 2000001 as i { }"), HasSubstr("a repeat has 1 to 2000000 rounds"));
}

TEST(HarpLimits, Nodes) {
  const auto producers = [](std::size_t count) {
    return error_of(format("repeat {} as i {{ producer x$i {{4}}; }}", count));
  };
  EXPECT_EQ(producers(kMaxGraphNodes), "no error");
  EXPECT_THAT(producers(kMaxGraphNodes + 1), HasSubstr("more than 100000 nodes"));
}

TEST(HarpLimits, SettingsAndLists) {
  const auto settings = [](std::size_t count) {
    std::string text = "producer x {4}; train {";
    for (std::size_t i = 0; i < count; ++i) text += format("k{} = 1;", i);
    return error_of(text + "}");
  };
  EXPECT_EQ(settings(kMaxHarpSettings), "no error");
  EXPECT_THAT(settings(kMaxHarpSettings + 1), HasSubstr("a section may hold 1000 settings"));
  const auto axes = [](std::size_t count) {
    std::string text = "producer x {";
    for (std::size_t i = 0; i < count; ++i) text += "1 ";
    return error_of(text + "};");
  };
  EXPECT_EQ(axes(kMaxShapeAxes), "no error");
  EXPECT_THAT(axes(kMaxShapeAxes + 1), HasSubstr("a list may hold 64 numbers"));
  EXPECT_THAT(error_of("harmonic \"" + std::string(kMaxNameLength + 1, 'n') + "\" { }"),
              HasSubstr("the graph's name may have at most 200"));
}

}  // namespace
}  // namespace harmonics::inline in_graph
