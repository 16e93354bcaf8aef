// rocBLAS's strided batched product by plain loops: column-major, D = alpha * op(A) * op(B) + beta * C.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#define STANDIN_API extern "C" __attribute__((visibility("default")))

namespace {
enum Status { SUCCESS = 0, INVALID_HANDLE = 1, NOT_IMPLEMENTED = 2, INVALID_POINTER = 3, INVALID_SIZE = 4,
              MEMORY_ERROR = 5, SIZE_QUERY_MISMATCH = 8, SIZE_INCREASED = 9, SIZE_UNCHANGED = 10,
              INVALID_VALUE = 11 };
enum Operation { NONE = 111, TRANSPOSE = 112, CONJUGATE_TRANSPOSE = 113 };
enum Type { F16 = 150, F32 = 151, F64 = 152, I8 = 160, I32 = 162, BF16 = 168 };

struct Handle {
  void *stream = nullptr;
  int math_mode = 0, atomics_mode = 1, pointer_mode = 0;
  void *workspace = nullptr;
  size_t workspace_size = 0;
  bool is_query = false;
  size_t queried = 0;
};

std::atomic<long> handles{0};

float from_bfloat16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

uint16_t to_bfloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (value != value) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <typename Sum>
Sum load(const void *array, int type, int64_t index) {
  switch (type) {
    case F16: return static_cast<Sum>(static_cast<const _Float16 *>(array)[index]);
    case F32: return static_cast<Sum>(static_cast<const float *>(array)[index]);
    case F64: return static_cast<Sum>(static_cast<const double *>(array)[index]);
    case I8: return static_cast<Sum>(static_cast<const int8_t *>(array)[index]);
    case I32: return static_cast<Sum>(static_cast<const int32_t *>(array)[index]);
    default: return static_cast<Sum>(from_bfloat16(static_cast<const uint16_t *>(array)[index]));
  }
}

template <typename Sum>
void store(void *array, int type, int64_t index, Sum value) {
  switch (type) {
    case F16: static_cast<_Float16 *>(array)[index] = static_cast<_Float16>(value); break;
    case F32: static_cast<float *>(array)[index] = static_cast<float>(value); break;
    case F64: static_cast<double *>(array)[index] = static_cast<double>(value); break;
    case I32: static_cast<int32_t *>(array)[index] = static_cast<int32_t>(value); break;
    default: static_cast<uint16_t *>(array)[index] = to_bfloat16(static_cast<float>(value)); break;
  }
}

struct Matrix {
  const void *data;
  int type;
  int64_t leading, stride;
  bool transposed;
};

// op(X) as numbers, row by row or column by column, so that the sums run over neighbours.
template <typename Sum>
std::vector<Sum> unpacked(const Matrix &matrix, int64_t batch, int64_t outer, int64_t inner, bool inner_is_row) {
  std::vector<Sum> numbers(outer * inner);
  const bool strided = matrix.transposed != inner_is_row;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      const int64_t index = strided ? o * matrix.leading + i : i * matrix.leading + o;
      numbers[o * inner + i] = load<Sum>(matrix.data, matrix.type, batch * matrix.stride + index);
    }
  return numbers;
}

template <typename Sum>
void multiply(int64_t m, int64_t n, int64_t k, Sum alpha, const Matrix &a, const Matrix &b, Sum beta, const Matrix &c,
              void *d, const Matrix &result, int64_t batches) {
  for (int64_t batch = 0; batch < batches; ++batch) {
    std::vector<Sum> left, right;
    if (alpha != 0) {
      left = unpacked<Sum>(a, batch, m, k, false);
      right = unpacked<Sum>(b, batch, n, k, true);
    }
    for (int64_t column = 0; column < n; ++column)
      for (int64_t row = 0; row < m; ++row) {
        Sum sum = 0;
        if (alpha != 0)
          for (int64_t i = 0; i < k; ++i) sum += left[row * k + i] * right[column * k + i];
        Sum value = alpha * sum;
        // A beta of zero never reads C, which may hold NaN.
        if (beta != 0) value += beta * load<Sum>(c.data, c.type, batch * c.stride + column * c.leading + row);
        store<Sum>(d, result.type, batch * result.stride + column * result.leading + row, value);
      }
  }
}

bool is_supported(int a, int b, int c, int d, int compute) {
  if (a != b || c != d) return false;
  if (a == I8) return c == I32 && compute == I32;
  if (a == F64) return c == F64 && compute == F64;
  return compute == F32 && (a == F32 ? c == F32 : (a == F16 || a == BF16) && (c == a || c == F32));
}
}  // namespace

STANDIN_API int rocblas_create_handle(Handle **handle) {
  if (!handle) return INVALID_POINTER;
  *handle = new Handle;
  ++handles;
  return SUCCESS;
}

STANDIN_API int rocblas_destroy_handle(Handle *handle) {
  if (!handle) return INVALID_HANDLE;
  delete handle;
  --handles;
  return SUCCESS;
}

STANDIN_API int rocblas_set_stream(Handle *handle, void *stream) {
  if (!handle) return INVALID_HANDLE;
  handle->stream = stream;
  return SUCCESS;
}

STANDIN_API int rocblas_get_stream(Handle *handle, void **stream) {
  if (!handle) return INVALID_HANDLE;
  *stream = handle->stream;
  return SUCCESS;
}

STANDIN_API int rocblas_set_workspace(Handle *handle, void *memory, size_t size) {
  if (!handle) return INVALID_HANDLE;
  handle->workspace = memory;
  handle->workspace_size = size;
  return SUCCESS;
}

STANDIN_API int rocblas_start_device_memory_size_query(Handle *handle) {
  if (!handle) return INVALID_HANDLE;
  if (handle->is_query) return SIZE_QUERY_MISMATCH;
  handle->is_query = true;
  handle->queried = 0;
  return SUCCESS;
}

STANDIN_API int rocblas_stop_device_memory_size_query(Handle *handle, size_t *size) {
  if (!handle) return INVALID_HANDLE;
  if (!handle->is_query) return SIZE_QUERY_MISMATCH;
  if (!size) return INVALID_POINTER;
  handle->is_query = false;
  *size = handle->queried;
  return SUCCESS;
}

STANDIN_API int rocblas_set_math_mode(Handle *handle, int mode) {
  if (!handle) return INVALID_HANDLE;
  if (mode != 0 && mode != 1) return INVALID_VALUE;
  handle->math_mode = mode;
  return SUCCESS;
}

STANDIN_API int rocblas_set_atomics_mode(Handle *handle, int mode) {
  if (!handle) return INVALID_HANDLE;
  if (mode != 0 && mode != 1) return INVALID_VALUE;
  handle->atomics_mode = mode;
  return SUCCESS;
}

STANDIN_API int rocblas_set_pointer_mode(Handle *handle, int mode) {
  if (!handle) return INVALID_HANDLE;
  if (mode != 0) return NOT_IMPLEMENTED;
  handle->pointer_mode = mode;
  return SUCCESS;
}

STANDIN_API void rocblas_initialize() {}

STANDIN_API int rocblas_get_version_string_size(size_t *size) {
  *size = sizeof "5.0.0";
  return SUCCESS;
}

STANDIN_API int rocblas_get_version_string(char *text, size_t size) {
  if (size < sizeof "5.0.0") return INVALID_SIZE;
  std::snprintf(text, size, "5.0.0");
  return SUCCESS;
}

STANDIN_API const char *rocblas_status_to_string(int status) {
  switch (status) {
    case SUCCESS: return "rocblas_status_success";
    case INVALID_HANDLE: return "rocblas_status_invalid_handle";
    case NOT_IMPLEMENTED: return "rocblas_status_not_implemented";
    case INVALID_POINTER: return "rocblas_status_invalid_pointer";
    case INVALID_SIZE: return "rocblas_status_invalid_size";
    case MEMORY_ERROR: return "rocblas_status_memory_error";
    case SIZE_QUERY_MISMATCH: return "rocblas_status_size_query_mismatch";
    case SIZE_INCREASED: return "rocblas_status_size_increased";
    case SIZE_UNCHANGED: return "rocblas_status_size_unchanged";
    case INVALID_VALUE: return "rocblas_status_invalid_value";
    default: return "rocblas_status_internal_error";
  }
}

STANDIN_API int rocblas_gemm_strided_batched_ex(Handle *handle, int operation_a, int operation_b, int m, int n, int k,
                                                const void *alpha, const void *a, int a_type, int lda, int64_t stride_a,
                                                const void *b, int b_type, int ldb, int64_t stride_b, const void *beta,
                                                const void *c, int c_type, int ldc, int64_t stride_c, void *d,
                                                int d_type, int ldd, int64_t stride_d, int batches, int compute_type,
                                                int algorithm, int solution, unsigned flags) {
  (void)algorithm, (void)solution, (void)flags;
  if (!handle) return INVALID_HANDLE;
  const auto is_operation = [](int operation) { return operation >= NONE && operation <= CONJUGATE_TRANSPOSE; };
  if (!is_operation(operation_a) || !is_operation(operation_b)) return INVALID_VALUE;
  const bool turn_a = operation_a != NONE, turn_b = operation_b != NONE;
  if (m < 0 || n < 0 || k < 0 || batches < 0) return INVALID_SIZE;
  if (lda < (turn_a ? k : m) || ldb < (turn_b ? n : k) || ldc < m || ldd < m) return INVALID_SIZE;
  if (lda < 1 || ldb < 1 || ldc < 1 || ldd < 1) return INVALID_SIZE;
  // As if the sum was split in two. A workspace that the caller gave is used, or too small.
  const size_t needed = size_t(8) * m * n * batches;
  if (handle->is_query) {
    if (needed <= handle->queried) return SIZE_UNCHANGED;
    handle->queried = needed;
    return SIZE_INCREASED;
  }
  if (m == 0 || n == 0 || batches == 0) return SUCCESS;
  if (!alpha || !beta || !c || !d || (k && (!a || !b))) return INVALID_POINTER;
  if (!is_supported(a_type, b_type, c_type, d_type, compute_type)) return NOT_IMPLEMENTED;
  if (handle->workspace && needed > handle->workspace_size) return MEMORY_ERROR;
  if (handle->workspace) std::memset(handle->workspace, 0xff, needed);
  const Matrix left{a, a_type, lda, stride_a, turn_a}, right{b, b_type, ldb, stride_b, turn_b};
  const Matrix addend{c, c_type, ldc, stride_c, false}, result{d, d_type, ldd, stride_d, false};
  const auto with = [&](auto zero) {
    using Sum = decltype(zero);
    multiply<Sum>(m, n, k, *static_cast<const Sum *>(alpha), left, right, *static_cast<const Sum *>(beta), addend, d,
                  result, batches);
  };
  if (compute_type == I32) with(int32_t{});
  else if (compute_type == F64) with(double{});
  else with(float{});
  return SUCCESS;
}

// For tests: how many handles live now.
STANDIN_API long standinHandles() { return handles; }
