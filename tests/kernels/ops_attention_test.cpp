// rope_kv(), attention_partial() and attention_combine(), whole_attention(): equal to plain code,
// and the same bits whether rows come one at a time, in chunks or all at once, and wherever pages
// live.
#include <random>

#include <gtest/gtest.h>

#include "kernels/contract/rope_table.hpp"
#include "tests/kernels/contract_reference.hpp"
#include "tests/kernels/program_runner.hpp"

namespace terrane::kernels {
namespace {

using reference::bits;
using floats = std::vector<float>;

constexpr std::uint32_t pages_per_slot = 6, capacity = 384;

// One session: the inputs of every position, and what plain code makes of them.
struct session {
  session(const rope_kv_spec& s, std::uint32_t count, std::uint32_t seed) : spec(s) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> unit(-1, 1);
    table =
        rope_table({.theta = 10000, .rotated = spec.rotated, .llama3 = {}, .factors = {}}, count);
    for (floats* w : {&q_norm, &k_norm})
      for (std::uint32_t d = 0; d < spec.shape.head_size; d++) w->push_back(1 + unit(random) / 2);
    for (std::uint32_t p = 0; p < count; p++) {
      floats row(spec.input_stride);
      // Now and then large or tiny, so that maxima move and weights vanish.
      float scale = random() % 8 == 0 ? 40.0f : random() % 8 == 0 ? 0x1p-30f : 2.0f;
      for (float& e : row) e = reference::sanit(unit(random) * scale);
      x.push_back(row);
      floats in = row;
      if (spec.head_norms) {
        normalise(in, 0, spec.shape.heads, q_norm);
        normalise(in, spec.k_offset, spec.shape.kv_heads, k_norm);
      }
      q.push_back(turned(in, 0, spec.shape.heads, p, true));
      k.push_back(turned(in, spec.k_offset, spec.shape.kv_heads, p, true));
      v.push_back(turned(row, spec.v_offset, spec.shape.kv_heads, p, false));
    }
  }

  void normalise(floats& row, std::uint32_t offset, std::uint32_t heads, const floats& w) const {
    std::uint32_t size = spec.shape.head_size;
    for (std::uint32_t h = 0; h < heads; h++) {
      float* in = row.data() + offset + h * size;
      floats chain(256);
      for (std::uint32_t d = 0; d < size; d++) chain[d % 256] = chain[d % 256] + in[d] * in[d];
      for (std::size_t s = 128; s > 0; s /= 2)
        for (std::size_t j = 0; j < s; j++) chain[j] = chain[j] + chain[j + s];
      float mean = chain[0] * static_cast<float>(1.0 / size), r = reference::rsqrt(mean + spec.eps);
      for (std::uint32_t d = 0; d < size; d++) in[d] = reference::sanit((in[d] * r) * w[d]);
    }
  }

  floats turned(const floats& row, std::uint32_t offset, std::uint32_t heads, std::uint32_t p,
                bool turns) const {
    floats out(heads * spec.shape.head_size);
    for (std::uint32_t h = 0; h < heads; h++) {
      const float* in = row.data() + offset + h * spec.shape.head_size;
      float* y = out.data() + h * spec.shape.head_size;
      std::copy(in, in + spec.shape.head_size, y);
      for (std::uint32_t i = 0; turns && i < spec.rotated / 2; i++) {
        bool adjacent = spec.pairs == rope_pairs::adjacent;
        std::uint32_t a = adjacent ? 2 * i : i, b = adjacent ? a + 1 : i + spec.rotated / 2;
        float c = table[p * spec.rotated + 2 * i], s = table[p * spec.rotated + 2 * i + 1];
        y[a] = reference::sanit(in[a] * c - in[b] * s);
        y[b] = reference::sanit(in[a] * s + in[b] * c);
      }
      for (std::uint32_t d = 0; d < spec.shape.head_size; d++) y[d] = reference::f16(y[d]);
    }
    return out;
  }

  // One row of attention, chunk after chunk.
  floats attention(std::uint32_t p) const {
    const attention_shape& shape = spec.shape;
    std::uint32_t size = shape.head_size, group = shape.heads / shape.kv_heads;
    floats out;
    for (std::uint32_t h = 0; h < shape.heads; h++) {
      floats sum;
      float m = 0, l = 0;
      std::uint32_t from = shape.window == 0 || p + 1 < shape.window ? 0 : p + 1 - shape.window;
      for (std::uint32_t chunk = from / 64; chunk <= p / 64; chunk++) {
        std::uint32_t first = std::max(from, 64 * chunk), end = std::min(p + 1, 64 * chunk + 64);
        floats scores, o(size);
        for (std::uint32_t t = first; t < end; t++) {
          float dot = 0;
          for (std::uint32_t d = 0; d < size; d++)
            dot = dot + q[p][h * size + d] * k[t][h / group * size + d];
          scores.push_back(dot * shape.scale);
        }
        float cm = *std::max_element(scores.begin(), scores.end()), cl = 0;
        for (std::uint32_t t = first; t < end; t++) {
          float weight = reference::f16(reference::score_weight(scores[t - first], cm));
          cl = cl + weight;
          for (std::uint32_t d = 0; d < size; d++)
            o[d] = o[d] + weight * v[t][h / group * size + d];
        }
        if (sum.empty()) {
          sum = o, m = cm, l = cl;
          continue;
        }
        float top = std::max(m, cm), a = reference::score_weight(m, top),
              b = reference::score_weight(cm, top);
        l = l * a + cl * b;
        for (std::uint32_t d = 0; d < size; d++) sum[d] = sum[d] * a + o[d] * b;
        m = top;
      }
      float r = reference::rcp(l);
      for (float e : sum) out.push_back(reference::sanit(e * r));
    }
    return out;
  }

  rope_kv_spec spec;
  floats table, q_norm, k_norm;
  std::vector<floats> x, q, k, v;
};

// A device's memory for attention: pages of each slot, or a table without them.
struct device_pages {
  explicit device_pages(const attention_shape& shape, std::uint32_t slots)
      // Pages start as NaN halves: keys that were never written must not matter.
      : bytes(std::size_t{slots} * pages_per_slot * page_bytes(shape), std::byte{0x7e}),
        table(std::size_t{slots} * pages_per_slot) {
    for (std::size_t i = 0; i < table.size(); i++)
      table[i] = reinterpret_cast<std::uint64_t>(bytes.data()) + i * page_bytes(shape);
  }
  aligned_buffer<std::byte> bytes;
  aligned_buffer<std::uint64_t> table;
};

struct step_row {
  std::uint32_t slot, position;
};

// With as many heads in a workgroup as there can be, of four at most.
rope_kv_spec sharing_groups(rope_kv_spec spec) {
  const auto heads = static_cast<int>(spec.shape.heads + 2 * spec.shape.kv_heads);
  if (!spec.head_norms)
    for (int warps : {4, 3, 2})
      if (spec.warps == 1 && heads % warps == 0) spec.warps = warps;
  return spec;
}

// Attention's rows as attended_activation() rounds them: what activation() makes of `out`.
void check_rounded(test_target target, const attention_shape& shape, floats& out,
                   std::vector<argument_slot> partials_position_rows, std::uint32_t launched,
                   std::uint32_t live) {
  const std::uint32_t k = shape.heads * shape.head_size;
  activation_spec spec{.k = k,
                       .input_stride = k,
                       .outputs = {.q8_by_32 = true, .q8_by_256 = k % 256 == 0, .f32 = true},
                       .in_parts = true,
                       .parts = (k + 255) / 256};
  const q8_row_layout fine(k, 32), coarse(k, 256);
  struct rounded {
    rounded(std::size_t rows, std::uint32_t k, const q8_row_layout& a, const q8_row_layout& b)
        : floats(rows * k), by_32(rows * a.tile_bytes), by_256(rows * b.tile_bytes) {}
    aligned_buffer<float> floats;
    aligned_buffer<std::byte> by_32, by_256;
  } expected(launched, k, fine, coarse);
  std::vector<argument_slot> arguments = {
      out.data(),      argument_slot(),        expected.by_32.data(),
      argument_slot(), expected.floats.data(), expected.by_256.data()};
  run_program(target, activation(spec), arguments, activation_grid(spec, live));
  for (int warps : {8, 2}) {
    rounded got(launched, k, fine, coarse);
    arguments = {partials_position_rows[0],
                 partials_position_rows[1],
                 got.by_32.data(),
                 argument_slot(),
                 got.floats.data(),
                 got.by_256.data(),
                 partials_position_rows[2],
                 capacity,
                 0u};
    spec.warps = warps;
    run_program(target, attended_activation(shape, spec), arguments,
                activation_grid(spec, launched));
    EXPECT_EQ(std::memcmp(got.floats.data(), expected.floats.data(), 4 * got.floats.size()), 0);
    EXPECT_EQ(std::memcmp(got.by_32.data(), expected.by_32.data(), got.by_32.size()), 0);
    if (k % 256 != 0) continue;
    EXPECT_EQ(std::memcmp(got.by_256.data(), expected.by_256.data(), got.by_256.size()), 0);
  }
}

// Runs one step of rows through the three kernels; the pages may be spread over several tables.
std::vector<floats> run_step(test_target target, const std::vector<session>& sessions,
                             const std::vector<step_row>& rows,
                             const std::vector<std::uint64_t*>& tables) {
  const rope_kv_spec& spec = sessions[0].spec;
  const attention_shape& shape = spec.shape;
  std::uint32_t live = static_cast<std::uint32_t>(rows.size()), launched = live + 3, chunks = 0;
  std::uint32_t width = shape.heads * shape.head_size;
  aligned_buffer<float> x(std::size_t{launched} * spec.input_stride), q(launched * width, -1.0f),
      out(launched * width, -1.0f);
  aligned_buffer<float> partials(
      std::size_t{pages_per_slot} * capacity * (partial_row_bytes(shape) / 4), NAN);
  aligned_buffer<std::int32_t> position(launched), slot(launched), count(1);
  count[0] = static_cast<std::int32_t>(live);
  for (std::size_t r = 0; r < live; r++) {
    const floats& in = sessions[rows[r].slot].x[rows[r].position];
    std::copy(in.begin(), in.end(), x.data() + r * spec.input_stride);
    position[r] = static_cast<std::int32_t>(rows[r].position);
    slot[r] = static_cast<std::int32_t>(rows[r].slot);
    chunks = std::max(chunks, rows[r].position / 64 + 1);
  }
  std::vector<float> rope = sessions[0].table, q_norm = sessions[0].q_norm,
                     k_norm = sessions[0].k_norm;
  for (std::uint64_t* table : tables) {
    std::vector<argument_slot> write = {x.data(),      rope.data(),  position.data(), slot.data(),
                                        count.data(),  table,        pages_per_slot,  q.data(),
                                        q_norm.data(), k_norm.data()};
    run_program(target, rope_kv(spec), write, rope_kv_grid(spec, launched));
    const floats by_one(q.data(), q.data() + q.size());
    std::fill_n(q.data(), q.size(), -1.0f);
    const rope_kv_spec shared = sharing_groups(spec);
    run_program(target, rope_kv(shared), write, rope_kv_grid(shared, launched));
    EXPECT_EQ(std::memcmp(q.data(), by_one.data(), 4 * q.size()), 0);
  }
  // However lanes and keys are laid out, the partials are the same.
  aligned_buffer<float> by_halves(partials.size(), NAN), by_warps(partials.size(), NAN),
      by_tiles(partials.size(), NAN);
  const attention_tuning halves{.keys = lane_keys::halves, .dimensions = 4, .values = 2};
  for (std::uint64_t* table : tables) {
    std::vector<argument_slot> part = {q.data(), position.data(), slot.data(),     count.data(),
                                       table,    pages_per_slot,  partials.data(), capacity};
    run_program(target, attention_partial(shape), part,
                attention_partial_grid(shape, launched, chunks));
    part[6] = by_halves.data();
    run_program(target, attention_partial(shape, halves), part,
                attention_partial_grid(shape, launched, chunks));
    part[6] = by_warps.data();
    run_program(target, attention_partial(shape, {.warps = attention_warps(shape)}), part,
                attention_partial_grid(shape, launched, chunks));
    part[6] = by_tiles.data();
    const attention_tuning tiles{.rows = attention_rows(shape)};
    run_program(target, attention_partial(shape, tiles), part,
                attention_partial_grid(shape, launched, chunks, tiles));
  }
  EXPECT_EQ(std::memcmp(partials.data(), by_tiles.data(), 4 * partials.size()), 0);
  EXPECT_EQ(std::memcmp(partials.data(), by_halves.data(), 4 * partials.size()), 0);
  EXPECT_EQ(std::memcmp(partials.data(), by_warps.data(), 4 * partials.size()), 0);
  // Rows that share the memory of their partials, one after another.
  aligned_buffer<float> one(std::size_t{pages_per_slot} * (partial_row_bytes(shape) / 4), NAN);
  aligned_buffer<float> by_rows(out.size(), 0.0f);
  for (std::uint32_t r = 0; r < launched; r++) {
    for (std::uint64_t* table : tables) {
      std::vector<argument_slot> part = {q.data(), position.data(), slot.data(), count.data(),
                                         table,    pages_per_slot,  one.data(),  1u,
                                         r};
      run_program(target, attention_partial(shape), part, attention_partial_grid(shape, 1, chunks));
    }
    std::vector<argument_slot> fold_one = {
        one.data(), position.data(), count.data(), by_rows.data(), 1u, r};
    run_program(target, attention_combine(shape), fold_one, attention_combine_grid(shape, 1));
  }
  std::vector<argument_slot> fold = {partials.data(), position.data(), count.data(), out.data(),
                                     capacity};
  run_program(target, attention_combine(shape), fold, attention_combine_grid(shape, launched));
  EXPECT_EQ(std::memcmp(out.data(), by_rows.data(), 4 * live * width), 0);
  if (tables.size() == 1 && whole_attention_rows(shape) != 0) {
    aligned_buffer<float> at_once(out.size(), -1.0f);
    std::vector<argument_slot> whole = {q.data(),  position.data(), slot.data(),   count.data(),
                                        tables[0], pages_per_slot,  at_once.data()};
    run_program(target, whole_attention(shape), whole, whole_attention_grid(shape, launched));
    EXPECT_EQ(std::memcmp(out.data(), at_once.data(), 4 * out.size()), 0);
  }
  floats attended(out.data(), out.data() + live * width);
  check_rounded(target, shape, attended, {partials.data(), position.data(), count.data()}, launched,
                live);
  std::vector<floats> result;
  for (std::size_t r = 0; r < live; r++) {
    for (std::size_t i = 0; i < width; i++)
      EXPECT_EQ(bits(q[r * width + i]), bits(sessions[rows[r].slot].q[rows[r].position][i]))
          << "q of row " << r << " element " << i;
    result.emplace_back(out.data() + r * width, out.data() + (r + 1) * width);
  }
  for (std::size_t i = live * width; i < launched * width; i++) {
    EXPECT_EQ(q[i], -1.0f) << "a row past the count was written";
    EXPECT_EQ(out[i], -1.0f) << "a row past the count was written";
  }
  return result;
}

bool same(const floats& a, const floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), 4 * a.size()) == 0;
}

rope_kv_spec make_spec(std::uint32_t heads, std::uint32_t kv_heads, std::uint32_t size,
                       std::uint32_t rotated, rope_pairs pairs, std::uint32_t window) {
  rope_kv_spec s;
  s.shape = {heads, kv_heads, size, 1.0f / std::sqrt(static_cast<float>(size)), window};
  s.rotated = rotated;
  s.pairs = pairs;
  s.k_offset = heads * size;
  s.v_offset = s.k_offset + kv_heads * size + 32;
  s.input_stride = s.v_offset + kv_heads * size;
  return s;
}

std::vector<step_row> rows_of(std::uint32_t slot, std::uint32_t first, std::uint32_t end) {
  std::vector<step_row> rows;
  for (std::uint32_t p = first; p < end; p++) rows.push_back({slot, p});
  return rows;
}

void check_shape(const rope_kv_spec& spec, std::uint32_t count) {
  SCOPED_TRACE("heads " + std::to_string(spec.shape.heads) + "/" +
               std::to_string(spec.shape.kv_heads) + " of " + std::to_string(spec.shape.head_size) +
               " window " + std::to_string(spec.shape.window));
  std::vector<session> sessions = {session(spec, count, 1)};
  for (test_target target : test_targets()) {
    device_pages pages(spec.shape, 1);
    std::vector<floats> got =
        run_step(target, sessions, rows_of(0, 0, count), {pages.table.data()});
    for (std::uint32_t p = 0; p < count; p++)
      ASSERT_TRUE(same(got[p], sessions[0].attention(p))) << "position " << p;
  }
}

TEST(attention, equals_plain_code_for_many_shapes) {
  check_shape(make_spec(6, 2, 64, 64, rope_pairs::adjacent, 0), 140);
  check_shape(make_spec(3, 3, 32, 16, rope_pairs::halves, 0), 70);
  check_shape(make_spec(12, 1, 96, 96, rope_pairs::halves, 0), 70);
  check_shape(make_spec(2, 1, 128, 64, rope_pairs::adjacent, 0), 70);
  check_shape(make_spec(4, 4, 256, 0, rope_pairs::adjacent, 0), 66);
  check_shape(make_spec(8, 1, 64, 64, rope_pairs::adjacent, 0), 66);
  check_shape(make_spec(1, 1, 192, 64, rope_pairs::adjacent, 0), 66);
  check_shape(make_spec(6, 2, 64, 64, rope_pairs::halves, 50), 200);
  check_shape(make_spec(6, 2, 64, 64, rope_pairs::halves, 64), 140);
  check_shape(make_spec(2, 1, 32, 32, rope_pairs::halves, 1), 70);
  check_shape(make_spec(2, 1, 32, 32, rope_pairs::halves, 66), 256);
  // More chunks than whole_attention() takes in a round.
  check_shape(make_spec(1, 1, 64, 64, rope_pairs::halves, 0), 262);
  check_shape(make_spec(1, 1, 64, 64, rope_pairs::halves, 260), 326);
  check_shape(make_spec(4, 1, 128, 64, rope_pairs::halves, 0), 330);
  for (std::uint32_t size : {32U, 64U, 256U}) {
    rope_kv_spec spec = make_spec(4, 1, size, size, rope_pairs::halves, 70);
    spec.head_norms = true;
    spec.eps = 1e-6f;
    check_shape(spec, 140);
  }
}

TEST(attention, any_way_to_cut_the_rows_gives_the_same_bits) {
  rope_kv_spec spec = make_spec(4, 2, 64, 64, rope_pairs::adjacent, 0);
  std::uint32_t count = 150;
  std::vector<session> sessions = {session(spec, count, 1), session(spec, count, 2)};
  for (test_target target : test_targets())
    for (std::uint32_t chunk : {1u, 7u, 64u, 150u}) {
      device_pages pages(spec.shape, 2);
      // The second session runs beside the first, three positions behind.
      for (std::uint32_t first = 0; first < count; first += chunk) {
        std::vector<step_row> rows = rows_of(0, first, std::min(count, first + chunk));
        if (chunk == 1 && first >= 3) rows.push_back({1, first - 3});
        std::vector<floats> got = run_step(target, sessions, rows, {pages.table.data()});
        for (std::size_t r = 0; r < rows.size(); r++) {
          if (rows[r].position % 11 != 0 && rows[r].position % 64 > 1) continue;
          ASSERT_TRUE(same(got[r], sessions[rows[r].slot].attention(rows[r].position)))
              << "chunk " << chunk << " position " << rows[r].position;
        }
      }
    }
}

TEST(attention, a_window_sees_its_last_chunks_alone) {
  const attention_shape shape{2, 1, 32, 1.0f, 66};
  // The first key may be the last of its chunk: 1 + 64 + 1 keys.
  EXPECT_EQ(chunks_seen(shape, 100), 3u);
  EXPECT_EQ(chunks_seen(shape, 2), 2u);
  EXPECT_EQ(first_key(shape, 64), 0u);
  EXPECT_EQ(first_key(shape, 65), 0u);
  EXPECT_EQ(first_key(shape, 66), 1u);
  EXPECT_EQ(attention_partial_grid(shape, 7, 100).x, 3u);
}

TEST(attention, pages_may_live_on_several_devices) {
  rope_kv_spec spec = make_spec(4, 2, 64, 64, rope_pairs::adjacent, 0);
  std::vector<session> sessions = {session(spec, 200, 3)};
  for (test_target target : test_targets()) {
    device_pages here(spec.shape, 1), there(spec.shape, 1);
    here.table[1] = 0;
    there.table[0] = there.table[2] = there.table[3] = 0;
    std::vector<floats> got =
        run_step(target, sessions, rows_of(0, 0, 200), {here.table.data(), there.table.data()});
    for (std::uint32_t p = 0; p < 200; p += 9)
      ASSERT_TRUE(same(got[p], sessions[0].attention(p))) << "position " << p;
  }
}

}  // namespace
}  // namespace terrane::kernels
