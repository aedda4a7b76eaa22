// Producers from text: what stands in a `data` section and after --bind.
#pragma once

#include <filesystem>
#include <string_view>

#include <harmonics/data/byte_source.h>
#include <harmonics/data/producer.h>

namespace harmonics::inline in_data {

/// Opens the source that `spec` describes: a scheme, a path and settings.
///
///   csv:PATH?columns=0-63&dtype=float32&scale=0.0625&shape=1x8x8&header=auto&delimiter=,&nan=allow
///   idx:PATH?dtype=float32&scale=0.00392&nan=allow
///   npy:PATH?dtype=float32&scale=0.00392&nan=allow
///   synthetic:?shape=3x32x32&size=1000&kind=uniform&dtype=float32&seed=1
///   synthetic:?size=1000&below=10        (integers, as labels and ids are)
///   synthetic:?size=1000&kind=one_hot&below=10
///
/// and, where `data_arrow` is linked,
///
///   parquet:PATH?columns=width,height&dtype=float32&scale=0.5&shape=1x2&nan=allow
///   arrow:PATH?columns=vector
///
/// and, where the module `text` is linked,
///
///   text:PATH.jsonl?tokenizer=FOLDER&field=text&length=128&column=input_ids
///
/// and, where the module `images` is,
///
///   images:FOLDER?size=224&resample=bilinear&mean=0.5,0.5,0.5&std=0.5,0.5,0.5
///   images:FOLDER?preprocessor=FOLDER_OF_THE_MODEL
///   images:FOLDER?column=label
///
/// Every setting may be left out, except `size`, `tokenizer` and `length`. A NaN is an Error that
/// says where it stands, unless nan=allow. The path goes up to the first '?' and is taken as it
/// stands; one that is not absolute is relative to the folder `relative_to` (the current one when
/// it is left out). In values %XX stands for a byte (%26 for '&'); the delimiter may be written
/// `tab`. An unknown scheme, setting or value is an Error that lists what there is.
[[nodiscard]] IndexedProducerPtr open_producer(std::string_view spec,
                                               const std::filesystem::path& relative_to = {});

/// The same over files that `open` opens: the path of the text goes to it as it stands.
[[nodiscard]] IndexedProducerPtr open_producer(std::string_view spec, const OpenBytes& open);

}  // namespace harmonics::inline in_data
