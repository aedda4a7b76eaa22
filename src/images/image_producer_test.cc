// Folders of pictures as samples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/base/error.h>
#include <harmonics/data/open_producer.h>
#include <harmonics/images/image_producer.h>

#include <temporary_folder_testing.h>

#include "image_files_testing.h"

namespace harmonics::inline in_images {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Pictures : public testing::Test {
 protected:
  void write(const std::string& name, std::uint64_t seed) {
    folder_.write(name, name.ends_with("png") ? png_file(sample_picture(9, 8, seed))
                                              : jpeg_file(sample_picture(9, 8, seed)));
  }
  IndexedProducerPtr open(const std::string& spec) { return open_producer(spec, folder_.path()); }
  std::vector<std::int64_t> labels(const std::string& spec) {
    std::vector<std::int64_t> all;
    const IndexedProducerPtr producer = open(spec);
    while (const auto label = producer->next()) all.push_back(label->values<std::int64_t>()[0]);
    return all;
  }
  std::string refusal(const std::string& spec) {
    try {
      const IndexedProducerPtr producer = open(spec);
      while (producer->next()) {
      }
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  }

  TemporaryFolder folder_;
};

TEST_F(Pictures, AFolderForEachClass) {
  write("data/dog/b.png", 1);
  write("data/cat/deep/c.JPG", 2);
  write("data/cat/a.jpeg", 3);
  folder_.write("data/cat/notes.txt", "no picture");
  folder_.write("data/empty/notes.txt", "no picture");
  const IndexedProducerPtr pixels = open("images:data?size=6x4");
  EXPECT_EQ(pixels->sample_spec(), (TensorSpec{{3, 6, 4}, DType::kFloat32}));
  EXPECT_EQ(pixels->row_count(), 3);
  EXPECT_THAT(labels("images:data?column=label"), ElementsAre(0, 0, 1));
  const ImageList list = ImageList::of_folder(folder_.path() / "data");
  EXPECT_THAT(list.classes(), ElementsAre("cat", "dog"));
  EXPECT_EQ(list.path(2).filename(), "b.png");
}

TEST_F(Pictures, TheSampleIsThePictureRescaled) {
  write("one.png", 4);
  const Image image = sample_picture(9, 8, 4);
  const Tensor sample = open("images:one.png?crop=8x9&mean=0.5&std=0.25,0.5,1")->next().value();
  const float deviations[] = {0.25f, 0.5f, 1};
  for (std::int64_t c = 0; c < 3; ++c) {
    for (std::int64_t y = 0; y < 8; ++y) {
      for (std::int64_t x = 0; x < 9; ++x) {
        const auto level = static_cast<float>(image.row(y)[3 * x + c] * (1.0 / 255));
        EXPECT_EQ(sample.values<float>()[(c * 8 + y) * 9 + x], (level - 0.5f) / deviations[c]);
      }
    }
  }
  EXPECT_THAT(refusal("images:one.png?size=4&column=label"), HasSubstr("nothing says what"));
}

TEST_F(Pictures, TablesOfLabels) {
  for (const char* name : {"p/1.png", "p/2.png", "p/3.png"}) write(name, 1);
  folder_.write("named.csv", "label,file\nzebra,3.png\n\"an, ant\",1.png\r\n");
  folder_.write(
      "numbered.jsonl",
      "{\"file_name\": \"2.png\", \"label\": 7}\n{\"file_name\": \"1.png\", \"label\": 0}\n");
  EXPECT_THAT(labels("images:p?labels=named.csv&column=label"), ElementsAre(1, 0));
  EXPECT_THAT(labels("images:p?labels=numbered.jsonl&column=label"), ElementsAre(7, 0));
  EXPECT_EQ(open("images:p?labels=named.csv&size=4")->row_count(), 2);
  folder_.write("half.jsonl", "{\"file\": \"2.png\", \"label\": 7}\n{\"file\": \"1.png\"}\n");
  EXPECT_THAT(refusal("images:p?labels=half.jsonl&column=label"), HasSubstr("half.jsonl' line 2"));
  folder_.write("nothing.csv", "name,label\n1.png,2\n");
  EXPECT_THAT(refusal("images:p?labels=nothing.csv"), HasSubstr("names no column 'file'"));
}

TEST_F(Pictures, WhatIsWrongIsNamed) {
  write("a/1.png", 1);
  folder_.write("a/2.png", png_file(sample_picture(9, 8)).substr(0, 90));
  EXPECT_THAT(refusal("images:a?size=4"), HasSubstr("2.png' is a broken PNG file"));
  EXPECT_THAT(refusal("images:a"), HasSubstr("write size=224"));
  EXPECT_THAT(refusal("images:a?shortest=8"), HasSubstr("write size=224"));
  EXPECT_THAT(refusal("images:a?size=0"), HasSubstr("size"));
  EXPECT_THAT(refusal("images:a?size=9000"), HasSubstr("1 to 8192"));
  EXPECT_THAT(refusal("images:a?size=4&mean=1,2"), HasSubstr("one number or three"));
  EXPECT_THAT(refusal("images:a?size=4&std=0"), HasSubstr("other than 0"));
  EXPECT_THAT(refusal("images:a?size=4&dtype=uint8"), HasSubstr("float32"));
  EXPECT_THAT(refusal("images:a?size=4&colour=red"), HasSubstr("no setting 'colour'"));
  EXPECT_THAT(refusal("images:none?size=4"), HasSubstr("no folder of pictures"));
  EXPECT_THAT(refusal("images:?size=4"), HasSubstr("names no path"));
  folder_.write("b/notes.txt", "");
  EXPECT_THAT(refusal("images:b?size=4"), HasSubstr("holds no picture"));
  folder_.write("preprocessor_config.json",
                R"({"size": 4, "image_mean": [0, 0, 0], "image_std": [1, 1, 1]})");
  EXPECT_EQ(open("images:a/1.png?preprocessor=.")->sample_spec().shape, (Shape{3, 4, 4}));
}

TEST_F(Pictures, FilesOfElsewhereCannotBeListed) {
  EXPECT_THROW(static_cast<void>(open_producer(
                   "images:a?size=4", [](const std::string& path) { return open_file(path); })),
               Error);
}

}  // namespace
}  // namespace harmonics::inline in_images
