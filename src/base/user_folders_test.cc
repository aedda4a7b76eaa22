#include <harmonics/base/user_folders.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/base/environment.h>

namespace harmonics::inline in_base {
namespace {

using Folder = std::optional<std::filesystem::path>;

struct Rule {
  const char* variable;
  const char* below_home;
  std::function<Folder()> folder;
};

// The variables of this process come back after each test.
class UserFolders : public ::testing::Test {
 protected:
  UserFolders() {
    for (const Rule& rule : rules_) before_[rule.variable] = environment_text(rule.variable);
    before_["HOME"] = environment_text("HOME");
  }
  ~UserFolders() override {
    for (const auto& [name, value] : before_) {
      if (value.empty()) {
        ::unsetenv(name.c_str());
      } else {
        ::setenv(name.c_str(), value.c_str(), 1);
      }
    }
  }

  const std::vector<Rule> rules_ = {{"XDG_STATE_HOME", ".local/state", user_state_folder},
                                    {"XDG_CACHE_HOME", ".cache", user_cache_folder},
                                    {"XDG_CONFIG_HOME", ".config", user_config_folder}};
  std::map<std::string, std::string> before_;
};

TEST_F(UserFolders, AreTheOnesThatTheVariablesName) {
  ::setenv("HOME", "/people/ann", 1);
  for (const Rule& rule : rules_) {
    ::setenv(rule.variable, "/elsewhere", 1);
    EXPECT_EQ(rule.folder(), Folder("/elsewhere/harmonics")) << rule.variable;
    ::unsetenv("HOME");
    EXPECT_EQ(rule.folder(), Folder("/elsewhere/harmonics")) << rule.variable;
    ::setenv("HOME", "/people/ann", 1);
  }
}

TEST_F(UserFolders, AreTheUsualOnesWhereAVariableNamesNone) {
  ::setenv("HOME", "/people/ann", 1);
  for (const Rule& rule : rules_) {
    const Folder usual = std::filesystem::path("/people/ann") / rule.below_home / "harmonics";
    ::unsetenv(rule.variable);
    EXPECT_EQ(rule.folder(), usual) << rule.variable;
    for (const char* none : {"", "relative", "./relative", "~/relative"}) {
      ::setenv(rule.variable, none, 1);
      EXPECT_EQ(rule.folder(), usual) << rule.variable << " = '" << none << "'";
    }
  }
}

TEST_F(UserFolders, AreNoneWithoutAHome) {
  for (const Rule& rule : rules_) {
    ::setenv(rule.variable, "relative", 1);
    ::unsetenv("HOME");
    EXPECT_EQ(rule.folder(), std::nullopt) << rule.variable;
    for (const char* none : {"", "relative"}) {
      ::setenv("HOME", none, 1);
      EXPECT_EQ(rule.folder(), std::nullopt) << rule.variable << ", HOME = '" << none << "'";
    }
  }
}

}  // namespace
}  // namespace harmonics::inline in_base
