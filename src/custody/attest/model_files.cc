// The files of a model and their digests.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <set>

#include <harmonics/base/descriptor.h>
#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/custody/breach.h>
#include <harmonics/custody/model_signature.h>

namespace harmonics::inline in_custody {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 4> kGitPaths = {".git", ".gitattributes", ".github",
                                                  ".gitignore"};
constexpr int kMaxFolders = 64;  // one in another
constexpr std::size_t kReadBytes = std::size_t{1} << 20;

// A walk through a model's folder.
class ModelWalk {
 public:
  ModelWalk(const fs::path& root, const std::vector<std::string>& ignored, bool follows_links)
      : root_(root), follows_links_(follows_links) {
    for (const std::string& path : ignored) ignored_.insert(fs::path(path).lexically_normal());
  }

  void folder(const fs::path& inside, int depth) {
    if (depth > kMaxFolders) {
      fail(ErrorCode::kResourceExhausted, "'{}' has folders nested deeper than {}", root_.string(),
           kMaxFolders);
    }
    for (const fs::path& path : list_folder(root_ / inside)) {
      entry(inside / path.filename(), depth);
    }
  }
  std::vector<ModelFile> take() { return std::move(files_); }

 private:
  void entry(const fs::path& inside, int depth) {
    const fs::path path = root_ / inside;
    const bool link = fs::is_symlink(path);
    if (link && !follows_links_) {
      fail(ErrorCode::kInvalidArgument, "'{}' is a symbolic link: a signed model has none",
           path.string());
    }
    if (ignored_.contains(inside.lexically_normal())) return;
    if (fs::is_directory(path)) {
      if (!link) folder(inside, depth + 1);
      return;
    }
    if (!fs::is_regular_file(path)) {
      fail(ErrorCode::kInvalidArgument, "'{}' is neither a file nor a folder", path.string());
    }
    if (files_.size() == kMaxModelFiles) {
      fail(ErrorCode::kResourceExhausted, "'{}' has more than {} files", root_.string(),
           kMaxModelFiles);
    }
    files_.push_back({inside.generic_string(), file_digest(path)});
  }

  const fs::path& root_;
  const bool follows_links_;
  std::set<fs::path> ignored_;
  std::vector<ModelFile> files_;
};

}  // namespace

Digest file_digest(const fs::path& file) {
  const Descriptor input(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!input) fail_errno(errno, format("cannot read '{}'", file.string()));
  Sha256 digest;
  Bytes piece(kReadBytes);
  while (true) {
    const ssize_t got = ::read(input.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(errno, format("cannot read '{}'", file.string()));
    if (got == 0) return digest.finish();
    digest.update(ByteSpan(piece).first(static_cast<std::size_t>(got)));
  }
}

ModelManifest model_manifest(const fs::path& model, std::vector<std::string> ignored,
                             bool follows_links) {
  ModelManifest manifest;
  manifest.model = fs::absolute(model).lexically_normal().filename().string();
  // "model/" has an empty last part.
  if (manifest.model.empty()) {
    manifest.model = fs::absolute(model).lexically_normal().parent_path().filename().string();
  }
  for (const char* path : kGitPaths) {
    if (std::ranges::find(ignored, path) == ignored.end()) ignored.emplace_back(path);
  }
  manifest.follows_links = follows_links;
  if (!fs::exists(model)) fail(ErrorCode::kNotFound, "there is no model '{}'", model.string());
  if (fs::is_symlink(model) && !follows_links) {
    fail(ErrorCode::kInvalidArgument, "'{}' is a symbolic link: give what it leads to",
         model.string());
  }
  if (fs::is_directory(model)) {
    ModelWalk walk(model, ignored, follows_links);
    walk.folder({}, 0);
    manifest.files = walk.take();
  } else {
    manifest.files.push_back({".", file_digest(model)});
  }
  manifest.ignored = std::move(ignored);
  std::ranges::sort(manifest.files, {}, &ModelFile::name);
  if (manifest.files.empty()) {
    fail(ErrorCode::kInvalidArgument, "'{}' holds no files to sign", model.string());
  }
  return manifest;
}

void check_model(const fs::path& model, const ModelManifest& manifest, const fs::path& signature) {
  std::vector<std::string> ignored = manifest.ignored;
  const fs::path inside =
      fs::weakly_canonical(signature).lexically_relative(fs::weakly_canonical(model));
  if (!inside.empty() && *inside.begin() != ".." && inside != ".") {
    ignored.push_back(inside.generic_string());
  }
  std::map<std::string, Digest> here;
  for (const ModelFile& file : model_manifest(model, ignored, manifest.follows_links).files) {
    here.emplace(file.name, file.digest);
  }
  for (const ModelFile& file : manifest.files) {
    const auto found = here.find(file.name);
    if (found == here.end()) {
      fail_custody(Breach::kAlteredModel, "'{}' has no file '{}', which was signed", model.string(),
                   file.name);
    }
    if (found->second != file.digest) {
      fail_custody(Breach::kAlteredModel,
                   "the file '{}' of '{}' is not the one that was signed: its SHA-256 is {} and "
                   "was {}",
                   file.name, model.string(), digest_text(found->second), digest_text(file.digest));
    }
    here.erase(found);
  }
  if (here.empty()) return;
  fail_custody(Breach::kAlteredModel, "'{}' has the file '{}', which nobody signed", model.string(),
               here.begin()->first);
}

}  // namespace harmonics::inline in_custody
