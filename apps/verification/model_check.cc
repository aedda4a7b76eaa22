#include <harmonics/verification/model_check.h>

#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/format.h>
#include <harmonics/base/json.h>
#include <harmonics/base/listed.h>
#include <harmonics/console/terminal.h>
#include <harmonics/custody/breach.h>
#include <harmonics/custody/model_signature.h>
#include <harmonics/options/command_line.h>

namespace harmonics::inline in_verification {
namespace {

struct NamedKey {
  std::string name;
  EcPublicKey key;
};

// The key that the command gives, or the one of the folder that the signature means.
NamedKey signer_of(const VerifyCommand& command, const std::string& bundle) {
  if (!command.public_key.empty()) {
    return {command.public_key.string(), EcPublicKey::load(command.public_key)};
  }
  const std::filesystem::path folder = key_folder_or_default(command.keys);
  const std::string hint = bundle_hint(bundle);
  for (const auto& [name, key] : load_ec_roster(folder)) {
    if (key.hint() == hint) return {name, key};
  }
  fail_custody(Breach::kSubstitutedKey,
               "the model is signed by the key {}, which '{}' does not have: give the signer's PEM "
               "file with --public-key, or put it there as NAME.pub.pem",
               hint.empty() ? "of nobody who is named" : hint, folder.string());
}

// The folder of the signature, or the file that it lies beside.
std::filesystem::path model_of(const VerifyCommand& command) {
  if (!command.model.empty()) return command.model;
  const std::filesystem::path& signature = command.files.front();
  const std::filesystem::path beside = std::filesystem::path(signature).replace_extension();
  if (signature.extension() == ".sig" && std::filesystem::is_regular_file(beside)) return beside;
  const std::filesystem::path folder = signature.parent_path();
  return folder.empty() ? "." : folder;
}

std::string subjects_text(const SignedStatement& one) {
  return joined(one.statement.at("subject").as_array(), ", ", [](const Json& subject) {
    const Json* name = subject.is_object() ? subject.find("name") : nullptr;
    return name != nullptr && name->is_string() ? name->as_string() : std::string("unnamed");
  });
}

}  // namespace

int verify_model(const VerifyCommand& command) {
  const std::filesystem::path& file = command.files.front();
  const std::string bundle = read_text_file(file, kMaxBundleBytes);
  const NamedKey signer = signer_of(command, bundle);
  const ModelManifest manifest = check_bundle(bundle, signer.key);
  const std::filesystem::path model = model_of(command);
  check_model(model, manifest, file);
  switch (command.output) {
    case OutputStyle::kTable:
      write_text(TextStream::kOutput,
                 format("verified: the {} file(s) of '{}' are those that '{}' signed\n",
                        manifest.files.size(), model.string(), signer.name));
      break;
    case OutputStyle::kJson: {
      Json files = Json::array();
      for (const ModelFile& one : manifest.files) {
        files.push(Json().set("name", one.name).set("sha256", digest_text(one.digest)));
      }
      write_text(TextStream::kOutput, Json().set("model", manifest.model)
                                              .set("signer", signer.name)
                                              .set("key", signer.key.hint())
                                              .set("files", std::move(files))
                                              .dump(2) +
                                          "\n");
      break;
    }
    case OutputStyle::kQuiet: break;
  }
  return kExitDone;
}

void compare_stated_file(const VerifyCommand& command, const Evidence& evidence) {
  if (command.model.empty()) return;
  if (evidence.statements.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "--model is compared with the signature of a model or with statements: a chain names no "
         "files; use --weights");
  }
  const Digest digest = file_digest(command.model);
  if (states_file(evidence.statements, digest)) return;
  fail_custody(Breach::kAlteredModel, "no statement is of '{}', whose SHA-256 is {}",
               command.model.string(), digest_text(digest));
}

int verify_foreign_statements(const VerifyCommand& command, const Evidence& evidence) {
  compare_stated_file(command, evidence);
  std::string text;
  Json all = Json::array();
  for (const SignedStatement& one : evidence.statements) {
    const std::string& type = one.statement.at("predicateType").as_string();
    text += format("verified: '{}' signed a statement '{}' of {}\n", one.signer, type,
                   subjects_text(one));
    all.push(Json()
                 .set("signer", one.signer)
                 .set("predicate_type", type)
                 .set("subject", one.statement.at("subject")));
  }
  if (command.output == OutputStyle::kJson) {
    text = Json().set("statements", std::move(all)).dump(2) + "\n";
  }
  if (command.output != OutputStyle::kQuiet) write_text(TextStream::kOutput, text);
  return kExitDone;
}

}  // namespace harmonics::inline in_verification
