// As CUTLASS's: a structure of parameters with a tensor map, which the driver encodes, launched in clusters.
#include <cuda.h>
#include <cuda_runtime.h>

struct Parameters {
  int rows;
  CUtensorMap map;
  short *out;
};

__global__ void copies(const __grid_constant__ Parameters parameters) {
  __shared__ alignas(128) short tile[8][64];
  __shared__ alignas(8) unsigned long long barrier;
  auto at = [](void *there) { return static_cast<unsigned>(__cvta_generic_to_shared(there)); };
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;\n\tfence.proxy.async;" ::"r"(at(&barrier)));
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(at(&barrier)));
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
        ::"r"(at(tile)), "l"(&parameters.map), "r"(0), "r"(8 * int(blockIdx.x)), "r"(at(&barrier)) : "memory");
  }
  __syncthreads();
  asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0, 0x989680; @!p bra W; }"
               ::"r"(at(&barrier)) : "memory");
  for (int row = 0; row < 8; ++row)
    if (8 * int(blockIdx.x) + row < parameters.rows)
      parameters.out[(8 * blockIdx.x + row) * 64 + threadIdx.x] = tile[row][threadIdx.x];
}

int main() {
  constexpr int kRows = 30;
  short host[kRows * 64], *in, *out;
  for (int k = 0; k < kRows * 64; ++k) host[k] = short(k);
  Parameters parameters{kRows};
  int sms, major;
  cudaMalloc(&in, sizeof host);
  cudaMalloc(&out, sizeof host);
  cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  parameters.out = out;
  decltype(&cuTensorMapEncodeTiled) encode;
  cudaDriverEntryPointQueryResult found;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", reinterpret_cast<void **>(&encode), 12000,
                                   cudaEnableDefault, &found);
  cuuint64_t shape[] = {64, kRows}, strides[] = {128};
  cuuint32_t box[] = {64, 8}, steps[] = {1, 1};
  encode(&parameters.map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, in, shape, strides, box, steps,
         CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
         CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {2, 1, 1};
  cudaLaunchConfig_t how{};
  how.gridDim = 4, how.blockDim = 64, how.attrs = &attribute, how.numAttrs = 1;
  cudaLaunchKernelEx(&how, copies, parameters);
  for (int k = 0; k < kRows * 64; ++k)
    if (out[k] != short(k)) return 1;
  return sms != 132 || major != 9;
}
