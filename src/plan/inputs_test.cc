#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include <harmonics/base/log.h>
#include <harmonics/plan/inputs.h>
#include <harmonics/plan/problem.h>

#include <error_testing.h>
#include <temporary_folder_testing.h>

#include "plan_testing.h"

namespace harmonics::inline in_plan {
namespace {

using testing::AssertionResult;

AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << text << "' does not hold '" << part << "'";
}

constexpr std::string_view kModel = R"(m:
  layers: 3
  mem_MB: [1, 2.5, 3]
  parameters_in: 10
  parameters_out: [4, 5, 6]
)";
constexpr std::string_view kType = R"(fast:
  bw_Mbps: 1000
  mem_MB: 2048
  model_profiles:
    m:
    - batch_size: 8
      dtype: torch.float32
      time_s: [0.1, 0.2, 0.3]
)";

ModelTable models() { return parse_models(kModel, "models.yml"); }
DeviceTypeTable types() { return parse_device_types(kType, "device_types.yml", models()); }

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result(text);
  result.replace(result.find(from), from.size(), to);
  return result;
}

TEST(PlanInputs, ReadsTheExampleFiles) {
  const PlanInputs inputs = example_inputs();
  EXPECT_EQ(inputs.models.at("google/vit-base-patch16-224").layers(), 48u);
  EXPECT_EQ(inputs.models.at("google/vit-large-patch16-224").parameters_out[2], 1008640);
  EXPECT_EQ(inputs.models.at("DummyModel").layers(), 0u);
  EXPECT_TRUE(inputs.types.at("DummyDeviceType").models.empty());
  EXPECT_EQ(inputs.types.at("RCC-VE-C2558").memory_mb, 8192);
  EXPECT_TRUE(inputs.hosts.at("DummyDeviceType").empty());
  EXPECT_EQ(inputs.hosts.at("Minnowboard-E3845").back(), "mb-3");
}

TEST(PlanInputs, WhatIsWrittenReadsBackEqual) {
  const PlanInputs inputs = example_inputs();
  const std::string text = models_to_yaml(inputs.models);
  EXPECT_EQ(parse_models(text, "again"), inputs.models);
  const std::string written = device_types_to_yaml(inputs.types);
  EXPECT_EQ(parse_device_types(written, "again", inputs.models), inputs.types);
  EXPECT_EQ(parse_hosts(hosts_to_yaml(inputs.hosts), "again", inputs.types), inputs.hosts);
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = text.find('\n', start);
    EXPECT_LE(end - start, 100u);
    start = end + 1;
  }
}

TEST(PlanInputs, TiedNumbersAreOptional) {
  const std::string text =
      "m:\n  layers: 2\n  mem_MB: [1, 2]\n  parameters_in: 3\n  parameters_out: [4, 5]\n";
  EXPECT_TRUE(parse_models(text, "m").at("m").tied_out.empty());
  const ModelTable tied = parse_models(text + "  tied_out: [7, 0]\n", "m");
  EXPECT_EQ(tied.at("m").tied_out, (std::vector<std::int64_t>{7, 0}));
  EXPECT_EQ(parse_models(models_to_yaml(tied), "again"), tied);
  EXPECT_THROW(static_cast<void>(parse_models(text + "  tied_out: [7]\n", "m")), Error);
}

TEST(PlanInputs, WhatTrainingTakesIsOptionalAndReadsBack) {
  const std::string model =
      "m:\n  layers: 2\n  mem_MB: [1, 2]\n  parameters_in: 3\n  parameters_out: [4, 5]\n";
  EXPECT_FALSE(parse_models(model, "m").at("m").training.known());
  const ModelTable models = parse_models(
      model + "  training: {fixed_MB: [1, 2], kept_MB: [3, 4], scratch_MB: [5, 6]}\n", "m");
  EXPECT_EQ(models.at("m").training.scratch_mb, (std::vector<double>{5, 6}));
  EXPECT_EQ(parse_models(models_to_yaml(models), "again"), models);
  for (const char* broken : {"{fixed_MB: [1, 2], kept_MB: [3, 4]}",
                             "{fixed_MB: [1], kept_MB: [3, 4], scratch_MB: [5, 6]}",
                             "{fixed_MB: [1, 2], kept_MB: [3, 4], scratch_MB: [5, 6], more: 1}"}) {
    EXPECT_THROW(static_cast<void>(parse_models(model + "  training: " + broken + "\n", "m")),
                 Error)
        << broken;
  }
  const std::string type =
      "t:\n  bw_Mbps: 1\n  mem_MB: 1\n  model_profiles:\n    m:\n    - batch_size: 8\n"
      "      dtype: torch.float32\n      time_s: [3, 6]\n";
  const DeviceTypeTable types =
      parse_device_types(type + "      forward_s: [1, 2]\n      spread: [0.1, 0]\n", "t", models);
  const LayerTimes& times = types.at("t").models.at("m").at(0);
  EXPECT_EQ(times.forward_s, (std::vector<double>{1, 2}));
  EXPECT_EQ(times.spread, (std::vector<double>{0.1, 0}));
  EXPECT_EQ(parse_device_types(device_types_to_yaml(types), "again", models), types);
  expect_error(ErrorCode::kInvalidArgument, "more than the 6 s of both passes", [&] {
    static_cast<void>(parse_device_types(type + "      forward_s: [1, 7]\n", "t", models));
  });
  EXPECT_THROW(static_cast<void>(parse_device_types(type + "      spread: [1]\n", "t", models)),
               Error);
}

TEST(PlanInputs, OddNamesAreQuotedAndReadBack) {
  HostTable hosts;
  DeviceTypeTable known;
  for (const char* name : {"a b", "null", "12", "1e5", "yes", "x: y", "#", "-", "\"q\"", "10.0.0.1",
                           "host:5", "[a]", "tab\t", "ends "}) {
    hosts["t"].emplace_back(name);
  }
  hosts["3.5"] = {"plain"};
  known["t"] = known["3.5"] = {};
  EXPECT_EQ(parse_hosts(hosts_to_yaml(hosts), "again", known), hosts);
}

TEST(PlanInputs, EmptyTablesReadBack) {
  EXPECT_EQ(parse_models(models_to_yaml({}), "m"), ModelTable{});
  EXPECT_EQ(parse_device_types(device_types_to_yaml({}), "t", {}), DeviceTypeTable{});
  EXPECT_EQ(parse_hosts(hosts_to_yaml({}), "h", {}), HostTable{});
  EXPECT_EQ(parse_links(links_to_yaml({}), "l", {}), LinkTable{});
  EXPECT_EQ(parse_models("", "m"), ModelTable{});
}

TEST(PlanInputs, ErrorsNameFileLineAndKey) {
  struct Case {
    std::string_view from, to;
    std::string expected;
  };
  const Case cases[] = {
      {"[1, 2.5, 3]", "[1, 2.5]", "models.yml:3: m.mem_MB: 2 values for 3 layers"},
      {"[1, 2.5, 3]", "[1, -2, 3]", "models.yml:3: m.mem_MB[2]: '-2' is negative"},
      {"[1, 2.5, 3]", "[1, .nan, 3]", "models.yml:3: m.mem_MB[2]: must be a number"},
      {"[1, 2.5, 3]", "[1, inf, 3]", "models.yml:3: m.mem_MB[2]: 'inf' is not finite"},
      {"[1, 2.5, 3]", "[1, 1e999, 3]", "models.yml:3: m.mem_MB[2]: must be a number"},
      {"[1, 2.5, 3]", "7", "models.yml:3: m.mem_MB: must be a list"},
      {"layers: 3", "layers: -1", "models.yml:2: m.layers: -1 is not in 0..20000"},
      {"layers: 3", "layers: 2.5", "models.yml:2: m.layers: must be a whole number"},
      {"layers: 3", "layers: 20001", "models.yml:2: m.layers: 20001 is not in 0..20000"},
      {"layers: 3", "layer: 3", "models.yml:2: m.layer: unknown key"},
      {"  parameters_in: 10\n", "", "m: the key 'parameters_in' is missing"},
      {"parameters_in: 10", "parameters_in: 1.5", "models.yml:4: m.parameters_in"},
      {"[4, 5, 6]", "[4, 5, 6, 7]", "models.yml:5: m.parameters_out: 4 values for 3 layers"},
      {"[4, 5, 6]", "[]", "models.yml:5: m.parameters_out: 0 values for 3 layers"},
      {"[4, 5, 6]", "[4, 5, 6", "models.yml:"},
      {"[4, 5, 6]", "[4, 5, 9007199254740993]", "m.parameters_out[3]"},
      {"m:", "m: &a\n  x: *a", "models.yml:2: an alias (*name) stands inside what it names"},
      {"[1, 2.5, 3]", "*a", "models.yml:3: not in order as YAML"},
      {"[4, 5, 6]", "!tag [4, 5, 6]", "models.yml:5: tags"},
      {"parameters_in: 10", "parameters_in: 10\n  layers: 3", "the key 'layers' is there twice"},
  };
  for (const Case& one : cases) {
    const std::string message = error_of(
        [&] { static_cast<void>(parse_models(replaced(kModel, one.from, one.to), "models.yml")); });
    EXPECT_TRUE(has(message, one.expected));
  }
}

TEST(PlanInputs, DeviceTypesAreComparedWithTheModels) {
  const auto error = [](std::string_view from, std::string_view to) {
    return error_of([&] {
      static_cast<void>(
          parse_device_types(replaced(kType, from, to), "device_types.yml", models()));
    });
  };
  EXPECT_TRUE(
      has(error("[0.1, 0.2, 0.3]", "[0.1, 0.2]"),
          "device_types.yml:8: fast.model_profiles.m[1].time_s: 2 values, but the model has 3 "
          "layers"));
  EXPECT_TRUE(has(error("batch_size: 8", "batch_size: 0"),
                  "device_types.yml:6: fast.model_profiles.m[1].batch_size: 0 is not in 1.."));
  EXPECT_TRUE(has(error("bw_Mbps: 1000", "bw_Mbps: -1"), "device_types.yml:2: fast.bw_Mbps"));
  EXPECT_TRUE(has(error("  mem_MB: 2048\n", ""), "the key 'mem_MB' is missing"));
  EXPECT_EQ(error("    m:", "    other:"), "no error")
      << "a model that is not there needs no length";
  const std::string twice = std::string(kType) +
                            "    - batch_size: 8\n      dtype: torch.float32\n"
                            "      time_s: [1, 2, 3]\n";
  EXPECT_TRUE(has(
      error_of([&] { static_cast<void>(parse_device_types(twice, "device_types.yml", models())); }),
      "batch size 8 and torch.float32 are there twice"));
}

TEST(PlanInputs, HostsAreUniqueAndOfKnownTypes) {
  const auto error = [](std::string_view text) {
    return error_of([&] { static_cast<void>(parse_hosts(text, "devices.yml", types())); });
  };
  EXPECT_TRUE(has(error("fast: [a, b, a]"), "devices.yml:1: fast[3]: the host 'a' is there twice"));
  EXPECT_TRUE(has(error("fast: [a]\nslow: [b]"), "devices.yml:2: slow: the file of device types"));
  EXPECT_TRUE(has(error("fast: a"), "must be a list"));
  EXPECT_TRUE(has(error("fast: [[a]]"), "must be a name"));
  EXPECT_TRUE(has(error("fast: [a]\nfast: [b]"), "the key 'fast' is there twice"));
  EXPECT_EQ(error("fast:"), "no error");
}

TEST(PlanInputs, ShortOutputListsAreRepeatedWithAWarning) {
  LogCapture log;
  const ModelTable table = parse_models(
      "m:\n  layers: 5\n  mem_MB: [1, 1, 1, 1, 1]\n  parameters_in: 1\n  parameters_out: [7, 8]\n",
      "models.yml");
  EXPECT_EQ(table.at("m").parameters_out, (std::vector<std::int64_t>{7, 8, 7, 8, 7}));
  ASSERT_EQ(log.lines().size(), 1u);
  EXPECT_TRUE(has(log.lines()[0], "m.parameters_out: 2 values for 5 layers"));
}

TEST(PlanInputs, LinksAreCheckedAgainstHosts) {
  const HostTable hosts = {{"fast", {"a", "b", "c"}}, {"slow", {"d"}}};
  const LinkTable links = parse_links(
      "groups:\n  lab: [a, b]\nlinks:\n- between: [lab, slow]\n  bw_Mbps: 10\n"
      "- between: [c, d]\n  bw_Mbps: 2.5\n",
      "links.yml", hosts);
  EXPECT_EQ(links.rules.size(), 2u);
  EXPECT_EQ(parse_links(links_to_yaml(links), "again", hosts), links);
  const auto error = [&](std::string_view text) {
    return error_of([&] { static_cast<void>(parse_links(text, "links.yml", hosts)); });
  };
  EXPECT_TRUE(
      has(error("links:\n- between: [a, x]\n  bw_Mbps: 1"), "'x' is no host, group or type"));
  EXPECT_TRUE(has(error("links:\n- between: [a]\n  bw_Mbps: 1"), "a list of two names"));
  EXPECT_TRUE(has(error("groups: {g: [a], h: [a]}"), "the host 'a' is in two groups"));
  EXPECT_TRUE(has(error("groups: {fast: [a]}"), "has this name already"));
  EXPECT_TRUE(has(error("groups: {g: [x]}"), "there is no host 'x'"));
}

TEST(PlanInputs, LatenciesMachinesAndCoresAreReadAndWritten) {
  const HostTable hosts = {{"fast", {"a", "b", "c"}}, {"slow", {"d"}}};
  const LinkTable links = parse_links(
      "links:\n- between: [a, slow]\n  bw_Mbps: 10\n  latency_ms: 20.3\n"
      "machines:\n  tower: {cores: 2, hosts: [a, b]}\n  'odd: name': {cores: 0.5, hosts: []}\n",
      "links.yml", hosts);
  EXPECT_EQ(links.rules.at(0), (LinkRule{"a", "slow", 10, 20.3}));
  EXPECT_EQ(links.machines.at("tower"), (MachineRule{2, {"a", "b"}}));
  EXPECT_EQ(parse_links(links_to_yaml(links), "again", hosts), links);
  const auto error = [&](std::string_view text) {
    return error_of([&] { static_cast<void>(parse_links(text, "links.yml", hosts)); });
  };
  EXPECT_TRUE(has(error("machines: {m: {cores: 0, hosts: [a]}}"), "must be above 0"));
  EXPECT_TRUE(has(error("machines: {m: {cores: 1, hosts: [x]}}"), "there is no host 'x'"));
  EXPECT_TRUE(has(error("machines: {m: {cores: 1, hosts: [a]}, n: {cores: 1, hosts: [a]}}"),
                  "the host 'a' is on two machines"));
  EXPECT_TRUE(
      has(error("links:\n- between: [a, b]\n  bw_Mbps: 1\n  latency_ms: -1"), "links.yml:4"));
  DeviceTypeTable types = {{"half", {100, 200, {}, 0.5}}, {"one", {100, 200, {}}}};
  const std::string text = device_types_to_yaml(types);
  EXPECT_EQ(parse_device_types(text, "again", {}), types);
  EXPECT_EQ(text.find("cores"), text.rfind("cores")) << "one core needs no words";
}

TEST(PlanInputs, DtypesHaveSizes) {
  EXPECT_EQ(plan_dtype_bytes("torch.float32"), 4);
  EXPECT_EQ(plan_dtype_bytes("torch.float16"), 2);
  EXPECT_EQ(plan_dtype_bytes("torch.bfloat16"), 2);
  EXPECT_EQ(plan_dtype_bytes("torch.float64"), 8);
  EXPECT_EQ(plan_dtype_bytes("torch.int8"), 1);
  EXPECT_TRUE(has(error_of([] { static_cast<void>(plan_dtype_bytes("float32")); }),
                  "there are: torch.float32"));
}

TEST(PlanInputs, LimitsAreReachedAndHeld) {
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '[') +
           std::string(static_cast<std::size_t>(depth), ']');
  };
  EXPECT_TRUE(
      has(error_of([&] { static_cast<void>(parse_models(nested(kMaxPlannerFileDepth + 1), "m")); }),
          "nested deeper than 12 levels"));
  EXPECT_TRUE(
      has(error_of([&] { static_cast<void>(parse_models(nested(kMaxPlannerFileDepth), "m")); }),
          "must be a map"));
  std::string many = "[1";
  for (std::size_t k = 0; k < kMaxPlannerFileValues; ++k) many += ",1";
  EXPECT_TRUE(has(error_of([&] { static_cast<void>(parse_models(many + "]", "m")); }),
                  "more than 500000 values"));
  std::string layers =
      "m:\n  layers: 20000\n  parameters_in: 1\n  parameters_out: [1]\n  mem_MB: [";
  for (std::size_t k = 0; k < kMaxPlanLayers; ++k) layers += k == 0 ? "1" : ",1";
  LogCapture log;
  EXPECT_EQ(parse_models(layers + "]\n", "m").at("m").layers(), kMaxPlanLayers);
}

TEST(PlanInputs, TooManyHostsAreRefused) {
  std::string text = "fast:\n";
  for (std::size_t k = 0; k < kMaxPlanHosts; ++k) text += format("- h{}\n", k);
  EXPECT_EQ(parse_hosts(text, "h", types()).at("fast").size(), kMaxPlanHosts);
  EXPECT_TRUE(
      has(error_of([&] { static_cast<void>(parse_hosts(text + "- one-more\n", "h", types())); }),
          "more than 60000 hosts"));
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
TEST(PlanInputs, HostileFilesAreRefusedWithinAMemoryLimit) {
  GTEST_SKIP() << "a sanitizer needs more address space than the limit leaves";
}
#else
// Reads a file as models in a process of its own that may use 256 MB of memory; gives its error.
std::string error_within_memory_limit(const std::filesystem::path& path) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{256u << 20, 256u << 20};
    ::setrlimit(RLIMIT_AS, &limit);
    std::string message = "read";
    try {
      message = error_of([&] {
        static_cast<void>(parse_models(read_text_file(path, kMaxPlannerFileBytes), path.string()));
      });
    } catch (const std::exception& error) {
      message = error.what();
    }
    const bool written = ::write(ends[1], message.data(), message.size()) > 0;
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  std::string message(4096, '\0');
  const ssize_t size = ::read(ends[0], message.data(), message.size());
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  message.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return message;
}

TEST(PlanInputs, HostileFilesAreRefusedWithinAMemoryLimit) {
  const TemporaryFolder folder;
  struct Case {
    std::string name, piece;
    std::size_t bytes;
    std::string expected;
  };
  const Case cases[] = {
      {"huge.yml", "a: [1, 2, 3]\n", std::size_t{50} << 20, "huge.yml"},
      {"list.yml", "[a,", kMaxPlannerFileBytes - 16, "nested deeper"},
      {"values.yml", "- 1\n", kMaxPlannerFileBytes - 16, "more than 500000 values"},
      {"flow.yml", "{a: ", kMaxPlannerFileBytes - 16, "flow.yml:1: nested deeper"},
      {"question.yml", "? ", 1 << 20, "nested deeper"},
      {"dash.yml", "- ", 1 << 20, "nested deeper"},
      {"dashes.yml", "- ", kMaxPlannerFileBytes - 16, "more than 500000 values"},
      {"wide.yml", "[1],", kMaxPlannerFileBytes - 16, "more than 500000 values"},
      {"anchor.yml", "&a ", kMaxPlannerFileBytes - 16, "more than 500000 values"},
      {"tag.yml", "!a ", kMaxPlannerFileBytes - 16, "more than 500000 values"},
      {"quoted.yml", "x: y \"\n", kMaxPlannerFileBytes - 16, "more than 500000 values"},
      {"empty.yml", "\n", kMaxPlannerFileBytes - 16, ""},
      {"words.yml", "word ", kMaxPlannerFileBytes - 16, "must be a map"},
      {"anchors.yml", "- &a [1]\n", 2 << 20, "more than 500000 values"},
      {"aliases.yml", "- &a [1,1,1,1,1,1,1,1]\n- *a\n- *a\n- *a\n- *a\n", 1 << 20,
       "more than 500000 values"},
      {"documents.yml", "---\n", 4096, "second document"},
  };
  for (const Case& one : cases) {
    std::string text;
    text.reserve(one.bytes + one.piece.size());
    while (text.size() < one.bytes) text += one.piece;
    std::ofstream(folder.path() / one.name) << text;
    EXPECT_TRUE(has(error_within_memory_limit(folder.path() / one.name), one.expected)) << one.name;
  }
}
#endif

// Each line names nine of the line before: a thousand million values in a few hundred bytes.
TEST(PlanInputs, ABombOfAliasesIsRefused) {
  std::string text = "l0: &l0 [x]\n";
  for (int k = 1; k < 10; ++k) {
    text += format("l{}: &l{} [", k, k);
    for (int i = 0; i < 9; ++i) text += format("{}*l{}", i == 0 ? "" : ", ", k - 1);
    text += "]\n";
  }
  const std::string message = error_of([&] { static_cast<void>(parse_models(text, "bomb.yml")); });
  EXPECT_TRUE(has(message, "more than 500000 values"));
  std::string deep = "l0: &l0 [x]\n";
  for (int k = 1; k < 14; ++k) deep += format("l{}: &l{} [*l{}]\n", k, k, k - 1);
  EXPECT_TRUE(has(error_of([&] { static_cast<void>(parse_models(deep, "deep.yml")); }),
                  "nested deeper than 12 levels"));
}

// What PyYAML writes by itself when two types share a list.
TEST(PlanInputs, AnchorsAndAliasesAreRead) {
  const std::string plain =
      "m:\n  layers: 2\n  mem_MB: [1, 2]\n  parameters_in: 5\n  parameters_out: [3, 4]\n"
      "n:\n  layers: 2\n  mem_MB: [1, 2]\n  parameters_in: 5\n  parameters_out: [3, 4]\n";
  const std::string named =
      "m: &id001\n  layers: &n 2\n  mem_MB: &id002\n  - 1\n  - *n\n  parameters_in: 5\n"
      "  parameters_out: [3, 4]\nn:\n  layers: *n\n  mem_MB: *id002\n  parameters_in: 5\n"
      "  parameters_out: [3, 4]\n";
  EXPECT_EQ(models_to_yaml(parse_models(named, "m.yml")), models_to_yaml(parse_models(plain, "m")));
  const std::string whole = "m: &a" + plain.substr(2, plain.find("\nn:") - 1) + "n: *a\n";
  EXPECT_EQ(models_to_yaml(parse_models(whole, "m.yml")), models_to_yaml(parse_models(plain, "m")));
}

}  // namespace
}  // namespace harmonics::inline in_plan
