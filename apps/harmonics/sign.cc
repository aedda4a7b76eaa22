// harmonics sign: the signature of a model that tools of OpenSSF Model Signing verify.
#include <harmonics/base/file.h>
#include <harmonics/base/format.h>
#include <harmonics/base/json.h>
#include <harmonics/console/terminal.h>
#include <harmonics/custody/model_signature.h>
#include <harmonics/verification/evidence.h>

#include "subcommands.h"

namespace harmonics::inline in_front {
namespace {

std::filesystem::path signature_of(const SignCommand& command) {
  if (!command.signature.empty()) return command.signature;
  if (std::filesystem::is_directory(command.model)) return command.model / "model.sig";
  std::filesystem::path beside = command.model;
  beside += ".sig";
  return beside;
}

}  // namespace

int sign(const SignCommand& command) {
  const EcSigningKey key =
      EcSigningKey::load(find_ec_key(key_folder_or_default(command.keys), command.key));
  const std::filesystem::path signature = signature_of(command);
  std::vector<std::string> ignored = command.ignored;
  // A signature cannot be of itself.
  const std::filesystem::path inside =
      std::filesystem::weakly_canonical(signature).lexically_relative(
          std::filesystem::weakly_canonical(command.model));
  if (!inside.empty() && *inside.begin() != ".." && inside != ".") {
    ignored.push_back(inside.generic_string());
  }
  const ModelManifest manifest = model_manifest(command.model, std::move(ignored));
  write_text_file(signature, sign_manifest(manifest, key));
  switch (command.output) {
    case OutputStyle::kTable:
      write_text(TextStream::kOutput,
                 format("signed {} file(s) of '{}' with the key {}: {}\n", manifest.files.size(),
                        command.model.string(), key.public_key().hint().substr(0, 16),
                        signature.string()));
      break;
    case OutputStyle::kJson:
      write_text(TextStream::kOutput, Json().set("signature", signature.string())
                                              .set("key", key.public_key().hint())
                                              .set("files", std::uint64_t{manifest.files.size()})
                                              .dump(2) +
                                          "\n");
      break;
    case OutputStyle::kQuiet: break;
  }
  return kExitDone;
}

}  // namespace harmonics::inline in_front
