#include <harmonics/models/export_model.h>

#include <cstring>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/models/safetensors_header.h>

#include "model_record.h"

namespace harmonics::inline in_models {
namespace {

/// One of our tensors, as a piece of one of theirs.
struct Piece {
  std::string own;
  WeightLayout layout;
};

/// One of their tensors, with the pieces that make it up.
struct Whole {
  TensorSpec spec;
  std::vector<Piece> pieces;
};

std::map<std::string, Whole> wholes_of(const ModelRecord& record, const WeightSource& weights) {
  std::map<std::string, Whole> wholes;
  for (const auto& [own, source] : record.tensors) {
    Whole& whole = wholes[source.name];
    const WeightEntry& entry = weights.at(name_in_weights(weights, own));
    whole.spec = {source.stored, entry.stored.dtype};
    whole.pieces.push_back({own, source.layout});
  }
  for (const auto& [name, whole] : wholes) {
    std::int64_t sum = 0;
    for (const Piece& piece : whole.pieces) {
      sum += element_count(weights.at(name_in_weights(weights, piece.own)).shape);
    }
    if (sum != element_count(whole.spec.shape)) {
      fail(ErrorCode::kInvalidArgument,
           "tensor '{}' of {} is made of {} numbers here: these are weights of another model", name,
           spec_text(whole.spec), sum);
    }
  }
  return wholes;
}

void put(const Tensor& piece, const WeightLayout& layout, Tensor& whole) {
  const std::size_t width = dtype_size(whole.dtype());
  const std::int64_t rows = piece.shape().empty() ? 1 : piece.shape().front();
  const std::int64_t columns = rows == 0 ? 0 : piece.size() / rows;
  std::byte* const to = whole.mutable_bytes().data();
  if (!layout.transposed) {
    std::memcpy(to + static_cast<std::size_t>(layout.begin() * columns) * width,
                piece.bytes().data(), piece.byte_size());
    return;
  }
  const std::int64_t stored_columns = whole.shape().back();
  const std::byte* from = piece.bytes().data();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column, from += width) {
      const std::int64_t at = column * stored_columns + layout.begin() + row;
      std::memcpy(to + static_cast<std::size_t>(at) * width, from, width);
    }
  }
}

Tensor assembled(const Whole& whole, const WeightSource& weights) {
  Tensor out = Tensor::empty(whole.spec.shape, whole.spec.dtype);
  for (const Piece& piece : whole.pieces) {
    const std::string name = name_in_weights(weights, piece.own);
    const Tensor tensor = weights.read(name);
    if (tensor.dtype() != out.dtype()) {
      fail(ErrorCode::kInvalidArgument, "'{}' is {}, its neighbours are {}", piece.own,
           dtype_name(tensor.dtype()), dtype_name(out.dtype()));
    }
    const std::int64_t rows = tensor.shape().empty() ? 1 : tensor.shape().front();
    const std::int64_t most = whole.spec.shape.empty()  ? 1
                              : piece.layout.transposed ? whole.spec.shape.back()
                                                        : whole.spec.shape.front();
    const bool plain = piece.layout == WeightLayout{};
    if (!plain && (piece.layout.first_row < -1 || piece.layout.begin() + rows > most)) {
      fail(ErrorCode::kDataLoss, "the record of the import places '{}' outside of its tensor",
           piece.own);
    }
    put(tensor, piece.layout, out);
    weights.forget(name);
  }
  return out;
}

}  // namespace

ExportedModel export_hf(const WeightSource& imported, const WeightSource& weights,
                        const std::filesystem::path& folder) {
  const auto kept = imported.metadata().find(kModelRecord);
  if (kept == imported.metadata().end()) {
    fail(ErrorCode::kFailedPrecondition,
         "these weights do not say which model they came from: only what 'harmonics import' wrote "
         "goes back");
  }
  ModelRecord record = record_from(Json::parse(kept->second, "the record of the import"));
  const std::map<std::string, Whole> wholes = wholes_of(record, weights);
  std::vector<SafetensorsEntry> entries;
  ExportedModel exported{folder / "model.safetensors", folder / "config.json", wholes.size(), 0};
  for (const auto& [name, whole] : wholes) {
    entries.push_back({name, whole.spec});
    exported.bytes += static_cast<std::uint64_t>(byte_count(whole.spec));
  }
  if (!entries.empty()) {
    record.config.set("torch_dtype", dtype_name(entries.front().spec.dtype));
  }
  std::filesystem::create_directories(folder);
  AtomicFile config(exported.config);
  config.write(bytes_of(record.config.dump(2) + "\n"));
  AtomicFile file(exported.weights);
  const std::string header = safetensors_header_text(entries, Json().set("format", "pt"));
  const std::uint64_t length = header.size();
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(bytes_of(header));
  for (const auto& [name, whole] : wholes) file.write(assembled(whole, weights).bytes());
  file.commit();
  config.commit();
  return exported;
}

}  // namespace harmonics::inline in_models
