// GGUF files for tests, written field by field.
#pragma once

#include <string>
#include <string_view>

#include <harmonics/base/bytes.h>

namespace harmonics::inline in_models {

/// Collects the head and the data of a small file.
class GgufWriter {
 public:
  GgufWriter& text(std::string_view key, std::string_view value) {
    name(settings_, key);
    settings_.number(std::uint32_t{8});
    name(settings_, value);
    ++setting_count_;
    return *this;
  }
  template <typename T>
  GgufWriter& number(std::string_view key, std::uint32_t type, T value) {
    name(settings_, key);
    settings_.number(type);
    settings_.number(value);
    ++setting_count_;
    return *this;
  }
  /// A list of texts.
  GgufWriter& list(std::string_view key, std::uint64_t claimed, std::uint64_t items) {
    name(settings_, key);
    settings_.number(std::uint32_t{9});
    settings_.number(std::uint32_t{8});
    settings_.number(claimed);
    for (std::uint64_t i = 0; i < items; ++i) name(settings_, "word");
    ++setting_count_;
    return *this;
  }
  /// Axes as GGUF writes them: the innermost first.
  GgufWriter& tensor(std::string_view key, std::vector<std::uint64_t> axes, std::uint32_t type,
                     std::string_view bytes) {
    name(tensors_, key);
    tensors_.number(static_cast<std::uint32_t>(axes.size()));
    for (const std::uint64_t axis : axes) tensors_.number(axis);
    tensors_.number(type);
    tensors_.number(static_cast<std::uint64_t>(data_.size()));
    data_ += bytes;
    data_.resize((data_.size() + 31) / 32 * 32);
    ++tensor_count_;
    return *this;
  }
  [[nodiscard]] std::string bytes() const {
    ByteWriter head;
    head.raw(bytes_of("GGUF"));
    head.number(std::uint32_t{3});
    head.number(tensor_count_);
    head.number(setting_count_);
    head.raw(settings_.bytes());
    head.raw(tensors_.bytes());
    std::string all = text_of(head.bytes());
    all.resize((all.size() + 31) / 32 * 32);
    return all + data_;
  }

 private:
  static void name(ByteWriter& out, std::string_view value) {
    out.number(static_cast<std::uint64_t>(value.size()));
    out.raw(bytes_of(value));
  }

  ByteWriter settings_, tensors_;
  std::string data_;
  std::uint64_t setting_count_ = 0, tensor_count_ = 0;
};

}  // namespace harmonics::inline in_models
