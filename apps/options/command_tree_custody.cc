// harmonics keys, and the flags of secure runs.
#include <harmonics/custody/keys.h>

#include "command_tree.h"
#include "shared_options.h"

namespace harmonics::inline in_options {
namespace {

constexpr std::int64_t kMaxSignedSteps = 1'000'000'000;

}  // namespace

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
  add_choice(made, "--kind", keys_new_.kind, "ed25519|p256",
             "ed25519 signs secure runs, p256 signs models (ed25519)");
  add_folder(made, "--keys", keys_new_.folder, "folder of keys (the user's)");
  made.footer(
      example("  harmonics keys new alice\n"
              "  harmonics keys new release --kind p256\n\n"
              "Writes NAME.key (p256: NAME.pem), which is secret (mode 600), and NAME.pub "
              "(NAME.pub.pem), which others need. The folder is $HARMONICS_KEYS, else "
              "harmonics/keys in the user's configuration."));
  made.callback([this] { command_ = keys_new_; });

  CLI::App& show = *keys.add_subcommand("show", "lists the keys of the roster");
  add_folder(show, "--keys", keys_show_.folder, "folder of keys (the user's)");
  add_output(show, keys_show_.output);
  show.footer(example("  harmonics keys show --output json"));
  show.callback([this] { command_ = keys_show_; });
}

void CommandTree::add_secure(CLI::App& app, SecureFlags& secure, SecureUse use) {
  CLI::Option* on = nullptr;
  if (use != SecureUse::kTrains) {
    const std::string with = use == SecureUse::kStages ? "; with --infer," : ";";
    on = app.add_option_function<std::string>(
                "--secure",
                [&secure](const std::string& mode) {
                  secure.mode = mode == "zk"        ? SecureMode::kZk
                                : mode == "network" ? SecureMode::kNetwork
                                                    : SecureMode::kChain;
                },
                "sign and check every tensor" + with +
                    " of an int8 network, zk: every layer is a part that proves itself, network: "
                    "every part proves all that it computes, and shows what it gives out")
             ->expected(0, 1)
             ->default_str("chain")
             ->option_text("[=zk|network]")
             ->check([](const std::string& mode) {
               const bool known = mode == "chain" || mode == "zk" || mode == "network";
               return known ? std::string()
                            : format("'{}' is neither chain nor zk nor network", mode);
             });
  } else {
    on = app.add_flag_callback(
                "--secure", [&secure] { secure.mode = SecureMode::kChain; },
                "sign and check every tensor between parts")
             ->option_text(" ");
  }
  if (use != SecureUse::kRuns) {
    add_whole(app, "--sign-weights-every", secure.weights_every, {0, kMaxSignedSteps},
              "announce the weights every so many steps too (0: at the ends and checkpoints)")
        ->needs(on)
        ->option_text("N");
    app.add_flag("--sign-layers", secure.layers,
                 "sign what every layer gave, so that an audit can name the one that was wrong")
        ->needs(on)
        ->option_text(" ");
  }
  add_path(app, "--proof", secure.proof, "where the chain of a secure run goes")
      ->needs(on)
      ->option_text("FILE");
  add_text(app, "--key", secure.key, "NAME", "key to sign with (the only one there is)")
      ->needs(on)
      ->option_text("NAME");
  add_folder(app, "--keys", secure.keys, "folder of keys (the user's)")
      ->needs(on)
      ->option_text("FOLDER");
}

void CommandTree::add_quantize() {
  CLI::App& quantize =
      *root_.add_subcommand("quantize", "makes an int8 network whose parts can be proven");
  add_model_file(quantize, quantize_.file);
  add_path(quantize, "--weights", quantize_.weights,
           "weights: a checkpoint, safetensors, GGUF or a map (those that FILE names)");
  add_path(quantize, "--out", quantize_.out, "where the int8 network goes")
      ->required()
      ->option_text("FILE (required)");
  add_bindings(quantize, "--bind", quantize_.bindings, "data of a producer (repeatable)");
  add_output(quantize, quantize_.output);
  quantize.footer(example(
      "  harmonics quantize examples/digits.harp --weights digits.safetensors \\\n"
      "    --out digits.int8\n\n"
      "Ranges come from the data; accuracy is reported on the rows that --test-split of the "
      "file holds back, else on all."));
  quantize.callback([this] { command_ = quantize_; });
}

}  // namespace harmonics::inline in_options
