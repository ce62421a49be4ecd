// C = A · Bᵀ in bf16 with f32 accumulation: a persistent, warp-specialized GEMM for sm_90a.
//
//   role       warps   waits on       signals
//   consume    0 to 3  full[stage]    empty[stage] (128 arrivals); wgmma, stmatrix, tensor store
//   load       4       empty[stage]   full[stage] (1 arrive + bytes)
//
// Tiles of 64 x 64, k-blocks of 64, 3 stages. Compiled to gemm_sm90.ptx by NVRTC 13.5 for sm_90a.
typedef unsigned int u32;
typedef unsigned long long u64;
struct alignas(64) TensorMap {
  u64 opaque[16];
};
constexpr int kTile = 64, kBlockK = 64, kStages = 3, kBytes = kTile * kBlockK * 2;
constexpr u64 kDescriptor = 0x4000004000010000ull;  // K-major, 128 B

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
__device__ __forceinline__ void multiply(float (&d)[32], u64 a, u64 b, int add) {
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %34, 0;\n\twgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, 0;\n\t}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"(add));
}
__device__ __forceinline__ u32 two(float low, float high) {
  u32 result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}

extern "C" __global__ void __launch_bounds__(160)
    gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const __grid_constant__ TensorMap c,
         int m, int n, int k) {
  extern __shared__ __align__(1024) unsigned char stages[];
  __shared__ u64 full[kStages], empty[kStages];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; s++) init(full[s], 1), init(empty[s], 128);
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncthreads();
  const int tiles_n = n / kTile, tiles = m / kTile * tiles_n, k_blocks = k / kBlockK;
  const u32 out = smem(stages) + kStages * 2 * kBytes;
  int count = 0;
  if (warp == 4) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (lane == 0) {
      for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
        for (int kb = 0; kb < k_blocks; kb++, count++) {
          const int s = count % kStages;
          const u32 place = smem(stages) + s * 2 * kBytes;
          wait(empty[s], (count / kStages & 1) ^ 1);
          asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem(&full[s])), "r"(2 * kBytes)
                       : "memory");
          load(place, &a, kb * kBlockK, t / tiles_n * kTile, full[s]);
          load(place + kBytes, &b, kb * kBlockK, t % tiles_n * kTile, full[s]);
        }
      }
    }
  } else {
    for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
      float d[32];
      for (int kb = 0; kb < k_blocks; kb++, count++) {
        const int s = count % kStages;
        const u32 place = smem(stages) + s * 2 * kBytes;
        wait(full[s], count / kStages & 1);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int step = 0; step < kBlockK / 16; step++)
          multiply(d, kDescriptor | (place + step * 32) >> 4, kDescriptor | (place + kBytes + step * 32) >> 4, kb | step);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem(&empty[s])) : "memory");
      }
      if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
      asm volatile("bar.sync 1, 128;" ::: "memory");
      for (int j = 0; j < 4; j++) {  // 16 columns: two 8 x 8 matrices above two others
        const u32 row = out + (warp * 16 + lane % 16) * kTile * 2 + j * 32 + lane / 16 * 16;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(row),
                     "r"(two(d[8 * j], d[8 * j + 1])), "r"(two(d[8 * j + 2], d[8 * j + 3])),
                     "r"(two(d[8 * j + 4], d[8 * j + 5])), "r"(two(d[8 * j + 6], d[8 * j + 7])) : "memory");
      }
      asm volatile("fence.proxy.async.shared::cta;");
      asm volatile("bar.sync 1, 128;" ::: "memory");
      if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&c), "r"(out),
                     "r"(t % tiles_n * kTile), "r"(t / tiles_n * kTile) : "memory");
        asm volatile("cp.async.bulk.commit_group;");
      }
    }
    if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
