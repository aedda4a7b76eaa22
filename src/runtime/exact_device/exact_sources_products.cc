#include "exact_sources.h"

namespace harmonics::inline in_runtime {

const char* const kExactProductSource = R"CL(
#define TILE 32
#define DEPTH 16
#define EACH 4

// c[z][i][j] = the chain over p of a[z][i][p] * b[z][p][j]. A group owns a tile of c and walks
// along p in steps of DEPTH; an item holds EACH x EACH chains. p counts `inner` columns of a and
// rows of b, then goes on `a_outer` and `b_outer` further; z counts `near` matrices, then goes on
// by the far pitch. A chain begins at 0 (start 0), at what c holds (1), at first[j] (2) or at
// first[i] (3).
KERNEL product(GLOBAL const float* a, int a_offset, int a_row, int a_column, int a_outer,
               int a_near, int a_far, GLOBAL const float* b, int b_offset, int b_row, int b_column,
               int b_outer, int b_near, int b_far, GLOBAL float* c, int c_offset, int c_row,
               int c_near, int c_far, GLOBAL const float* first, int first_offset, int start, int m,
               int n, int k, int inner, int near, int tiles_down, int tiles_across, int items) {
  SHARED float rows[DEPTH * TILE];
  SHARED float columns[DEPTH * TILE];
  const int group = GROUP_NUMBER, item = LOCAL_NUMBER;
  const int across = group % tiles_across, down = group / tiles_across % tiles_down;
  const int z = group / tiles_across / tiles_down;
  a_offset += z % near * a_near + z / near * a_far;
  b_offset += z % near * b_near + z / near * b_far;
  c_offset += z % near * c_near + z / near * c_far;
  const int top = down * TILE, left = across * TILE;
  const int i0 = item / (TILE / EACH) * EACH, j0 = item % (TILE / EACH) * EACH;
  float sums[EACH][EACH];
  for (int u = 0; u < EACH; ++u) {
    for (int v = 0; v < EACH; ++v) {
      const int i = top + i0 + u, j = left + j0 + v;
      float from = 0.0f;
      if (i < m && j < n) {
        if (start == 1) from = c[c_offset + i * c_row + j];
        if (start == 2) from = first[first_offset + j];
        if (start == 3) from = first[first_offset + i];
      }
      sums[u][v] = from;
    }
  }
  for (int p0 = 0; p0 < k; p0 += DEPTH) {
    const int depth = k - p0 < DEPTH ? k - p0 : DEPTH;
    for (int e = item; e < DEPTH * TILE; e += GROUP) {
      const int i = a_column == 1 ? e / DEPTH : e % TILE;
      const int p = a_column == 1 ? e % DEPTH : e / TILE;
      float value = 0.0f;
      if (top + i < m && p < depth) {
        value = a[a_offset + (top + i) * a_row + (p0 + p) / inner * a_outer +
                  (p0 + p) % inner * a_column];
      }
      rows[p * TILE + i] = value;
    }
    for (int e = item; e < DEPTH * TILE; e += GROUP) {
      const int j = b_column == 1 ? e % TILE : e / DEPTH;
      const int p = b_column == 1 ? e / TILE : e % DEPTH;
      float value = 0.0f;
      if (left + j < n && p < depth) {
        value = b[b_offset + (left + j) * b_column + (p0 + p) / inner * b_outer +
                  (p0 + p) % inner * b_row];
      }
      columns[p * TILE + j] = value;
    }
    BARRIER;
    for (int p = 0; p < depth; ++p) {
      float one[EACH], other[EACH];
      for (int u = 0; u < EACH; ++u) one[u] = rows[p * TILE + i0 + u];
      for (int v = 0; v < EACH; ++v) other[v] = columns[p * TILE + j0 + v];
      for (int u = 0; u < EACH; ++u) {
        for (int v = 0; v < EACH; ++v) sums[u][v] = FUSED(one[u], other[v], sums[u][v]);
      }
    }
    BARRIER;
  }
  for (int u = 0; u < EACH; ++u) {
    for (int v = 0; v < EACH; ++v) {
      const int i = top + i0 + u, j = left + j0 + v;
      if (i < m && j < n) c[c_offset + i * c_row + j] = sums[u][v];
    }
  }
}

// columns[sample][tap][place] of images; what lies outside is 0. `shape` holds height, width, both
// of the output, kernel, stride, dilation and padding, each down and across.
#define SHAPE_OF(shape)                                                            \
  const int height = shape[0], width = shape[1], out_height = shape[2];            \
  const int out_width = shape[3], kernel_height = shape[4], kernel_width = shape[5]; \
  const int pace_down = shape[6], pace_across = shape[7], apart_down = shape[8];   \
  const int apart_across = shape[9], above = shape[10], before = shape[11];        \
  const int area = out_height * out_width, window = kernel_height * kernel_width

KERNEL spread(GLOBAL const float* images, int offset, int pitch, GLOBAL const int* shape, int taps,
              GLOBAL float* columns, int n) {
  ITEM(n);
  SHAPE_OF(shape);
  const int place = i % area, tap = i / area % taps, sample = i / area / taps;
  const int y = place / out_width * pace_down + tap % window / kernel_width * apart_down - above;
  const int x = place % out_width * pace_across + tap % kernel_width * apart_across - before;
  float value = 0.0f;
  if (y >= 0 && y < height && x >= 0 && x < width) {
    value = images[offset + sample * pitch + (tap / window * height + y) * width + x];
  }
  columns[i] = value;
}

// The way back: what each tap gives to a pixel, tap after tap.
KERNEL gather(GLOBAL const float* columns, GLOBAL const int* shape, int taps, GLOBAL float* images,
              int offset, int pitch, int n) {
  ITEM(n);
  SHAPE_OF(shape);
  const int size = taps / window * height * width;
  const int within = i % size, sample = i / size;
  const int x = within % width, y = within / width % height, channel = within / width / height;
  float sum = 0.0f;
  for (int t = 0; t < window; ++t) {
    const int up = y + above - t / kernel_width * apart_down;
    const int along = x + before - t % kernel_width * apart_across;
    if (up < 0 || along < 0 || up % pace_down != 0 || along % pace_across != 0) continue;
    if (up / pace_down >= out_height || along / pace_across >= out_width) continue;
    const int place = up / pace_down * out_width + along / pace_across;
    sum = sum + columns[(sample * taps + channel * window + t) * area + place];
  }
  images[offset + sample * pitch + within] = sum;
}
)CL";

const char* const kExactPoolSource = R"CL(
// Windows along one axis, four numbers each: first and end of what lies inside, pace, how many
// places count. `size` holds height and width of the input, then of the output.
KERNEL pool_largest(GLOBAL const float* x, GLOBAL const int* down, GLOBAL const int* across,
                    GLOBAL const int* size, GLOBAL float* y, GLOBAL int* places, int n) {
  ITEM(n);
  const int pitch = size[1], out = i % (size[2] * size[3]);
  GLOBAL const int* row = down + out / size[3] * 4;
  GLOBAL const int* column = across + out % size[3] * 4;
  GLOBAL const float* plane = x + i / (size[2] * size[3]) * size[0] * pitch;
  int best = row[0] * pitch + column[0];
  for (int v = row[0]; v < row[1]; v += row[2]) {
    for (int u = column[0]; u < column[1]; u += column[2]) {
      const float value = plane[v * pitch + u];
      if (value > plane[best] || value != value) best = v * pitch + u;
    }
  }
  places[i] = best;
  y[i] = plane[best];
}
KERNEL pool_mean(GLOBAL const float* x, GLOBAL const int* down, GLOBAL const int* across,
                 GLOBAL const int* size, GLOBAL float* y, int n) {
  ITEM(n);
  const int pitch = size[1], out = i % (size[2] * size[3]);
  GLOBAL const int* row = down + out / size[3] * 4;
  GLOBAL const int* column = across + out % size[3] * 4;
  GLOBAL const float* plane = x + i / (size[2] * size[3]) * size[0] * pitch;
  float sum = 0.0f;
  for (int v = row[0]; v < row[1]; ++v) {
    for (int u = column[0]; u < column[1]; ++u) sum = sum + plane[v * pitch + u];
  }
  y[i] = OVER(sum, (float)(row[3] * column[3]));
}

// A pixel adds up what the windows that hold it give, in their order. `rows` and `columns` hold for
// each row and column of the input the windows from which to which it may be held.
KERNEL pool_back(GLOBAL const float* g, GLOBAL const int* places, int largest,
                 GLOBAL const int* down, GLOBAL const int* across, GLOBAL const int* rows,
                 GLOBAL const int* columns, GLOBAL const int* size, GLOBAL float* answer, int n) {
  ITEM(n);
  const int within = i % (size[0] * size[1]), y = within / size[1], x = within % size[1];
  const int base = i / (size[0] * size[1]) * size[2] * size[3];
  float sum = 0.0f;
  for (int v = rows[2 * y]; v < rows[2 * y + 1]; ++v) {
    if (y < down[4 * v] || y >= down[4 * v + 1]) continue;
    for (int u = columns[2 * x]; u < columns[2 * x + 1]; ++u) {
      if (x < across[4 * u] || x >= across[4 * u + 1]) continue;
      const int at = base + v * size[3] + u;
      if (!largest) sum = sum + OVER(g[at], (float)(down[4 * v + 3] * across[4 * u + 3]));
      if (largest && places[at] == within) sum = sum + g[at];
    }
  }
  answer[i] = sum;
}
)CL";

}  // namespace harmonics::inline in_runtime
