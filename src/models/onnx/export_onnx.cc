// The file of an exported graph: its message, and its tensors inside or beside it.
#include <harmonics/base/check.h>
#include <harmonics/base/file.h>
#include <harmonics/models/export_model.h>

#include "onnx_exporter.h"
#include "proto_writer.h"

namespace harmonics::inline in_models {
namespace {

constexpr std::int64_t kOpset = 17, kIrVersion = 8;

/// Where a tensor lies in the file of data.
struct DataPlace {
  std::string file;
  std::uint64_t offset = 0;
};

// A tensor's message but for its numbers, which follow it where there is no other file.
std::string tensor_head(const OnnxInitializer& tensor, const DataPlace* place) {
  ProtoWriter out;
  for (const std::int64_t axis : tensor.spec.shape) out.number(1, axis);
  out.number(2, onnx_data_type(tensor.spec.dtype)).bytes(8, tensor.name);
  const auto size = static_cast<std::uint64_t>(byte_count(tensor.spec));
  if (place == nullptr) return out.head(9, size).text();
  const auto entry = [&](const char* key, const std::string& value) {
    out.bytes(13, ProtoWriter().bytes(1, key).bytes(2, value).text());
  };
  entry("location", place->file);
  entry("offset", std::to_string(place->offset));
  entry("length", std::to_string(size));
  return out.number(14, 1).text();
}

void write_numbers(AtomicFile& file, const OnnxInitializer& tensor) {
  {
    const Tensor values = tensor.read();
    HARMONICS_CHECK(values.spec() == tensor.spec, "an initializer is what was announced");
    file.write(values.bytes());
  }
  if (tensor.forget) tensor.forget();
}

/// Offsets in a file of data are multiples of this, so that it can be mapped.
constexpr std::uint64_t kDataAlignment = 4096;

class OnnxFile {
 public:
  OnnxFile(OnnxExporter& exporter, const std::filesystem::path& path, std::uint64_t inside)
      : exporter_(exporter), path_(path), data_(path.string() + ".data") {
    for (const OnnxInitializer& one : exporter.initializers())
      bytes_ += static_cast<std::uint64_t>(byte_count(one.spec));
    is_apart_ = bytes_ > inside;
  }

  void write() {
    const std::string graph = exporter_.graph_text();
    std::vector<std::string> heads;
    std::uint64_t size = graph.size(), offset = 0;
    for (const OnnxInitializer& one : exporter_.initializers()) {
      const auto own = static_cast<std::uint64_t>(byte_count(one.spec));
      const DataPlace place{data_.filename().string(), offset};
      std::string head = tensor_head(one, is_apart_ ? &place : nullptr);
      const std::uint64_t all = head.size() + (is_apart_ ? 0 : own);
      head.insert(0, ProtoWriter().head(5, all).text());
      size += head.size() + (is_apart_ ? 0 : own);
      offset += (own + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
      heads.push_back(std::move(head));
    }
    if (is_apart_) write_data();
    ProtoWriter model;
    model.number(1, kIrVersion).bytes(2, "harmonics");
    model.bytes(8, ProtoWriter().bytes(1, "").number(2, kOpset).text());
    model.head(7, size);
    AtomicFile file(path_);
    file.write(bytes_of(model.text()));
    file.write(bytes_of(graph));
    for (std::size_t i = 0; i < heads.size(); ++i) {
      file.write(bytes_of(heads[i]));
      if (!is_apart_) write_numbers(file, exporter_.initializers()[i]);
    }
    file.commit();
  }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::filesystem::path data() const {
    return is_apart_ ? data_ : std::filesystem::path();
  }

 private:
  void write_data() {
    AtomicFile file(data_);
    const std::string zeros(kDataAlignment, '\0');
    for (const OnnxInitializer& one : exporter_.initializers()) {
      write_numbers(file, one);
      const auto rest = static_cast<std::uint64_t>(byte_count(one.spec)) % kDataAlignment;
      if (rest != 0) file.write(bytes_of(zeros.substr(rest)));
    }
    file.commit();
  }

  OnnxExporter& exporter_;
  std::filesystem::path path_, data_;
  std::uint64_t bytes_ = 0;
  bool is_apart_ = false;
};

}  // namespace

ExportedOnnx export_onnx(const HarmonicGraph& graph, const WeightSource& weights,
                         const std::filesystem::path& file, std::uint64_t inside) {
  OnnxExporter exporter(graph, weights);
  OnnxFile written(exporter, file, inside);
  written.write();
  return {file, written.data(), exporter.node_count(), exporter.initializers().size(),
          written.bytes()};
}

}  // namespace harmonics::inline in_models
