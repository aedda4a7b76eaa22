#include <harmonics/models/gguf.h>

#include <algorithm>
#include <optional>

#include <harmonics/base/error.h>
#include <harmonics/base/number_text.h>

namespace harmonics::inline in_models {
namespace {

constexpr std::string_view kGgufMagic = "GGUF";
constexpr std::uint64_t kGgufAlignment = 32;
constexpr std::uint64_t kMaxGgufAlignment = 1 << 16;
constexpr std::uint32_t kGgufTextType = 8;
constexpr std::uint32_t kGgufListType = 9;
// u64 length, u32 axes, u32 type, u64 place: what a tensor takes at least.
constexpr std::uint64_t kGgufTensorHead = 24;

/// How GGUF numbers its ways of storing tensors.
struct StoredType {
  std::uint32_t number;
  Packing packing;
  DType dtype;
};
constexpr std::array kStoredTypes = {
    StoredType{0, Packing::kPlain, DType::kFloat32},
    StoredType{1, Packing::kPlain, DType::kFloat16},
    StoredType{2, Packing::kQ4_0, DType::kFloat32},
    StoredType{3, Packing::kQ4_1, DType::kFloat32},
    StoredType{8, Packing::kQ8_0, DType::kFloat32},
    StoredType{14, Packing::kQ6_K, DType::kFloat32},
    StoredType{30, Packing::kPlain, DType::kBFloat16},
};

class GgufReader {
 public:
  explicit GgufReader(const MappedFilePtr& file)
      : file_(file), in_(file->bytes(), format("'{}' (GGUF)", file->path().string())) {}

  GgufFile read() {
    if (text_of(in_.take(kGgufMagic.size())) != kGgufMagic) in_.broken("it is no GGUF file");
    const auto version = in_.number<std::uint32_t>();
    if (version != 2 && version != 3) {
      in_.broken(format("version {} is not known; there are 2 and 3", version));
    }
    const std::uint64_t tensors = count(kMaxWeightTensors, kGgufTensorHead, "tensors");
    const std::uint64_t settings = count(kMaxGgufSettings, 12, "settings");
    GgufFile out;
    for (std::uint64_t i = 0; i < settings; ++i) {
      std::string key = text(kMaxGgufKey);
      const auto type = in_.number<std::uint32_t>();
      key_ = key;
      Json value = setting(type, 0);
      if (!out.settings.emplace(std::move(key), std::move(value)).second) {
        in_.broken("a setting is given twice");
      }
    }
    out.weights = WeightSource({file_}, entries(tensors, alignment(out)));
    file_->forget(0, in_.offset());  // a whole vocabulary may stand before the tensors
    return out;
  }

  GgufLists lists() {
    GgufLists lists;
    lists_ = &lists;
    (void)read();
    return lists;
  }

 private:
  std::uint64_t count(std::uint64_t limit, std::uint64_t item_bytes, std::string_view what) {
    const auto number = in_.number<std::uint64_t>();
    if (number > limit || number > in_.left() / item_bytes) {
      in_.broken(format("it claims {} {}, which {} bytes cannot hold (or are above {})", number,
                        what, in_.left(), limit));
    }
    return number;
  }

  ByteSpan text_bytes() { return in_.take(count(in_.left(), 1, "bytes of text")); }

  std::string text(std::size_t limit) {
    const ByteSpan bytes = text_bytes();
    if (bytes.size() > limit) {
      in_.broken(format("a text has {} bytes, at most {}", bytes.size(), limit));
    }
    return harmonics::text_of(bytes);
  }

  template <typename T>
  Json whole() {
    return Json(static_cast<std::int64_t>(in_.number<T>()));
  }

  Json setting(std::uint32_t type, int depth) {
    switch (type) {
      case 0: return whole<std::uint8_t>();
      case 1: return whole<std::int8_t>();
      case 2: return whole<std::uint16_t>();
      case 3: return whole<std::int16_t>();
      case 4: return whole<std::uint32_t>();
      case 5: return whole<std::int32_t>();
      // As the shortest decimal that is this float: 1e-05, not 9.999999747378752e-06.
      case 6: return Json(*number_from<double>(format("{}", finite(in_.number<float>()))));
      case 7: return Json(in_.number<std::uint8_t>() != 0);
      case kGgufTextType: {
        const ByteSpan bytes = text_bytes();
        return bytes.size() > kMaxGgufText ? Json() : Json(harmonics::text_of(bytes));
      }
      case kGgufListType: return list(depth + 1);
      case 10: return whole<std::uint64_t>();
      case 11: return whole<std::int64_t>();
      case 12: return Json(finite(in_.number<double>()));
      default: in_.broken(format("a setting has the unknown type {}", type));
    }
  }

  template <typename T>
  T finite(T value) {
    if (!(value - value == 0)) in_.broken("a setting is not a finite number");
    return value;
  }

  Json list(int depth) {
    if (depth > kMaxGgufDepth) in_.broken("lists nest too deeply");
    const auto type = in_.number<std::uint32_t>();
    const std::uint64_t items = count(in_.left(), 1, "items of a list");
    if (lists_ != nullptr && items > kMaxGgufItems) {
      in_.broken(format("the list '{}' has {} items, at most {}", key_, items, kMaxGgufItems));
    }
    for (std::uint64_t i = 0; i < items; ++i) {
      if (type == kGgufTextType) {
        const ByteSpan bytes = text_bytes();
        if (lists_ != nullptr) lists_->texts[key_].push_back(harmonics::text_of(bytes));
      } else {
        const Json value = setting(type, depth);
        if (lists_ != nullptr && value.is_integer()) {
          lists_->numbers[key_].push_back(value.as_integer());
        }
      }
    }
    return Json().set("count", items);
  }

  std::uint64_t alignment(const GgufFile& file) {
    const auto found = file.settings.find("general.alignment");
    if (found == file.settings.end()) return kGgufAlignment;
    const std::int64_t value = found->second.is_integer() ? found->second.as_integer() : 0;
    if (value < 1 || static_cast<std::uint64_t>(value) > kMaxGgufAlignment) {
      in_.broken("general.alignment is out of bounds");
    }
    return static_cast<std::uint64_t>(value);
  }

  WeightEntries entries(std::uint64_t count_of_tensors, std::uint64_t alignment) {
    WeightEntries all;
    for (std::uint64_t i = 0; i < count_of_tensors; ++i) {
      const std::string name = text(kMaxWeightName);
      WeightEntry entry = this->entry(name);
      if (!all.emplace(name, std::move(entry)).second) {
        in_.broken(format("tensor '{}' is there twice", name));
      }
    }
    const std::uint64_t data = (in_.offset() + alignment - 1) / alignment * alignment;
    for (auto& [name, entry] : all) {
      if (entry.offset > file_->bytes().size()) {
        in_.broken(format("tensor '{}' lies behind the end", name));
      }
      entry.offset += data;
    }
    return all;
  }

  WeightEntry entry(const std::string& name) {
    WeightEntry entry;
    entry.source_name = name;
    const auto axes = in_.number<std::uint32_t>();
    if (axes > kMaxWeightAxes) in_.broken(format("tensor '{}' has {} axes", name, axes));
    for (std::uint32_t axis = 0; axis < axes; ++axis) {
      const auto length = in_.number<std::uint64_t>();
      if (length > static_cast<std::uint64_t>(kMaxElements)) {
        in_.broken(format("tensor '{}' has an axis of {}", name, length));
      }
      entry.stored.shape.push_back(static_cast<std::int64_t>(length));
    }
    std::ranges::reverse(entry.stored.shape);  // the innermost axis comes first there
    const auto number = in_.number<std::uint32_t>();
    const auto type = std::ranges::find(kStoredTypes, number, &StoredType::number);
    if (type == kStoredTypes.end()) {
      fail(
          ErrorCode::kUnimplemented,
          "'{}': tensor '{}' is packed in GGUF's way number {}, which is not read; F32, F16, BF16, "
          "Q4_0, Q4_1, Q8_0 and Q6_K are",
          file_->path().string(), name, number);
    }
    entry.packing = type->packing;
    entry.stored.dtype = type->dtype;
    entry.shape = entry.stored.shape;
    entry.offset = in_.number<std::uint64_t>();
    return entry;
  }

  MappedFilePtr file_;
  ByteReader in_;
  std::string key_;             // whose value is being read
  GgufLists* lists_ = nullptr;  // where they are wanted
};

}  // namespace

bool is_gguf(const MappedFile& file) {
  const ByteSpan bytes = file.bytes();
  return bytes.size() >= kGgufMagic.size() && text_of(bytes.first(kGgufMagic.size())) == kGgufMagic;
}

GgufFile open_gguf(const MappedFilePtr& file) { return GgufReader(file).read(); }

GgufLists gguf_lists(const MappedFilePtr& file) { return GgufReader(file).lists(); }

}  // namespace harmonics::inline in_models
