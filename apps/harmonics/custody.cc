// harmonics custody: chains as statements that other tools read, back again, and as a picture.
#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/console/terminal.h>
#include <harmonics/custody/chain_picture.h>
#include <harmonics/verification/custody_export.h>
#include <harmonics/verification/verification.h>

#include "subcommands.h"

namespace harmonics::inline in_front {
namespace {

struct Verified {
  Evidence evidence;
  VerifyReport report;
};

Verified verified(const std::vector<std::filesystem::path>& files,
                  const std::filesystem::path& keys) {
  VerifyCommand command;
  command.files = files;
  command.keys = keys;
  Verified result{read_evidence(files, keys), {}};
  if (result.evidence.chains.empty()) {
    fail(ErrorCode::kInvalidArgument, "'{}' holds no chain", files.front().string());
  }
  result.report = verify_evidence(command, result.evidence);
  return result;
}

}  // namespace

int custody_export(const CustodyExportCommand& command) {
  const Verified result = verified(command.files, command.keys);
  return export_chain(command, result.evidence, result.report, {});
}

int custody_import(const CustodyImportCommand& command) {
  const Verified result = verified(command.files, command.keys);
  if (std::filesystem::exists(command.out)) {
    fail(ErrorCode::kAlreadyExists, "'{}' exists already: chains are not overwritten",
         command.out.string());
  }
  const Bytes bytes = encode_chain(joined_chain(result.evidence.chains));
  write_text_file(command.out, text_of(bytes));
  write_text(TextStream::kOutput, summary_text(result.report) + "\n");
  return kExitDone;
}

int custody_show(const CustodyShowCommand& command) {
  const Verified result = verified(command.files, command.keys);
  const std::string picture = chain_svg(result.evidence.chains, result.report,
                                        static_cast<std::uint64_t>(command.step - 1));
  if (command.out.empty()) {
    write_text(TextStream::kOutput, picture);
  } else {
    write_text_file(command.out, picture);
  }
  return kExitDone;
}

}  // namespace harmonics::inline in_front
