// rocBLAS's strided batched product over cuBLAS.
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "driver.h"

namespace {
struct Cublas {
  void *library = open_first((const char *const[]){"libcublas.so.13", "libcublas.so.12", "libcublas.so", nullptr});
  template <typename... Arguments>
  int operator()(const char *name, Arguments... arguments) const {
    void *function = library ? dlsym(library, name) : nullptr;
    if (!function) return 1;  // not initialized
    return reinterpret_cast<int (*)(Arguments...)>(function)(arguments...);
  }
};

const Cublas &cublas() {
  static const Cublas opened;
  return opened;
}

bool is_query = false;  // one device, one thread

int status_of(int result) { return result == 0 ? 0 : 6; }  // internal error

// Numbers of types: rocBLAS's to CUDA's. -1 where the product has none of them.
int type_of(int type) {
  switch (type) {
    case 150: return 2;   // float16
    case 151: return 0;   // float32
    case 160: return 3;   // int8
    case 162: return 10;  // int32
    case 168: return 14;  // bfloat16
    default: return -1;
  }
}
}  // namespace

STANDIN_API int rocblas_create_handle(void **handle) { return status_of(cublas()("cublasCreate_v2", handle)); }
STANDIN_API int rocblas_destroy_handle(void *handle) { return status_of(cublas()("cublasDestroy_v2", handle)); }
STANDIN_API int rocblas_set_stream(void *handle, void *stream) {
  return status_of(cublas()("cublasSetStream_v2", handle, stream));
}
STANDIN_API int rocblas_set_workspace(void *handle, void *memory, size_t size) {
  return status_of(cublas()("cublasSetWorkspace_v2", handle, memory, size));
}
// cuBLAS does not tell; it keeps a workspace of its own.
STANDIN_API int rocblas_start_device_memory_size_query(void *) {
  is_query = true;
  return 0;
}
STANDIN_API int rocblas_stop_device_memory_size_query(void *, size_t *size) {
  is_query = false;
  *size = 0;
  return 0;
}
// cuBLAS multiplies float32 in full precision unless told otherwise, and has no atomics in this product.
STANDIN_API int rocblas_set_math_mode(void *, int) { return 0; }
STANDIN_API int rocblas_set_atomics_mode(void *, int) { return 0; }

STANDIN_API int rocblas_get_version_string_size(size_t *size) {
  *size = 32;
  return 0;
}
STANDIN_API int rocblas_get_version_string(char *text, size_t size) {
  std::snprintf(text, size, "cublas");
  return 0;
}
STANDIN_API const char *rocblas_status_to_string(int status) {
  return status == 0 ? "rocblas_status_success" : "rocblas_status_internal_error";
}

STANDIN_API int rocblas_gemm_strided_batched_ex(void *handle, int operation_a, int operation_b, int m, int n, int k,
                                                const void *alpha, const void *a, int a_type, int lda, int64_t stride_a,
                                                const void *b, int b_type, int ldb, int64_t stride_b, const void *beta,
                                                const void *c, int c_type, int ldc, int64_t stride_c, void *d,
                                                int d_type, int ldd, int64_t stride_d, int batches, int compute_type,
                                                int, int, unsigned) {
  if (is_query) return 10;  // size unchanged
  // cuBLAS adds in place.
  if (c != d || c_type != d_type || ldc != ldd || stride_c != stride_d) return 2;  // not implemented
  const int compute = compute_type == 162 ? 72 : 68;                              // CUBLAS_COMPUTE_32I, _32F
  return status_of(cublas()("cublasGemmStridedBatchedEx", handle, operation_a - 111, operation_b - 111, m, n, k, alpha,
                            a, type_of(a_type), lda, static_cast<long long>(stride_a), b, type_of(b_type), ldb,
                            static_cast<long long>(stride_b), beta, d, type_of(d_type), ldd,
                            static_cast<long long>(stride_d), batches, compute, -1));
}
