// Sources that take what they need of the model that they feed (private to settings).
#pragma once

#include <span>

#include <harmonics/graph/harp.h>
#include <harmonics/settings/train_settings.h>

namespace harmonics::inline in_settings {

/// Adds to `text:` and `images:` what the file's weights section and the graph say of their inputs,
/// where the text of the source leaves it open:
/// - `text:` without a tokenizer takes the model's, and then, unless they are there, a length (that
///   of its producer, or the ceiling of its axis) and the column that is called as its producer is;
/// - `images:` without any setting of how pictures are made ready takes the model's preprocessor;
///   for a producer of whole numbers, the column of labels.
void complete_sources(const HarpDocument& document, std::span<SourceBinding> bindings);

}  // namespace harmonics::inline in_settings
