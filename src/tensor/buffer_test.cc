#include <harmonics/tensor/buffer.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include <harmonics/base/error.h>

namespace harmonics::inline in_tensor {
namespace {

TEST(Buffer, ReleasesWhatItWrapsExactlyOnce) {
  int released = 0;
  std::byte memory[8];
  {
    const auto buffer =
        std::make_shared<Buffer>(memory, sizeof memory, Device{}, [&] { ++released; });
    BufferPtr second = buffer;
    second.reset();
    EXPECT_EQ(buffer->data(), memory);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}

TEST(BufferPool, HandsOutAlignedBuffersOfTheExactSize) {
  BufferPool pool;
  for (const std::size_t size : {0u, 1u, 63u, 64u, 65u, 4096u, 100'000u}) {
    const BufferPtr buffer = pool.take(size);
    EXPECT_EQ(buffer->size(), size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % kBufferAlignment, 0u);
    std::memset(buffer->data(), 1, size);
  }
}

TEST(BufferPool, ReusesABlockOfTheSameSizeClassOnly) {
  BufferPool pool;
  const std::byte* first = pool.take(100)->data();
  EXPECT_EQ(pool.kept_bytes(), 128u);
  EXPECT_EQ(pool.reuse_count(), 0u);

  const BufferPtr larger = pool.take(129);
  EXPECT_EQ(pool.reuse_count(), 0u);
  const BufferPtr same = pool.take(128);
  EXPECT_EQ(same->data(), first);
  EXPECT_EQ(pool.reuse_count(), 1u);
  EXPECT_EQ(pool.kept_bytes(), 0u);
}

TEST(BufferPool, KeepsNoMoreThanItsLimit) {
  BufferPool pool(1024);
  {
    std::vector<BufferPtr> live;
    for (int i = 0; i < 10; ++i) live.push_back(pool.take(256));
    EXPECT_EQ(pool.kept_bytes(), 0u);
  }
  EXPECT_EQ(pool.kept_bytes(), 1024u);
  { const BufferPtr huge = pool.take(4096); }
  EXPECT_EQ(pool.kept_bytes(), 1024u);
}

TEST(BufferPool, BuffersOutliveThePool) {
  BufferPtr buffer;
  {
    BufferPool pool;
    buffer = pool.take(1000);
  }
  std::memset(buffer->data(), 7, buffer->size());
  EXPECT_EQ(buffer->data()[999], std::byte{7});
}

TEST(BufferPool, SizesBeyondTheAddressSpaceAreAnError) {
  BufferPool pool;
  for (const std::size_t size : {std::size_t{1} << 48, std::size_t{1} << 63, ~std::size_t{0}}) {
    try {
      (void)pool.take(size);
      FAIL() << "was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
      EXPECT_NE(std::string(error.what()).find(std::to_string(size)), std::string::npos);
    }
  }
}

TEST(BufferPool, ThreadsNeverShareALiveBuffer) {
  BufferPool pool(1 << 20);
  std::vector<std::thread> threads;
  std::vector<int> clashes(4, 0);
  for (int id = 0; id < 4; ++id) {
    threads.emplace_back([&, id] {
      for (int round = 0; round < 2000; ++round) {
        const BufferPtr buffer = pool.take(64 + round % 200);
        std::memset(buffer->data(), id, buffer->size());
        for (std::size_t i = 0; i < buffer->size(); ++i) {
          if (buffer->data()[i] != static_cast<std::byte>(id)) ++clashes[id];
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(clashes, std::vector<int>(4, 0));
  EXPECT_GT(pool.reuse_count(), 0u);
}

}  // namespace
}  // namespace harmonics::inline in_tensor
