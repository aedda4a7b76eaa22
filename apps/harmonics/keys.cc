// harmonics keys new, harmonics keys show.
#include <harmonics/base/format.h>
#include <harmonics/base/json.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/custody/keys.h>

#include "subcommands.h"

namespace harmonics::inline in_front {
namespace {

std::filesystem::path folder_or_default(const std::filesystem::path& folder) {
  return folder.empty() ? default_key_folder() : folder;
}

}  // namespace

int keys_new(const KeysNewCommand& command) {
  const std::filesystem::path folder = folder_or_default(command.folder);
  const SigningKey key = SigningKey::make(command.name);
  key.save(folder);
  write_text(TextStream::kOutput,
             format("{} {}\nsecret: {}\npublic: {} (give this one to who verifies)\n", key.name(),
                    key_text(key.public_key()), (folder / (key.name() + ".key")).string(),
                    (folder / (key.name() + ".pub")).string()));
  return kExitDone;
}

int keys_show(const KeysShowCommand& command) {
  const std::filesystem::path folder = folder_or_default(command.folder);
  const Roster roster = Roster::load(folder);
  const auto own = [&](const std::string& name) {
    return std::filesystem::exists(folder / (name + ".key"));
  };
  std::string text;
  switch (command.output) {
    case OutputStyle::kTable: {
      Table table{{{"name"}, {"own"}, {"public key"}}, {}};
      for (const auto& [name, key] : roster.keys()) {
        table.rows.push_back({name, own(name) ? "yes" : "no", key_text(key)});
      }
      text = format("{}: {} key(s)\n", folder.string(), roster.keys().size());
      if (!roster.keys().empty()) text += table.text(wants_colour(TextStream::kOutput));
      break;
    }
    case OutputStyle::kJson: {
      Json keys = Json::array();
      for (const auto& [name, key] : roster.keys()) {
        keys.push(Json().set("name", name).set("own", own(name)).set("key", key_text(key)));
      }
      text = Json().set("folder", folder.string()).set("keys", std::move(keys)).dump(2) + "\n";
      break;
    }
    case OutputStyle::kQuiet:
      for (const auto& [name, key] : roster.keys()) text += name + "\n";
      break;
  }
  write_text(TextStream::kOutput, text);
  return kExitDone;
}

}  // namespace harmonics::inline in_front
