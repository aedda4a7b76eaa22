// harmonics keys and harmonics verify.
#include <harmonics/custody/keys.h>

#include "command_tree.h"
#include "option_kinds.h"

namespace harmonics {

void CommandTree::add_keys() {
  CLI::App& keys = *root_.add_subcommand("keys", "makes and shows keys that sign secure runs");
  keys.require_subcommand(1);
  keys.footer(example("  harmonics keys new alice"));

  CLI::App& made = *keys.add_subcommand("new", "makes a key and adds it to the roster");
  add_text(made, "NAME", keys_new_.name, "NAME", "whose key it is")
      ->required()
      ->option_text("(required)")
      ->check(check_by([](const std::string& name) {
        const std::string problem = key_name_problem(name);
        if (!problem.empty()) {
          fail(ErrorCode::kInvalidArgument, "'{}' cannot name a key: {}", name, problem);
        }
      }));
  add_path(made, "--keys", keys_new_.folder, "folder of keys (the user's)")->type_name("DIR");
  made.footer(
      example("  harmonics keys new alice\n\n"
              "Writes NAME.key, which is secret (mode 600), and NAME.pub, which others need. The "
              "folder is $HARMONICS_KEYS, else harmonics/keys in the user's configuration."));
  made.callback([this] { command_ = keys_new_; });

  CLI::App& show = *keys.add_subcommand("show", "lists the keys of the roster");
  add_path(show, "--keys", keys_show_.folder, "folder of keys (the user's)")->type_name("DIR");
  add_output(show, keys_show_.output);
  show.footer(example("  harmonics keys show --output json"));
  show.callback([this] { command_ = keys_show_; });
}

void CommandTree::add_verify() {
  CLI::App& verify = *root_.add_subcommand("verify", "checks the chain of custody of a secure run");
  verify
      .add_option_function<std::vector<std::string>>(
          "FILE",
          [this](const std::vector<std::string>& files) {
            verify_.files.assign(files.begin(), files.end());
          },
          "the chain, or the chains of all stages of one run")
      ->type_name("FILE...")
      ->required()
      ->option_text("(required)");
  add_path(verify, "--keys", verify_.keys, "folder of public keys to trust (the user's)")
      ->type_name("DIR");
  add_path(verify, "--tensors", verify_.tensors,
           "check the tensors in this folder too, each named by its root")
      ->type_name("DIR");
  verify.add_flag("--explain", verify_.explain, "draw who handed what to whom")->option_text(" ");
  verify
      .add_flag("--allow-unknown", verify_.allow_unknown, "accept signers that are not in --keys")
      ->option_text(" ");
  add_output(verify, verify_.output);
  verify.footer(
      example("  harmonics verify run.chain --keys trusted --explain\n\n"
              "Exit code 0: everything holds and all signers are known. 1: something does not; the "
              "message names the first broken link."));
  verify.callback([this] { command_ = verify_; });
}

}  // namespace harmonics
