// harmonics sign, harmonics verify and harmonics custody.
#include "command_tree.h"
#include "shared_options.h"

namespace harmonics::inline in_options {
namespace {

CLI::Option* add_files(CLI::App& app, std::vector<std::filesystem::path>& files,
                       const std::string& help) {
  return app
      .add_option_function<std::vector<std::string>>(
          "FILE",
          [&files](const std::vector<std::string>& given) {
            files.assign(given.begin(), given.end());
          },
          help)
      ->type_name("FILE...")
      ->required()
      ->option_text("(required)");
}

void add_paths(CLI::App& app, const std::string& flag, std::vector<std::filesystem::path>& paths,
               const std::string& help) {
  app.add_option_function<std::vector<std::string>>(
         flag,
         [&paths](const std::vector<std::string>& given) {
           paths.assign(given.begin(), given.end());
         },
         help)
      ->type_name("PATH")
      ->allow_extra_args(false);
}

}  // namespace

void CommandTree::add_sign() {
  CLI::App& sign = *root_.add_subcommand(
      "sign", "signs the files of a model as OpenSSF Model Signing does (sigstore bundle)");
  add_path(sign, "MODEL", sign_.model, "a file, or a folder with all that it holds")
      ->required()
      ->option_text("(required)");
  add_text(sign, "--key", sign_.key, "NAME|FILE.pem", "key to sign with (the only one there is)");
  add_folder(sign, "--keys", sign_.keys, "folder of keys (the user's)");
  add_path(sign, "--signature", sign_.signature,
           "where the signature goes (model.sig in the folder, or FILE.sig)");
  add_texts(sign, "--ignore", sign_.ignored, "PATH",
            "leave out this path inside the folder (repeatable)");
  add_output(sign, sign_.output);
  sign.footer(
      example("  harmonics keys new release --kind p256\n"
              "  harmonics sign model --key release\n"
              "  harmonics verify model/model.sig\n\n"
              "'model_signing verify key' of OpenSSF accepts the signature, and 'harmonics verify' "
              "those that 'model_signing sign key' makes."));
  sign.callback([this] { command_ = sign_; });
}

void CommandTree::add_verify() {
  CLI::App& verify = *root_.add_subcommand(
      "verify", "checks the chain of custody of a secure run, or the signature of a model");
  add_files(verify, verify_.files,
            "the chain, or the chains of all stages of one run; statements made of them; or the "
            "signature of a model");
  add_folder(verify, "--keys", verify_.keys, "folder of public keys to trust (the user's)");
  add_path(verify, "--model", verify_.model,
           "the model that was signed (where its signature lies), or a file that statements name");
  add_path(verify, "--public-key", verify_.public_key,
           "PEM file of who signed the model (one of --keys)");
  add_folder(verify, "--tensors", verify_.tensors,
             "check the tensors in this folder too, each named by its root");
  add_texts(verify, "--line", verify_.lines, "PROOF",
            "check that this line, which proof() of a run gave, is in the chain (repeatable)");
  add_path(verify, "--weights", verify_.weights,
           "compare the weights of this checkpoint or safetensors file with those announced");
  add_paths(verify, "--graph", verify_.graphs,
            "compare this model, or the files of its parts, with the graphs signed (repeatable)");
  add_bindings(verify, "--data", verify_.data,
               "compare this data of a producer of the --graph with what entered (repeatable)");
  for (const char* key : {"batch_size", "micro_batches", "seed", "test_split", "shuffle"}) {
    add_setting(verify, *find_train_setting_rule(key), verify_.settings);
  }
  add_text(verify, "--recompute", verify_.recompute, "all|STEPS|sample=N|P%",
           "compute these steps of the --graph again and compare: 5,10-20; N drawn; a share");
  add_paths(verify, "--checkpoints", verify_.checkpoints,
            "checkpoints of the run, or folders of them, to compute from (repeatable)");
  add_text(verify, "--draw", verify_.draw, "SEED",
           "what steps are drawn with: a later beacon, or anything else (chance)");
  add_paths(verify, "--against", verify_.against,
            "another account of the same run: computes the step where they part (repeatable)");
  verify.add_flag("--explain", verify_.explain, "draw who handed what to whom")->option_text(" ");
  verify
      .add_flag("--allow-unknown", verify_.allow_unknown, "accept signers that are not in --keys")
      ->option_text(" ");
  add_output(verify, verify_.output);
  verify.footer(
      example("  harmonics verify run.chain --keys trusted --explain\n"
              "  harmonics verify run.chain --graph net.harp --weights net.safetensors \\\n"
              "    --data 'image=csv:digits.csv?columns=0-63'\n"
              "  harmonics verify run.chain --graph net.harp --checkpoints kept --recompute 1%\n"
              "  harmonics verify model/model.sig --public-key release.pub.pem\n\n"
              "How data was cut into batches comes from flags, the checkpoint or the model's file. "
              "Exit code 0: everything holds and all signers are known. 1: something does not; the "
              "message names the first broken link."));
  verify.callback([this] { command_ = verify_; });
}

void CommandTree::add_custody() {
  CLI::App& custody =
      *root_.add_subcommand("custody", "chains of custody for other tools and as a picture");
  custody.require_subcommand(1);
  custody.footer(example("  harmonics custody show run.chain --out run.svg"));

  CLI::App& exported = *custody.add_subcommand(
      "export", "writes a chain as in-toto statements (SLSA provenance) in DSSE envelopes");
  add_files(exported, custody_export_.files, "the chain, or the chains of all stages of one run");
  add_path(exported, "--out", custody_export_.out, "where the statements go, one on each line")
      ->required()
      ->option_text("FILE (required)");
  add_text(exported, "--key", custody_export_.key, "NAME",
           "key to sign the statements with (the only one there is)");
  add_folder(exported, "--keys", custody_export_.keys,
             "folder of keys, and of those to trust (the user's)");
  add_path(exported, "--weights", custody_export_.weights,
           "file of the final weights, which the statements are then of");
  add_path(exported, "--graph", custody_export_.graph,
           "the model, where the file of weights does not say which stage has which");
  exported
      .add_flag("--allow-unknown", custody_export_.allow_unknown,
                "accept signers that are not in --keys")
      ->option_text(" ");
  exported.footer(
      example("  harmonics custody export run.chain --out run.intoto.jsonl --key alice\n\n"
              "The chain is verified first. 'harmonics verify' takes the statements as it takes "
              "the chain."));
  exported.callback([this] { command_ = custody_export_; });

  CLI::App& imported = *custody.add_subcommand("import", "takes the chain out of statements again");
  add_files(imported, custody_import_.files, "the statements of all stages of one run");
  add_path(imported, "--out", custody_import_.out, "where the chain goes")
      ->required()
      ->option_text("FILE (required)");
  add_folder(imported, "--keys", custody_import_.keys,
             "folder of public keys to trust (the user's)");
  imported.footer(example("  harmonics custody import run.intoto.jsonl --out run.chain"));
  imported.callback([this] { command_ = custody_import_; });

  CLI::App& show = *custody.add_subcommand("show", "draws who did what, when (SVG)");
  add_files(show, custody_show_.files, "the chain, the chains of all stages, or statements");
  add_path(show, "--out", custody_show_.out, "where the picture goes (standard output)");
  add_folder(show, "--keys", custody_show_.keys, "folder of public keys to trust (the user's)");
  add_whole(show, "--step", custody_show_.step, {1, std::int64_t{1} << 62},
            "the step that is drawn hand-over by hand-over (1)");
  show.footer(example("  harmonics custody show run.chain --step 3 --out run.svg"));
  show.callback([this] { command_ = custody_show_; });
}

}  // namespace harmonics::inline in_options
