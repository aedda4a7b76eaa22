// Attention of one row at a time over the cache of its sequence.
#include <algorithm>
#include <cmath>
#include <numbers>

#include <harmonics/base/error.h>

#include "row_kernels.h"
#include "token_pass.h"

namespace harmonics::inline in_runtime {
namespace {

/// Where the numbers of one attention layer come from.
struct AttentionShapes {
  std::size_t heads = 0, groups = 0, head_dim = 0;
  std::int64_t window = 0;

  [[nodiscard]] std::size_t query_width() const { return heads * head_dim; }
  [[nodiscard]] std::size_t key_width() const { return groups * head_dim; }
};

class AttentionLayer final : public TokenLayer {
 public:
  AttentionLayer(const TokenLayerRequest& request, const LayerQuery& q)
      : input_(request.inputs[0]), output_(request.output), cache_(request.caches.size()) {
    shapes_.heads = static_cast<std::size_t>(q.integer("heads"));
    shapes_.groups =
        q.has("kv_heads") ? static_cast<std::size_t>(q.integer("kv_heads")) : shapes_.heads;
    shapes_.head_dim = q.has("head_dim")
                           ? static_cast<std::size_t>(q.integer("head_dim"))
                           : static_cast<std::size_t>(q.inputs[0].shape[1]) / shapes_.heads;
    shapes_.window = q.integer_or("window", 0);
    ahead_ = q.integer("causal") == 0;
    frequencies_ = turn_frequencies(q, static_cast<std::int64_t>(shapes_.head_dim));
    if (q.integer_or("separate", 0) != 0) {
      query_ = TokenProduct(request.rows("q.weight"), request.numbers("q.bias"));
      key_ = TokenProduct(request.rows("k.weight"), request.numbers("k.bias"));
      value_ = TokenProduct(request.rows("v.weight"), request.numbers("v.bias"));
    } else {
      joined_ = true;
      query_ = TokenProduct(request.rows("qkv.weight"), request.numbers("qkv.bias"));
    }
    projects_ = q.integer("project") != 0;
    if (projects_) {
      out_ = TokenProduct(request.rows("out.weight"), request.numbers("out.bias"));
    }
    request.caches.push_back(
        {static_cast<std::int64_t>(shapes_.groups), static_cast<std::int64_t>(shapes_.head_dim)});
  }

  void run(TokenPass& pass) override {
    project(pass);
    for (std::size_t row = 0; row < pass.rows.size(); ++row) turn_and_keep(pass, row);
    TokenSlot& out = pass.room(output_);
    float* const mixed =
        projects_ ? room(mixed_, pass.rows.size() * shapes_.query_width()) : out.numbers.data();
    pass.team->run(pass.rows.size() * shapes_.groups,
                   [&](int member, std::size_t block) { mix(pass, member, block, mixed); });
    if (projects_) out_.run(pass, mixed, out.numbers.data());
  }

 private:
  static float* room(std::vector<float>& numbers, std::size_t count) {
    if (numbers.size() < count) numbers.resize(count);
    return numbers.data();
  }

  void project(TokenPass& pass) {
    const std::size_t rows = pass.rows.size();
    const float* const x = pass.slots[input_].numbers.data();
    float* const query = room(queries_, rows * query_.outputs());
    query_.run(pass, x, query);
    query_stride_ = query_.outputs();
    if (joined_) {
      key_stride_ = query_stride_;
      keys_at_ = query + shapes_.query_width();
      values_at_ = keys_at_ + shapes_.key_width();
      return;
    }
    key_stride_ = shapes_.key_width();
    float* const keys = room(keys_, rows * key_stride_);
    float* const values = room(values_, rows * key_stride_);
    key_.run(pass, x, keys);
    value_.run(pass, x, values);
    keys_at_ = keys;
    values_at_ = values;
  }

  // Cosine and sine of all frequencies at a position.
  const float* turns_at(std::int64_t position) {
    const std::size_t half = frequencies_.size();
    float* const turns = room(turns_, 2 * half);
    for (std::size_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(position) * frequencies_[i];
      turns[i] = std::cos(angle);
      turns[half + i] = std::sin(angle);
    }
    return turns;
  }

  static void turn(float* x, const float* turns, std::size_t half) {
    const float* const cosine = turns;
    const float* const sine = turns + half;
    for (std::size_t i = 0; i < half; ++i) {
      const float first = x[i], second = x[i + half];
      x[i] = first * cosine[i] - second * sine[i];
      x[i + half] = second * cosine[i] + first * sine[i];
    }
  }

  void turn_and_keep(TokenPass& pass, std::size_t row) {
    const TokenRow& at = pass.rows[row];
    float* const query = queries_.data() + row * query_stride_;
    float* const key = keys_at_ + row * key_stride_;
    const float* const value = values_at_ + row * key_stride_;
    if (!frequencies_.empty()) {
      const float* const turns = turns_at(at.position);
      for (std::size_t head = 0; head < shapes_.heads; ++head) {
        turn(query + head * shapes_.head_dim, turns, frequencies_.size());
      }
      for (std::size_t head = 0; head < shapes_.groups; ++head) {
        turn(key + head * shapes_.head_dim, turns, frequencies_.size());
      }
    }
    float* const block = pass.cache->keys(at.sequence, cache_, at.position);
    const std::size_t values = pass.cache->value_offset(cache_);
    const auto within = static_cast<std::size_t>(at.position % TokenCache::kBlockTokens);
    for (std::size_t head = 0; head < shapes_.groups; ++head) {
      float* const to = block + (head * TokenCache::kBlockTokens + within) * shapes_.head_dim;
      std::copy_n(key + head * shapes_.head_dim, shapes_.head_dim, to);
      std::copy_n(value + head * shapes_.head_dim, shapes_.head_dim, to + values);
    }
  }

  // The queries of one row that share keys and values.
  void mix(TokenPass& pass, int member, std::size_t block, float* mixed) {
    const std::size_t row = block / shapes_.groups, group = block % shapes_.groups;
    const TokenRow& at = pass.rows[row];
    const std::size_t copies = shapes_.heads / shapes_.groups;
    const std::int64_t end = ahead_ ? at.length : at.position + 1;
    const std::int64_t first =
        shapes_.window > 0 ? std::max<std::int64_t>(0, end - shapes_.window) : 0;
    const auto length = static_cast<std::size_t>(end - first);
    float* const scores = room(pass.scores[static_cast<std::size_t>(member)], copies * length);
    const float* const query =
        queries_.data() + row * query_stride_ + group * copies * shapes_.head_dim;
    float* const out = mixed + row * shapes_.query_width() + group * copies * shapes_.head_dim;
    each_block(pass, at, {first, end}, [&](std::size_t done, std::size_t count, const float* keys) {
      const float* const own = keys + group * TokenCache::kBlockTokens * shapes_.head_dim;
      products({query, copies, shapes_.head_dim}, {own, count, shapes_.head_dim}, shapes_.head_dim,
               scores + done, length);
    });
    const float root = std::sqrt(static_cast<float>(shapes_.head_dim));
    for (std::size_t i = 0; i < copies * length; ++i) scores[i] /= root;
    for (std::size_t copy = 0; copy < copies; ++copy) softmax(scores + copy * length, length);
    std::fill_n(out, copies * shapes_.head_dim, 0.0f);
    const std::size_t values = pass.cache->value_offset(cache_);
    each_block(pass, at, {first, end}, [&](std::size_t done, std::size_t count, const float* keys) {
      const float* const own = keys + values + group * TokenCache::kBlockTokens * shapes_.head_dim;
      for (std::size_t copy = 0; copy < copies; ++copy) {
        add_weighted({own, count, shapes_.head_dim}, scores + copy * length + done,
                     out + copy * shapes_.head_dim, shapes_.head_dim);
      }
    });
  }

  struct Range {
    std::int64_t first, end;
  };

  // Calls see(tokens done, tokens here, keys of the first of them) block by block.
  template <typename See>
  void each_block(const TokenPass& pass, const TokenRow& at, Range range, const See& see) const {
    for (std::int64_t token = range.first; token < range.end;) {
      const std::int64_t within = token % TokenCache::kBlockTokens;
      const std::int64_t count = std::min(TokenCache::kBlockTokens - within, range.end - token);
      const float* const keys = std::as_const(*pass.cache).keys(at.sequence, cache_, token);
      see(static_cast<std::size_t>(token - range.first), static_cast<std::size_t>(count),
          keys + static_cast<std::size_t>(within) * shapes_.head_dim);
      token += count;
    }
  }

  std::size_t input_, output_, cache_;
  AttentionShapes shapes_;
  bool joined_ = false, projects_ = true, ahead_ = false;
  std::vector<float> frequencies_;
  std::vector<float> turns_;
  TokenProduct query_, key_, value_, out_;
  std::vector<float> queries_, keys_, values_, mixed_;
  std::size_t query_stride_ = 0, key_stride_ = 0;
  float* keys_at_ = nullptr;
  float* values_at_ = nullptr;
};

}  // namespace

// Frequencies as the kernels of the torch backend work them out, in float32.
std::vector<float> turn_frequencies(const LayerQuery& q, std::int64_t head_dim) {
  if (q.text_or("rope", "none") == "none") return {};
  const auto dims =
      static_cast<std::int64_t>(static_cast<double>(head_dim) * q.number_or("rope_fraction", 1));
  const auto theta = static_cast<float>(q.number_or("rope_theta", 10000));
  const std::string scaling = q.text_or("rope_scaling", "none");
  std::vector<float> all;
  for (std::int64_t i = 0; i < dims; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(dims);
    float frequency = 1.0f / std::pow(theta, exponent);
    if (scaling == "linear") frequency /= static_cast<float>(q.number("rope_factor"));
    if (scaling == "llama3") {
      const auto factor = static_cast<float>(q.number("rope_factor"));
      const auto original = static_cast<float>(q.number("rope_original"));
      const auto low = static_cast<float>(q.number("rope_low"));
      const auto high = static_cast<float>(q.number("rope_high"));
      const float wave = 1.0f / frequency * static_cast<float>(2 * std::numbers::pi);
      const float stretched = wave > original / low ? frequency / factor : frequency;
      const float smooth = (1.0f / wave * original - low) / (high - low);
      const bool medium = wave >= original / high && wave <= original / low;
      frequency = medium ? (1 - smooth) * stretched / factor + smooth * stretched : stretched;
    }
    all.push_back(frequency);
  }
  return all;
}

void check_token_attention(const LayerQuery& query, bool whole) {
  const bool ahead = query.integer("causal") == 0;
  if (ahead && !whole) {
    query.refuse("it looks ahead (causal=false), and generation goes token by token");
  }
  if (ahead && query.integer_or("window", 0) > 0) query.refuse("it looks ahead through a window");
  if (query.inputs.size() > 1 && !whole) query.refuse("generation has no use for its mask");
}

TokenLayerPtr make_token_attention(const TokenLayerRequest& request) {
  std::vector<TensorSpec> inputs;
  const LayerQuery query = request.query(inputs);
  check_token_attention(query, request.whole);
  return std::make_unique<AttentionLayer>(request, query);
}

}  // namespace harmonics::inline in_runtime
