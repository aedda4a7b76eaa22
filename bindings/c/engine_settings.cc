#include "engine_settings.h"

#include <chrono>
#include <map>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/base/listed.h>
#include <harmonics/proven/proofs.h>
#include <harmonics/runtime/train_options.h>

namespace harmonics::border {
namespace {

/// Numbers and truth values may stand with or without quotes.
std::string plain(const Json& value) {
  return value.is_string() ? value.as_string() : value.dump();
}

Nanoseconds seconds(const Json& value) {
  return std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(value.as_number()));
}

PartitionOptions partition(const Json& value) {
  PartitionOptions options;
  if (value.is_string()) {
    options.backend = backend_from_name(value.as_string());
    return options;
  }
  for (const auto& [key, member] : value.as_object()) {
    if (key == "backend") {
      options.backend = backend_from_name(member.as_string());
    } else if (key == "device") {
      options.device_index = static_cast<std::uint32_t>(member.as_integer());
      options.fpga_device_index = options.device_index;
    } else if (key == "weight") {
      options.weight = member.as_number();
    } else {
      fail(ErrorCode::kInvalidArgument,
           "deploy: unknown key '{}'; there are backend, device and weight", key);
    }
  }
  return options;
}

using Reader = std::function<void(EngineSettings&, const Json&)>;

const std::map<std::string, Reader, std::less<>>& readers() {
  static const std::map<std::string, Reader, std::less<>> all = {
      {"run", [](auto& to, const Json& value) { to.remote.transport.run = value.as_string(); }},
      {"token", [](auto& to, const Json& value) { to.remote.transport.token = value.as_string(); }},
      {"first_contact_s",
       [](auto& to, const Json& value) { to.remote.first_contact = seconds(value); }},
      {"deadline_s",
       [](auto& to, const Json& value) { to.remote.pipeline.deadline = seconds(value); }},
      {"secure",
       [](auto& to, const Json& value) {
         to.deploy.secure = value.as_bool();
         to.secure.on = value.as_bool();
       }},
      {"secure_key", [](auto& to, const Json& value) { to.secure.key = value.as_string(); }},
      {"secure_keys", [](auto& to, const Json& value) { to.secure.keys = value.as_string(); }},
      {"secure_chain", [](auto& to, const Json& value) { to.secure.chain = value.as_string(); }},
      {"secure_proofs",
       [](auto& to, const Json& value) {
         to.deploy.proofs = true;
         to.secure.proofs = int8_proofs(load_int8_network(value.as_string()));
       }},
      {"secure_sets_aside",
       [](auto& to, const Json& value) { to.secure.sets_aside = value.as_bool(); }},
      {"strict", [](auto& to, const Json& value) { to.deploy.strict = value.as_bool(); }},
      {"deploy",
       [](auto& to, const Json& value) {
         for (const Json& each : value.as_array()) to.deploy.partitions.push_back(partition(each));
       }},
  };
  return all;
}

[[noreturn]] void refuse_key(const std::string& key) {
  std::vector<std::string> names;
  for (const auto& [name, reader] : readers()) names.push_back(name);
  for (const TrainSettingRule& rule : train_setting_rules()) names.push_back(rule.key);
  fail(ErrorCode::kInvalidArgument, "there is no setting '{}'; there are {}", key, listed(names));
}

}  // namespace

EngineSettings engine_settings(std::string_view json) {
  EngineSettings made;
  TrainSettings train;
  const Json settings = json.empty() ? Json::object() : Json::parse(json, "settings");
  for (const auto& [key, value] : settings.as_object()) {
    try {
      if (const auto reader = readers().find(key); reader != readers().end()) {
        reader->second(made, value);
      } else if (const TrainSettingRule* rule = find_train_setting_rule(key)) {
        rule->apply(train, plain(value));
      } else {
        refuse_key(key);
      }
    } catch (const Error& error) {
      throw Error(error.code(), format("setting '{}': {}", key, error.what()));
    }
  }
  made.remote.runtime = runtime_options(train);
  made.remote.runtime.secure = made.secure;
  made.deploy.backend = made.remote.runtime.backend;
  made.remote.pipeline.order = pipeline_order_from_name(train.pipeline);
  return made;
}

}  // namespace harmonics::border
