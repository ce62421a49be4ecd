/* A mapping and a bitmap of its tiles, as plain C: the yardstick of benchmarks/sweep.py. MAPPING is t for TileLang's
   persistent scheduler, c for CUTLASS's static one on SM90 (single CTAs, AlongN, PANEL a power of two).
   Prints the number of tiles that were not computed exactly once. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int32_t rows, columns, workers, panel, total, repeated;
static uint64_t *seen;

static inline void visit(int32_t m, int32_t n) {
  const uint32_t tile = (uint32_t)m * columns + n;
  const uint64_t bit = 1ull << (tile & 63);
  repeated += (seen[tile >> 6] & bit) != 0;
  seen[tile >> 6] |= bit;
}

static inline void tilelang(int64_t id) {
  const int32_t linear = (int32_t)id, group = linear / (rows * panel), base = group * panel;
  const int32_t left = columns - base, width = left < panel ? left : panel;
  const int32_t rest = linear - group * rows * panel;
  visit(rest / width, base + rest % width);
}

static inline void cutlass(int64_t id, int log) {
  const uint64_t step = (uint64_t)id >> log, across = step / columns;
  const int32_t m = (int32_t)(across << log) + (int32_t)(id & (panel - 1)), n = (int32_t)(step - across * columns);
  if (m < rows) visit(m, n);
}

int main(int argc, char **argv) {
  if (argc != 6) return 2;
  rows = atoi(argv[2]), columns = atoi(argv[3]), workers = atoi(argv[4]), panel = atoi(argv[5]);
  total = rows * columns;
  const int log = __builtin_ctz(panel), is_cutlass = argv[1][0] == 'c';
  const int64_t padded = (rows + panel - 1) / panel * panel;
  const int64_t ids = is_cutlass ? padded * ((columns + panel - 1) / panel * panel) : total;
  int32_t covered = 0;
  if (!(seen = calloc((size_t)total / 64 + 1, 8))) return 2;
  for (int64_t wave = 0; wave * workers < ids; ++wave)
    for (int32_t worker = 0; worker < workers; ++worker) {
      const int64_t id = wave * workers + worker;
      if (id >= ids) break;
      if (is_cutlass)
        cutlass(id, log);
      else
        tilelang(id);
    }
  for (int32_t word = 0; word <= total / 64; ++word) covered += __builtin_popcountll(seen[word]);
  printf("%d\n", total - covered + repeated);
  free(seen);
  return 0;
}
