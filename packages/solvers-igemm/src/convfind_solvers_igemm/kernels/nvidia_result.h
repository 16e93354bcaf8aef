// How a tile of sums becomes elements of the result, or of a part of it.
#ifndef WIDE
#define WIDE 0  // 1: channels last, whole pieces of them, TILE_N 64 or more: results are written 16 bytes at a time
#endif
#include "convfind_nvidia_tile.h"
#include "convfind_rough_activation.h"
#include "convfind_epilogue.h"

#ifndef PARTIAL
#define PARTIAL 0  // 1: the sum is split, and each part of it writes floats; igemm_nvidia_add_parts adds them up
#endif
#if PARTIAL
#define RESULT_DTYPE FLOAT32
#else
#define RESULT_DTYPE DTYPE
#endif
#define RESULT_ELEMENT CF_TYPE(RESULT_DTYPE)
#define RESULT_BYTES (PARTIAL ? 4 : ELEMENT_BYTES)
#define PER_RESULT_PIECE (16 / RESULT_BYTES)

#define RESULT_ROW (TILE_N * RESULT_BYTES)

CF_INLINED void store_one(CF_GLOBAL RESULT_ELEMENT *to, const float sum, const int channel, const Epilogue epilogue) {
#if PARTIAL
  *to = sum;
#else
  CF_STORE_RESULT(RESULT_DTYPE, to, channel, sum, epilogue);
#endif
}

// Whether results are computed before any of their row is written. A z is read by the wave that writes its row, and before,
// so it may lie in the result.
#ifdef CF_Z
#define WRITES_ROWS(epilogue) 1
#else
#define WRITES_ROWS(epilogue) (PARTIAL || !CF_READS_RESULT(epilogue))
#endif

// Whether results are computed some at a time before they are stored, as each reads a bias or a z.
#if (defined(CF_BIAS) || defined(CF_Z)) && !PARTIAL
#define READS_AHEAD 1
#else
#define READS_AHEAD 0
#endif

#if READS_AHEAD
// An item's pairs of columns of a row, the first of them at `to`, where WRITES_ROWS is 1. Of a column beyond the result
// what the last one needs is read.
#define PAIRS_AHEAD (TILE_N / 8 < 4 ? TILE_N / 8 : 4)
CF_INLINED void store_columns(CF_GLOBAL RESULT_ELEMENT *to, const float *sums, const int first, const int columns,
                              const CF_LONG step, const Epilogue epilogue) {
  CF_UNROLL for (int j = 0; j < TILE_N / 8; j += PAIRS_AHEAD) {
    CF_NUMBER results[2 * PAIRS_AHEAD];
    CF_UNROLL for (int i = 0; i < 2 * PAIRS_AHEAD; ++i) {
      const int own = 8 * (j + i / 2) + i % 2, there = min(own, columns - 1 - first);
      results[i] = CF_RESULT(DTYPE, to + there * step, first + there, sums[4 * (j + i / 2) + i % 2], epilogue);
    }
    CF_UNROLL for (int i = 0; i < 2 * PAIRS_AHEAD; ++i) {
      const int own = 8 * (j + i / 2) + i % 2;
      if (first + own < columns) CF_STORE(DTYPE, to + own * step, 0, results[i]);
    }
  }
}
#endif

#if WIDE
// A wave's 16 rows of the tile as elements, whose pieces are spread over the banks.
#define RESULT_PIECE(row, piece) \
  ((row) * RESULT_ROW + (((piece) ^ (RESULT_BYTES == 2 ? (row) & 7 : ((row) & 3) * 2)) << 4))

// Whether a z of its own comes to where its results will lie, before these are computed there: each wave fetches its rows.
#if (defined(CF_Z) || defined(CF_Z_LAST)) && !PARTIAL
#define FETCHES_Z 1
#ifdef CF_Z
#define Z_OF(to, epilogue) CF_Z_OF(to, epilogue)
#else
#define Z_OF(to, epilogue) CF_Z_LAST_OF(to, epilogue)
#endif

CF_INLINED void fetch_z(const CF_UINT tile, CF_GLOBAL const RESULT_ELEMENT *z, CF_LOCAL_PTR const CF_LONG *result_at,
                        const int item, const int columns) {
  const int first = item / 32 * 16, lane = item % 32;
  CF_UNROLL for (int i = 0; i < RESULT_ROW / 32; ++i) {
    const int number = i * 32 + lane, row = first + number / (RESULT_ROW / 16), piece = number % (RESULT_ROW / 16);
    const CF_LONG at = result_at[row];
    const int is_there = at >= 0 && piece * PER_RESULT_PIECE < columns;
    cf_copy_16(tile + RESULT_PIECE(row, piece), z + (is_there ? at + piece * PER_RESULT_PIECE : 0), is_there ? 16 : 0);
  }
  CF_COPIES_COMMIT();
}
CF_INLINED void await_z(void) {
  CF_COPIES_WAIT(0);
  CF_WAVE_BARRIER();
}
#else
#define FETCHES_Z 0
#endif

// Whether the biases of a tile's columns lie in local memory, as floats: read while the first steps are fetched.
#if defined(CF_BIAS) && !PARTIAL
#define KEEPS_BIAS 1
#define OWN_BIASES ((TILE_N + THREADS - 1) / THREADS)  // that an item reads
CF_INLINED void read_biases(float own[OWN_BIASES], const int item, const int columns, const Epilogue epilogue) {
  CF_UNROLL for (int i = 0; i < OWN_BIASES; ++i)
    own[i] = CF_BIAS_OF(epilogue, min(item + i * THREADS, columns - 1));
}
CF_INLINED void keep_biases(CF_LOCAL_PTR float *bias_at, const float own[OWN_BIASES], const int item) {
  CF_UNROLL for (int i = 0; i < OWN_BIASES; ++i) {
    if (item + i * THREADS < TILE_N) bias_at[item + i * THREADS] = own[i];
  }
}
#else
#define KEEPS_BIAS 0
#endif

#define PAIRS_AT_A_TIME (TILE_N > 192 ? 2 : 4)  // sums take half of TILE_N registers

// What lies beyond the result becomes anything. `biases` is read where KEEPS_BIAS is 1.
CF_INLINED void put_sums(const CF_UINT tile, const float sums[SUMS], const CF_UINT biases, const int item,
                         const Epilogue epilogue) {
  CF_UNROLL for (int j = 0; j < TILE_N / 8; j += PAIRS_AT_A_TIME) {
    float results[2][PAIRS_AT_A_TIME][2];
    CF_UINT to[2][PAIRS_AT_A_TIME];
    CF_UNROLL for (int k = 0; k < PAIRS_AT_A_TIME; ++k) {
      const int column = 8 * (j + k) + OWN_COLUMN(item), byte = column * RESULT_BYTES;
      CF_UNROLL for (int upper = 0; upper < 2; ++upper) {
        const int row = OWN_ROW(item) + 8 * upper;
        to[upper][k] = tile + RESULT_PIECE(row, byte / 16) + byte % 16;
#if FETCHES_Z
        CF_LOAD_SHARED_PAIR(RESULT_DTYPE, results[upper][k], to[upper][k]);
#endif
      }
    }
    CF_UNROLL for (int k = 0; k < PAIRS_AT_A_TIME; ++k) {
      float bias[2] = {0, 0};
#if KEEPS_BIAS
      CF_LOAD_SHARED_PAIR(FLOAT32, bias, biases + 4 * (8 * (j + k) + OWN_COLUMN(item)));
#endif
      CF_UNROLL for (int i = 0; i < 2; ++i) {
        CF_UNROLL for (int upper = 0; upper < 2; ++upper) {
          const float sum = sums[4 * (j + k) + 2 * upper + i];
#if PARTIAL
          results[upper][k][i] = sum;
#else
          const float value = CF_BIASED_BY(sum, bias[i], epilogue);
          results[upper][k][i] = CF_FINISHED_WITH(value, results[upper][k][i], epilogue);
#endif
        }
      }
    }
    CF_UNROLL for (int k = 0; k < PAIRS_AT_A_TIME; ++k) {
      CF_UNROLL for (int upper = 0; upper < 2; ++upper)
        CF_STORE_SHARED_PAIR(RESULT_DTYPE, to[upper][k], results[upper][k][0], results[upper][k][1]);
    }
  }
}

// Four pieces at a time are read before they are stored.
CF_INLINED void store_rows(CF_GLOBAL RESULT_ELEMENT *result, const CF_UINT tile, CF_LOCAL_PTR const CF_LONG *result_at,
                           const int item, const int columns) {
  const int first = item / 32 * 16, lane = item % 32;
  CF_UNROLL for (int i = 0; i < RESULT_ROW / 32; i += 4) {
    CF_UINT bits[4][4];
    CF_LONG at[4];
    CF_UNROLL for (int k = 0; k < 4; ++k) {
      const int number = (i + k) * 32 + lane, row = first + number / (RESULT_ROW / 16);
      CF_LOAD_SHARED_4(bits[k], tile + RESULT_PIECE(row, number % (RESULT_ROW / 16)));
      at[k] = result_at[row];
    }
    CF_UNROLL for (int k = 0; k < 4; ++k) {
      const int column = ((i + k) * 32 + lane) % (RESULT_ROW / 16) * PER_RESULT_PIECE;
      if (at[k] >= 0 && column < columns) CF_STORE_4(result + (at[k] + column), bits[k]);
    }
  }
}
#endif
