/* TileLang's persistent mapping and a bitmap of its tiles, as plain C: the yardstick of benchmarks/sweep.py.
   Prints the number of tiles that were not computed exactly once. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  const int32_t rows = atoi(argv[1]), columns = atoi(argv[2]), workers = atoi(argv[3]), panel = atoi(argv[4]);
  const int32_t total = rows * columns;
  uint64_t *seen = calloc((size_t)total / 64 + 1, 8);
  int32_t repeated = 0, covered = 0;
  if (!seen) return 2;
  for (int32_t wave = 0; (int64_t)wave * workers < total; ++wave)
    for (int32_t worker = 0; worker < workers; ++worker) {
      const int64_t id = (int64_t)wave * workers + worker;
      if (id >= total) break;
      const int32_t linear = (int32_t)id, group = linear / (rows * panel), base = group * panel;
      const int32_t left = columns - base, width = left < panel ? left : panel;
      const int32_t rest = linear - group * rows * panel, m = rest / width, n = base + rest % width;
      const uint32_t tile = (uint32_t)m * columns + n;
      const uint64_t bit = 1ull << (tile & 63);
      repeated += (seen[tile >> 6] & bit) != 0;
      seen[tile >> 6] |= bit;
    }
  for (int32_t word = 0; word <= total / 64; ++word) covered += __builtin_popcountll(seen[word]);
  printf("%d\n", total - covered + repeated);
  free(seen);
  return 0;
}
