// Tokenizers that fit on a page, for tests.
#pragma once

#include <string>
#include <string_view>

namespace harmonics::inline in_text {

/// BERT's parts over fourteen tokens.
inline constexpr std::string_view kSmallBert = R"({
  "version": "1.0", "truncation": null,
  "padding": {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": null,
              "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"},
  "added_tokens": [
    {"id": 0, "content": "[PAD]", "special": true, "normalized": false},
    {"id": 2, "content": "[CLS]", "special": true, "normalized": false},
    {"id": 3, "content": "[SEP]", "special": true, "normalized": false},
    {"id": 14, "content": "[USER]", "special": false, "normalized": false, "single_word": true,
     "lstrip": true, "rstrip": true}],
  "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                 "strip_accents": null, "lowercase": true},
  "pre_tokenizer": {"type": "BertPreTokenizer"},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
               {"Sequence": {"id": "A", "type_id": 0}},
               {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
    "pair": [], "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                                   "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}},
  "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
  "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
    "max_input_chars_per_word": 20,
    "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "hello": 4, "##s": 5, ",": 6,
              "world": 7, "!": 8, "caf": 9, "##e": 10, "中": 11, "he": 12, "##llo": 13}}
})";

/// Byte-level pairs: the letters of "low lower", a space, and four merges.
inline constexpr std::string_view kSmallBytes = R"({
  "version": "1.0", "truncation": null, "padding": null,
  "added_tokens": [{"id": 13, "content": "<|end|>", "special": true, "normalized": false}],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                    "use_regex": true},
  "post_processor": null,
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
              "use_regex": true},
  "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
    "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
    "vocab": {"l": 0, "o": 1, "w": 2, "e": 3, "r": 4, "Ġ": 5, "Ã": 6, "©": 7, "lo": 8, "low": 9,
              "er": 10, "Ġlow": 11, "é": 12},
    "merges": ["l o", "lo w", ["e", "r"], "Ġ low"]}
})";

/// `text` with the first `from` in it replaced; for what is one setting away.
inline std::string changed(std::string_view text, std::string_view from, std::string_view to) {
  std::string out(text);
  return out.replace(out.find(from), from.size(), to);
}

}  // namespace harmonics::inline in_text
