#include "leaf_pair.h"

#include <cstdint>
#include <cstring>

#include <harmonics/base/error.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace harmonics::inline in_custody {

#if defined(__x86_64__)
namespace {

constexpr std::size_t kBlock = 64;
// Before the bytes of a leaf stands its mark, so that the blocks begin one byte early: the first
// holds the mark and 63 bytes, and one byte is left for the last.
constexpr std::size_t kFirst = kBlock - 1;
constexpr std::size_t kWhole = (kTensorLeafBytes - kFirst) / kBlock;
constexpr std::size_t kRest = kTensorLeafBytes - kFirst - kWhole * kBlock;
static_assert(kRest == 1);

// FIPS 180-4, sections 4.2.2 and 5.3.3.
alignas(16) constexpr std::uint32_t kRounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
constexpr std::uint32_t kStart[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                     0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

#define HARMONICS_SHA __attribute__((target("sha,sse4.1"), always_inline)) inline

// One message: its state in the order of the instructions, and the last sixteen words.
struct Lane {
  __m128i abef;
  __m128i cdgh;
  __m128i words[4];
};

HARMONICS_SHA Lane started() {
  Lane lane;
  const auto word = [](int i) { return static_cast<int>(kStart[i]); };
  lane.abef = _mm_set_epi32(word(0), word(1), word(4), word(5));
  lane.cdgh = _mm_set_epi32(word(2), word(3), word(6), word(7));
  return lane;
}

HARMONICS_SHA void load(Lane& lane, const std::byte* block) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  for (int i = 0; i < 4; ++i) {
    const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block) + i);
    lane.words[i] = _mm_shuffle_epi8(raw, big_endian);
  }
}

// Words 4·group to 4·group + 3 of the schedule take the place of those sixteen before.
HARMONICS_SHA void schedule(Lane& lane, int group) {
  __m128i& word = lane.words[group % 4];
  const __m128i& last = lane.words[(group + 3) % 4];
  const __m128i sevens = _mm_alignr_epi8(last, lane.words[(group + 2) % 4], 4);
  const __m128i sums = _mm_sha256msg1_epu32(word, lane.words[(group + 1) % 4]);
  word = _mm_sha256msg2_epu32(_mm_add_epi32(sums, sevens), last);
}

HARMONICS_SHA void four_rounds(Lane& lane, int group) {
  const __m128i constants = _mm_load_si128(reinterpret_cast<const __m128i*>(kRounds) + group);
  const __m128i keyed = _mm_add_epi32(lane.words[group % 4], constants);
  lane.cdgh = _mm_sha256rnds2_epu32(lane.cdgh, lane.abef, keyed);
  lane.abef = _mm_sha256rnds2_epu32(lane.abef, lane.cdgh, _mm_shuffle_epi32(keyed, 0x0e));
}

__attribute__((target("sha,sse4.1"))) void compress(Lane (&lanes)[2], const std::byte* first,
                                                    const std::byte* second, std::size_t blocks) {
  Lane one = lanes[0], two = lanes[1];
  for (; blocks > 0; --blocks, first += kBlock, second += kBlock) {
    const Lane one_before = one, two_before = two;
    load(one, first);
    load(two, second);
#pragma GCC unroll 16
    for (int group = 0; group < 16; ++group) {
      if (group >= 4) schedule(one, group);
      if (group >= 4) schedule(two, group);
      four_rounds(one, group);
      four_rounds(two, group);
    }
    one.abef = _mm_add_epi32(one.abef, one_before.abef);
    one.cdgh = _mm_add_epi32(one.cdgh, one_before.cdgh);
    two.abef = _mm_add_epi32(two.abef, two_before.abef);
    two.cdgh = _mm_add_epi32(two.cdgh, two_before.cdgh);
  }
  lanes[0] = one;
  lanes[1] = two;
}

__attribute__((target("sha,sse4.1"))) Digest digest_of(const Lane& lane) {
  alignas(16) std::uint32_t high[4], low[4];
  _mm_store_si128(reinterpret_cast<__m128i*>(high), lane.abef);
  _mm_store_si128(reinterpret_cast<__m128i*>(low), lane.cdgh);
  const std::uint32_t words[8] = {high[3], high[2], low[3], low[2],
                                  high[1], high[0], low[1], low[0]};
  Digest digest;
  for (std::size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<std::byte>(words[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

using Block = std::array<std::byte, kBlock>;

Block first_block(FullLeaf leaf) {
  Block block{};
  std::memcpy(block.data() + 1, leaf.data(), kFirst);
  return block;
}

// The last byte, the end mark, and the length in bits.
Block last_block(FullLeaf leaf) {
  Block block{};
  block[0] = leaf.back();
  block[1] = std::byte{0x80};
  constexpr std::uint64_t kBits = 8 * (kTensorLeafBytes + 1);
  for (std::size_t i = 0; i < 8; ++i) {
    block[kBlock - 1 - i] = static_cast<std::byte>(kBits >> (8 * i));
  }
  return block;
}

}  // namespace

bool has_leaf_pair() {
  static const bool has = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __builtin_cpu_supports("sse4.1") != 0 && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 &&
           (b & bit_SHA) != 0;
  }();
  return has;
}

__attribute__((target("sha,sse4.1"))) std::array<Digest, 2> merkle_leaf_pair(FullLeaf first,
                                                                             FullLeaf second) {
  if (!has_leaf_pair()) {
    fail(ErrorCode::kUnimplemented, "this processor has no SHA-256 instructions");
  }
  Lane lanes[2] = {started(), started()};
  compress(lanes, first_block(first).data(), first_block(second).data(), 1);
  compress(lanes, first.data() + kFirst, second.data() + kFirst, kWhole);
  compress(lanes, last_block(first).data(), last_block(second).data(), 1);
  return {digest_of(lanes[0]), digest_of(lanes[1])};
}

#else

bool has_leaf_pair() { return false; }

std::array<Digest, 2> merkle_leaf_pair(FullLeaf, FullLeaf) {
  fail(ErrorCode::kUnimplemented, "this processor has no SHA-256 instructions that we know");
}

#endif

}  // namespace harmonics::inline in_custody
