// harmonics keys new, harmonics keys show.
#include <harmonics/base/format.h>
#include <harmonics/base/json.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/custody/keys.h>
#include <harmonics/custody/pem_key.h>

#include "subcommands.h"

namespace harmonics::inline in_front {
namespace {

std::filesystem::path folder_or_default(const std::filesystem::path& folder) {
  return folder.empty() ? default_key_folder() : folder;
}

}  // namespace

namespace {

int model_key_new(const KeysNewCommand& command, const std::filesystem::path& folder) {
  const EcSigningKey key = EcSigningKey::make();
  key.save(folder, command.name);
  write_text(TextStream::kOutput,
             format("{} {}\nsecret: {}\npublic: {} (give this one to who verifies)\n", command.name,
                    key.public_key().hint(), (folder / (command.name + ".pem")).string(),
                    (folder / (command.name + ".pub.pem")).string()));
  return kExitDone;
}

}  // namespace

int keys_new(const KeysNewCommand& command) {
  const std::filesystem::path folder = folder_or_default(command.folder);
  if (command.kind == KeyKind::kP256) return model_key_new(command, folder);
  const SigningKey key = SigningKey::make(command.name);
  key.save(folder);
  write_text(TextStream::kOutput,
             format("{} {}\nsecret: {}\npublic: {} (give this one to who verifies)\n", key.name(),
                    key_text(key.public_key()), (folder / (key.name() + ".key")).string(),
                    (folder / (key.name() + ".pub")).string()));
  return kExitDone;
}

namespace {

/// The keys of a folder, and which of them have their secret half there.
struct ShownKeys {
  std::filesystem::path folder;
  Roster roster;

  [[nodiscard]] bool own(const std::string& name) const {
    return std::filesystem::exists(folder / (name + ".key"));
  }
};

std::string table_text(const ShownKeys& shown) {
  Table table{{{"name"}, {"own"}, {"public key"}}, {}};
  for (const auto& [name, key] : shown.roster.keys()) {
    table.rows.push_back({name, shown.own(name) ? "yes" : "no", key_text(key)});
  }
  const std::string head =
      format("{}: {} key(s)\n", shown.folder.string(), shown.roster.keys().size());
  return table.rows.empty() ? head : head + table.text(wants_colour(TextStream::kOutput));
}

std::string json_text(const ShownKeys& shown) {
  Json keys = Json::array();
  for (const auto& [name, key] : shown.roster.keys()) {
    keys.push(Json().set("name", name).set("own", shown.own(name)).set("key", key_text(key)));
  }
  return Json().set("folder", shown.folder.string()).set("keys", std::move(keys)).dump(2) + "\n";
}

std::string names_text(const ShownKeys& shown) {
  std::string text;
  for (const auto& [name, key] : shown.roster.keys()) text += name + "\n";
  return text;
}

}  // namespace

int keys_show(const KeysShowCommand& command) {
  const std::filesystem::path folder = folder_or_default(command.folder);
  const ShownKeys shown{folder, Roster::load(folder)};
  std::string text;
  switch (command.output) {
    case OutputStyle::kTable: text = table_text(shown); break;
    case OutputStyle::kJson: text = json_text(shown); break;
    case OutputStyle::kQuiet: text = names_text(shown); break;
  }
  write_text(TextStream::kOutput, text);
  return kExitDone;
}

}  // namespace harmonics::inline in_front
