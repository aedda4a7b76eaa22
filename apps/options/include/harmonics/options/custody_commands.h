// Keys, signatures, chains of custody and what is made of them: one struct per subcommand.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <harmonics/graph/harp.h>
#include <harmonics/options/output_style.h>
#include <harmonics/settings/bound_setting.h>

namespace harmonics::inline in_options {

/// Ed25519 signs secure runs; P-256 signs models as others do.
enum class KeyKind { kEd25519, kP256 };

/// harmonics keys new
struct KeysNewCommand {
  std::string name;
  KeyKind kind = KeyKind::kEd25519;
  /// Empty: the user's folder.
  std::filesystem::path folder;
};

/// harmonics keys show
struct KeysShowCommand {
  std::filesystem::path folder;
  OutputStyle output = OutputStyle::kTable;
};

/// harmonics sign
struct SignCommand {
  /// A file, or a folder with all that it holds.
  std::filesystem::path model;
  /// A PEM file or the name of a key; empty: the only one that there is.
  std::string key;
  std::filesystem::path keys;
  /// Empty: model.sig in the folder, or FILE.sig beside the file.
  std::filesystem::path signature;
  /// Paths inside the model that are left out.
  std::vector<std::string> ignored;
  OutputStyle output = OutputStyle::kTable;
};

/// harmonics verify
struct VerifyCommand {
  /// The chain files of one run, a file of statements, or the signature of a model.
  std::vector<std::filesystem::path> files;
  /// Empty: the user's folder.
  std::filesystem::path keys;
  /// What a model's signature is of; empty: where it lies. Of statements: a file that one of them
  /// must name.
  std::filesystem::path model;
  /// The PEM file of who signed the model; empty: one of the folder of keys.
  std::filesystem::path public_key;
  /// Tensors as files named by their root; empty: none.
  std::filesystem::path tensors;
  /// Lines that proof() of a run gave.
  std::vector<std::string> lines;
  /// A checkpoint or a safetensors file whose weights must be the chain's; empty: none.
  std::filesystem::path weights;
  /// The model whose graph must be the chain's, or the files of its parts.
  std::vector<std::filesystem::path> graphs;
  /// Data that must be what the chain was made from.
  std::vector<Binding> data;
  /// How the data was cut into batches, where neither file nor checkpoint says so.
  std::vector<Setting> settings;
  bool explain = false;
  bool allow_unknown = false;
  /// Which steps are computed again: "all", "5,10-20", "sample=3" or "1%"; empty: none.
  std::string recompute;
  /// Checkpoints of the run, or folders of them, to compute from.
  std::vector<std::filesystem::path> checkpoints;
  /// What steps are drawn with; empty: chance.
  std::string draw;
  /// Chains of another account of the same work: where they part is computed again.
  std::vector<std::filesystem::path> against;
  /// Whether something else than chains is to be looked at.
  [[nodiscard]] bool compares_models() const {
    return !weights.empty() || !graphs.empty() || !data.empty() || recomputes();
  }
  [[nodiscard]] bool recomputes() const { return !recompute.empty() || !against.empty(); }
  OutputStyle output = OutputStyle::kTable;
};

/// harmonics custody export
struct CustodyExportCommand {
  std::vector<std::filesystem::path> files;
  std::filesystem::path out;
  /// Who signs the statements; empty: the only key that there is.
  std::string key;
  std::filesystem::path keys;
  /// A file of the final weights that the statements name; empty: none.
  std::filesystem::path weights;
  /// The model, where which weights belong to which stage does not stand in the file of weights.
  std::filesystem::path graph;
  bool allow_unknown = false;
};

/// harmonics custody import
struct CustodyImportCommand {
  std::vector<std::filesystem::path> files;
  std::filesystem::path out;
  std::filesystem::path keys;
};

/// harmonics custody show
struct CustodyShowCommand {
  std::vector<std::filesystem::path> files;
  /// Empty: standard output.
  std::filesystem::path out;
  std::filesystem::path keys;
  /// Which step is drawn hand-over by hand-over, from 1.
  std::int64_t step = 1;
};

}  // namespace harmonics::inline in_options
