// safetensors files: named tensors with a JSON header, readable by any tool of that ecosystem.
//
// models/safetensors_header.h describes the header. https://github.com/huggingface/safetensors is
// the format's home.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include <harmonics/runtime/stage.h>

namespace harmonics::inline in_runtime {

struct Safetensors {
  NamedTensors tensors;
  std::map<std::string, std::string> metadata;
};

/// Writes atomically: the file is whole under its name or the old one is untouched. With
/// `checksum`, metadata gets "sha256": 64 digits over the whole file with those digits as zeros,
/// which are also the answer.
std::string write_safetensors(const std::filesystem::path& path, const Safetensors& content,
                              bool checksum = false);

/// Reads and checks a file: bounds, overlaps, dtypes and, where there is one, the checksum.
/// Anything wrong is an Error (kDataLoss) that says what.
[[nodiscard]] Safetensors read_safetensors(const std::filesystem::path& path);

/// The metadata alone, out of the header: for files whose tensors are not needed yet. The checksum
/// is not looked at.
[[nodiscard]] std::map<std::string, std::string> read_safetensors_metadata(
    const std::filesystem::path& path);

}  // namespace harmonics::inline in_runtime
