// C = A · Bᵀ in bf16 with f32 accumulation: a persistent, warp-specialized GEMM for sm_100a, one CTA a tile.
//
//   role       warps   waits on                    signals
//   load       0       empty[stage]                full[stage] (1 arrive + bytes)
//   mma        1       full[stage], accum_empty    empty[stage], accum_full (1 commit each)
//   epilogue   4 to 7  accum_full                  accum_empty (128 arrivals)
//
// Tiles of 128 x 128, k-blocks of 64, 3 stages, 2 accumulator stages of 128 columns. Compiled to gemm_sm100.ptx by
// NVRTC 13.5 for sm_100a.
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;
struct alignas(64) TensorMap {
  u64 opaque[16];
};
constexpr int kTile = 128, kBlockK = 64, kStages = 3, kOperandBytes = kTile * kBlockK * 2;
constexpr u32 kInstruction = 1u << 4 | 1u << 7 | 1u << 10 | kTile / 8 << 17 | kTile / 16 << 24;  // bf16, f32
constexpr u64 kDescriptor = 0x4000404000010000ull;                                               // K-major, 128 B

__device__ __forceinline__ u32 smem(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void init(u64& barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem(&barrier)), "r"(count));
}
__device__ __forceinline__ void wait(u64& barrier, u32 parity) {
  asm volatile(
      "{\n\t.reg .pred P1;\n\tLAB_WAIT:\n\tmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n\t@P1 bra DONE;\n\t"
      "bra LAB_WAIT;\n\tDONE:\n\t}" ::"r"(smem(&barrier)), "r"(parity) : "memory");
}
__device__ __forceinline__ void load(u32 target, const TensorMap* map, int x, int y, u64& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
          target), "l"(map), "r"(smem(&barrier)), "r"(x), "r"(y) : "memory");
}
__device__ __forceinline__ void commit(u64& barrier) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(smem(&barrier))
               : "memory");
}
__device__ __forceinline__ u32 two(float low, float high) {
  u32 result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}

extern "C" __global__ void __launch_bounds__(256)
    gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, u16* c, int m, int n, int k) {
  extern __shared__ __align__(1024) unsigned char stages[];
  __shared__ u64 full[kStages], empty[kStages], accum_full[2], accum_empty[2];
  __shared__ u32 tmem_address;
  const int warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; s++) init(full[s], 1), init(empty[s], 1);
    for (int s = 0; s < 2; s++) init(accum_full[s], 1), init(accum_empty[s], 128);
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  if (warp == 2) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 256;" ::"r"(smem(&tmem_address)));
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
  }
  asm volatile("tcgen05.fence::before_thread_sync;");
  __syncthreads();
  asm volatile("tcgen05.fence::after_thread_sync;");
  const u32 tmem = tmem_address;
  const int tiles_n = n / kTile, tiles = m / kTile * tiles_n, k_blocks = k / kBlockK;
  if (warp == 0) {
    if (threadIdx.x == 0) {
      int count = 0;
      for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
        for (int kb = 0; kb < k_blocks; kb++, count++) {
          const int s = count % kStages;
          const u32 place = smem(stages) + s * 2 * kOperandBytes;
          wait(empty[s], (count / kStages & 1) ^ 1);
          asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem(&full[s])),
                       "r"(2 * kOperandBytes) : "memory");
          load(place, &a, kb * kBlockK, t / tiles_n * kTile, full[s]);
          load(place + kOperandBytes, &b, kb * kBlockK, t % tiles_n * kTile, full[s]);
        }
      }
    }
  } else if (warp == 1) {
    if (threadIdx.x == 32) {
      int count = 0, it = 0;
      for (int t = blockIdx.x; t < tiles; t += gridDim.x, it++) {
        const int acc = it & 1;
        wait(accum_empty[acc], (it >> 1 & 1) ^ 1);
        asm volatile("tcgen05.fence::after_thread_sync;");
        for (int kb = 0; kb < k_blocks; kb++, count++) {
          const int s = count % kStages;
          wait(full[s], count / kStages & 1);
          asm volatile("tcgen05.fence::after_thread_sync;");
          const u32 place = smem(stages) + s * 2 * kOperandBytes;
          for (int step = 0; step < kBlockK / 16; step++) {
            const u64 da = kDescriptor | (place + step * 32) >> 4, db = kDescriptor | (place + kOperandBytes + step * 32) >> 4;
            asm volatile(
                "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %4, 0;\n\t"
                "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n\t}" ::"r"(tmem + acc * kTile),
                "l"(da), "l"(db), "r"(kInstruction), "r"(kb | step) : "memory");
          }
          commit(empty[s]);
        }
        commit(accum_full[acc]);
      }
    }
  } else if (warp >= 4) {
    int it = 0;
    for (int t = blockIdx.x; t < tiles; t += gridDim.x, it++) {
      const int acc = it & 1, row = t / tiles_n * kTile + threadIdx.x - 128;
      wait(accum_full[acc], it >> 1 & 1);
      asm volatile("tcgen05.fence::after_thread_sync;");
      u32* out = (u32*)(c + (u64)row * n + t % tiles_n * kTile);
      for (int j = 0; j < kTile; j += 16) {
        float v[16];
        asm volatile(
            "tcgen05.ld.sync.aligned.32x32b.x16.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, "
            "%15}, [%16];"
            : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]), "=f"(v[4]), "=f"(v[5]), "=f"(v[6]), "=f"(v[7]),
              "=f"(v[8]), "=f"(v[9]), "=f"(v[10]), "=f"(v[11]), "=f"(v[12]), "=f"(v[13]), "=f"(v[14]), "=f"(v[15])
            : "r"(tmem + acc * kTile + j + ((warp & 3) << 21)));
        asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
        for (int i = 0; i < 16; i += 2) out[(j + i) / 2] = two(v[i], v[i + 1]);
      }
      asm volatile("tcgen05.fence::before_thread_sync;");
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem(&accum_empty[acc])) : "memory");
    }
  }
  __syncthreads();
  if (warp == 2) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 256;" ::"r"(tmem));
}
