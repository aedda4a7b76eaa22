#include <harmonics/verification/custody_export.h>

#include <unistd.h>

#include <algorithm>
#include <array>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>

namespace harmonics::inline in_verification {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace

int export_chain(const CustodyExportCommand& command, const Evidence& evidence,
                 const VerifyReport& report, std::vector<ModelFile> files) {
  if (!report.signers_known && !command.allow_unknown) {
    fail(ErrorCode::kFailedPrecondition,
         "the signers are not in the roster: put their .pub files into the folder of keys, or pass "
         "--allow-unknown");
  }
  const std::filesystem::path folder = key_folder_or_default(command.keys);
  const SigningKey key = find_signing_key(folder, command.key);
  const std::string text = export_statements(evidence.chains, report, key,
                                             {HARMONICS_VERSION, host_name(), std::move(files)});
  write_text_file(command.out, text);
  write_text(TextStream::kOutput,
             format("wrote {} statement(s), signed by '{}', to '{}'\n",
                    std::ranges::count(text, '\n'), key.name(), command.out.string()));
  return kExitDone;
}

}  // namespace harmonics::inline in_verification
