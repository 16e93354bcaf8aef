// NVIDIA's units as C++ for a CPU, in place of convfind_nvidia.h: a thread is a work-item, and waits where one would.
//
// Copies and products are done when they are asked for. Local memory is `arena`, whose addresses count from 0. The units cut
// off what they add up, which is not emulated.
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#define ulong uint64_t
#define CF_KERNEL
#define CF_GLOBAL
#define CF_LOCAL_PTR
#define CF_INLINED static inline
#define CF_UNROLL
#define CF_WORK_GROUP_SIZE(x, y, z)
#define CF_LONG long long
#define CF_UINT uint32_t
#define CF_JOIN(left, right) CF_JOIN_EXPANDED(left, right)
#define CF_JOIN_EXPANDED(left, right) left##right
#define CF_TYPE(dtype) CF_JOIN(CF_TYPE_, dtype)
#define CF_TYPE_FLOAT32 float
#define CF_TYPE_FLOAT16 uint16_t
#define CF_TYPE_BFLOAT16 uint16_t
#define CF_LOAD(dtype, pointer, index) CF_JOIN(CF_LOAD_, dtype)(pointer, index)
#define CF_LOAD_FLOAT32(pointer, index) ((pointer)[index])
#define CF_FMA(a, b, c) std::fma(a, b, c)
#define fmax(a, b) std::fmax(a, b)
#define CF_LOCAL_ID(axis) local_id
#define CF_GROUP_ID(axis) group_id
#define CF_SHARED(pointer) ((CF_UINT)((unsigned char *)(pointer) - arena))
#define CF_PIECE(row, piece) ((row) * 128 + (((piece) ^ ((row) & 7)) << 4))

alignas(1024) static unsigned char arena[256 * 1024];
static thread_local int local_id;
static int group_id, all_items;

#define CF_AS_FLOAT(bits) float_of(bits)
#define CF_AS_UINT(number) bits_of(number)
static float float_of(const uint32_t bits) {
  float number;
  std::memcpy(&number, &bits, 4);
  return number;
}
static uint32_t bits_of(const float number) {
  uint32_t bits;
  std::memcpy(&bits, &number, 4);
  return bits;
}
#if IS_BFLOAT16
static float wide(const uint16_t bits) { return CF_AS_FLOAT((uint32_t)bits << 16); }
static uint16_t narrow(const float x) {
  const uint32_t bits = bits_of(x);
  return std::isnan(x) ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
#else
static float wide(const uint16_t bits) {
  _Float16 number;
  std::memcpy(&number, &bits, 2);
  return (float)number;
}
static uint16_t narrow(const float x) {
  const _Float16 number = (_Float16)x;
  uint16_t bits;
  std::memcpy(&bits, &number, 2);
  return bits;
}
#endif

// Barriers of the units: `items` of a number meet, or pass. Those from 100 on are of waves, from 200 on of four each.
struct Meeting {
  std::mutex own;
  std::condition_variable changed;
  int there = 0, round = 0;
};
static Meeting meetings[256];
static void come(const int number, const int items, const bool waits) {
  Meeting &meeting = meetings[number];
  std::unique_lock<std::mutex> lock(meeting.own);
  const int round = meeting.round;
  if (++meeting.there == items) {
    meeting.there = 0;
    ++meeting.round;
    meeting.changed.notify_all();
  } else if (waits) {
    meeting.changed.wait(lock, [&] { return meeting.round != round; });
  }
}
#define MEET(barrier, items) come(barrier, items, true)
#define PASS(barrier, items) come(barrier, items, false)
#define CF_BARRIER() come(0, all_items, true)
#define CF_WAVE_BARRIER() come(100 + local_id / 32, 32, true)
static void four_waves() { come(200 + local_id / 128, 128, true); }

// Barriers in local memory, from its last 1024 bytes on.
struct Expected {
  std::mutex own;
  std::condition_variable changed;
  int items = 0, left = 0, rounds = 0;
};
static Expected expected[128];
static void expect(const uint32_t at, const int items) {
  Expected &one = expected[at / 8 % 128];
  one.items = one.left = items;
  one.rounds = 0;
}
static void arrive(const uint32_t at) {
  Expected &one = expected[at / 8 % 128];
  std::unique_lock<std::mutex> lock(one.own);
  if (--one.left == 0) {
    one.left = one.items;
    ++one.rounds;
    one.changed.notify_all();
  }
}
#define announce arrive
static void await(const uint32_t at, const uint32_t parity) {
  Expected &one = expected[at / 8 % 128];
  std::unique_lock<std::mutex> lock(one.own);
  one.changed.wait(lock, [&] { return (uint32_t)(one.rounds - 1 & 1) == parity; });
}

static void cf_copy_16(const uint32_t to, const void *from, const int size) {
  std::memset(arena + to, 0, 16);
  std::memcpy(arena + to, from, size);
}
#define CF_COPIES_COMMIT()
#define CF_COPIES_WAIT(count)
#define CF_LOAD_SHARED_4(to, address) std::memcpy(to, arena + (address), 16)
#define CF_STORE_4(pointer, from) std::memcpy(pointer, from, 16)
static uint32_t pair(const float first, const float second) { return narrow(first) | (uint32_t)narrow(second) << 16; }
#define CF_PAIR(dtype, first, second) pair(first, second)
#define CF_STORE_SHARED_PAIR(dtype, address, first, second) CF_JOIN(store_pair_, dtype)(address, first, second)
static void store_pair_FLOAT32(const uint32_t address, const float first, const float second) {
  std::memcpy(arena + address, &first, 4);
  std::memcpy(arena + address + 4, &second, 4);
}
static void store_pair_FLOAT16(const uint32_t address, const float first, const float second) {
  const uint32_t both = pair(first, second);
  std::memcpy(arena + address, &both, 4);
}
#define store_pair_BFLOAT16 store_pair_FLOAT16

static float exp2_of(const float x) { return std::exp2(x); }
static float given[1024];
static float across(const float x, const int bit) {
  given[local_id] = x;
  CF_WAVE_BARRIER();
  const float y = given[local_id ^ bit];
  CF_WAVE_BARRIER();
  return y;
}

// What lanes of a wave give each other.
static uint32_t words[32][32][6];
static void load_matrices(uint32_t *to, const uint32_t address, const bool is_turned) {
  uint32_t(*const wave)[6] = words[local_id / 32];
  const int lane = local_id % 32;
  wave[lane][0] = address;
  CF_WAVE_BARRIER();
  for (int j = 0; j < 4; ++j) {
    if (is_turned) {
      uint16_t halves[2];
      for (int i = 0; i < 2; ++i)
        std::memcpy(&halves[i], arena + wave[8 * j + lane % 4 * 2 + i][0] + lane / 4 * 2, 2);
      to[j] = halves[0] | (uint32_t)halves[1] << 16;
    } else {
      std::memcpy(&to[j], arena + wave[8 * j + lane / 4][0] + lane % 4 * 4, 4);
    }
  }
  CF_WAVE_BARRIER();
}
#define CF_LOAD_MATRICES(to, address) load_matrices(to, address, false)
#define CF_LOAD_TRANSPOSED(to, address) load_matrices(to, address, true)

#define CF_MMA(dtype, sums, a, b) multiply_fragments(sums, a, b, [](uint32_t x, uint32_t y) { return CF_JOIN(product_, dtype)(x, y); })
static float product_FLOAT32(const uint32_t x, const uint32_t y) { return float_of(x & ~0x1fffu) * float_of(y & ~0x1fffu); }
static float product_FLOAT16(const uint32_t x, const uint32_t y) {
  return wide((uint16_t)x) * wide((uint16_t)y) + wide((uint16_t)(x >> 16)) * wide((uint16_t)(y >> 16));
}
#define product_BFLOAT16 product_FLOAT16
template <typename Product>
static void multiply_fragments(float *sums, const uint32_t *a, const uint32_t *b, Product product) {
  uint32_t(*const wave)[6] = words[local_id / 32];
  const int lane = local_id % 32;
  for (int i = 0; i < 6; ++i) wave[lane][i] = i < 4 ? a[i] : b[i - 4];
  CF_WAVE_BARRIER();
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4, column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 8; ++k)
      sums[i] += product(wave[4 * row + k % 4][i / 2 + k / 4 * 2], wave[4 * column + k % 4][4 + k / 4]);
  }
  CF_WAVE_BARRIER();
}

// Products of 64 rows, 16 elements along the sum. A matrix in local memory is its first address, the bytes from panel to panel
// (of one whose rows lie along the sum), and those from eight rows to the next.
#define CF_WGMMA_FENCE()
#define CF_WGMMA_COMMIT()
#define CF_WGMMA_WAIT(count)
#define CF_MATRIX(address) ((ulong)(((address) & 0x3ffffu) >> 4) | (ulong)1 << 16 | (ulong)64 << 32 | (ulong)1 << 62)
static float element(const ulong matrix, const int row, const int column) {
  uint32_t at = (uint32_t)(matrix & 0x3fff) << 4;
  at += column / 64 * ((uint32_t)(matrix >> 16 & 0x3fff) << 4) + row / 8 * ((uint32_t)(matrix >> 32 & 0x3fff) << 4);
  at += row % 8 * 128 + column % 64 * 2;
  at ^= (at >> 7 & 7) << 4;
  uint16_t bits;
  std::memcpy(&bits, arena + at, 2);
  return wide(bits);
}
static float left_factors[8][64][16];
template <typename Right>
static void multiply(float *sums, const int columns, const bool more, Right right) {
  const int lane = local_id % 32, wave = local_id % 128 / 32;
  for (int i = 0; i < columns / 2; ++i) {
    const int row = 16 * wave + lane / 4 + i % 4 / 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    float sum = more ? sums[i] : 0.0f;
    for (int k = 0; k < 16; ++k) sum += left_factors[local_id / 128][row][k] * right(k, column);
    sums[i] = sum;
  }
  four_waves();
}
static void multiply_keys(float *sums, const int columns, const ulong a, const ulong b, const bool more) {
  const int own = local_id % 128;
  for (int i = 0; i < 8; ++i) left_factors[local_id / 128][own / 2][own % 2 * 8 + i] = element(a, own / 2, own % 2 * 8 + i);
  four_waves();
  multiply(sums, columns, more, [b](int k, int column) { return element(b, column, k); });
}
static void multiply_values(float *sums, const int columns, const uint32_t *a, const ulong b) {
  const int lane = local_id % 32, wave = local_id % 128 / 32;
  for (int i = 0; i < 8; ++i) {
    const int row = 16 * wave + lane / 4 + i / 2 % 2 * 8, k = i / 4 * 8 + lane % 4 * 2 + i % 2;
    left_factors[local_id / 128][row][k] = wide((uint16_t)(a[i / 2] >> i % 2 * 16));
  }
  four_waves();
  multiply(sums, columns, true, [b](int k, int column) { return element(b, k, column); });
}
#define CF_WGMMA(columns, dtype, sums, a, b, more) multiply_keys(sums, columns, a, b, more)
#define WGMMA_TURNED(columns, dtype, sums, a, b) multiply_values(sums, columns, a, b)

template <typename... Arguments>
static void launch(void (*kernel)(Arguments...), const int groups, const int items, Arguments... arguments) {
  all_items = items;
  for (group_id = 0; group_id < groups; ++group_id) {
    for (Meeting &one : meetings) one.there = 0;  // those that nobody waits for may be left
    std::memset(arena, 0xff, sizeof arena);  // NaN
    std::vector<std::thread> threads;
    for (int i = 0; i < items; ++i)
      threads.emplace_back([=] {
        local_id = i;
        kernel(arguments...);
      });
    for (std::thread &one : threads) one.join();
  }
}
