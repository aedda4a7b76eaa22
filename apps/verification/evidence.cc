#include <harmonics/verification/evidence.h>

#include <fstream>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/custody/keys.h>
#include <harmonics/custody/model_signature.h>

namespace harmonics::inline in_verification {
namespace {

// Chains begin with their mark, everything of others with a brace.
bool begins_like_json(const std::filesystem::path& file) {
  std::ifstream input(file, std::ios::binary);
  char first = '\0';
  return static_cast<bool>(input >> std::ws >> first) && first == '{';
}

}  // namespace

std::filesystem::path key_folder_or_default(const std::filesystem::path& folder) {
  return folder.empty() ? default_key_folder() : folder;
}

Evidence read_evidence(const std::vector<std::filesystem::path>& files,
                       const std::filesystem::path& keys) {
  Evidence evidence;
  for (const std::filesystem::path& file : files) {
    if (!begins_like_json(file)) {
      evidence.chains.push_back(read_chain(file));
      continue;
    }
    const std::string text = read_text_file(file, kMaxStatementsBytes);
    if (!is_statements(text)) {
      fail(ErrorCode::kInvalidArgument, "'{}' is neither a chain nor statements{}", file.string(),
           is_model_bundle(text) ? ": it is the signature of a model; give it alone" : "");
    }
    const std::filesystem::path folder = key_folder_or_default(keys);
    for (SignedStatement& one :
         read_statements(text, {Roster::load(folder), load_ec_roster(folder)})) {
      evidence.statements.push_back(std::move(one));
    }
  }
  for (Chain& chain : chains_in(evidence.statements)) {
    evidence.chains.push_back(std::move(chain));
  }
  return evidence;
}

bool is_model_signature(const std::filesystem::path& file) {
  return begins_like_json(file) && is_model_bundle(read_text_file(file, kMaxStatementsBytes));
}

}  // namespace harmonics::inline in_verification
