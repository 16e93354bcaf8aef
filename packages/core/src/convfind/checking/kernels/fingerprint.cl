// A fingerprint of memory: the sum of its words, each times an odd number that follows from its place and a seed.
// Every work-group adds up a part; see convfind.checking.fingerprints.
//
// ITEMS: work-items of a group, a power of 2.
#include "convfind_kernel.h"

typedef unsigned CF_LONG Number;

// The mixing of SplitMix64 (Steele, Lea, Flood 2014).
CF_INLINE Number multiplier(Number place, Number seed) {
  Number mixed = place * 0x9E3779B97F4A7C15 + seed;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
  return (mixed ^ (mixed >> 31)) | 1;
}

CF_KERNEL CF_WORK_GROUP_SIZE(ITEMS, 1, 1) void fingerprint(
    CF_GLOBAL const CF_UINT *memory, CF_GLOBAL Number *sums, const CF_LONG words, const int rest, const CF_LONG seed) {
  CF_LOCAL Number parts[ITEMS];
  const int item = CF_LOCAL_ID(0);
  const CF_LONG first = (CF_LONG)CF_GROUP_ID(0) * ITEMS + item, step = CF_GLOBAL_SIZE(0);
  Number sum = 0;
  for (CF_LONG at = first; at < words; at += step) sum += multiplier(at, seed) * memory[at];
  if (first < rest)  // bytes that fill no word
    sum += multiplier(words + first, seed) * ((CF_GLOBAL const unsigned char *)(memory + words))[first];
  parts[item] = sum;
  CF_BARRIER();
  for (int others = ITEMS / 2; others > 0; others /= 2) {
    if (item < others) parts[item] += parts[item + others];
    CF_BARRIER();
  }
  if (item == 0) sums[CF_GROUP_ID(0)] = parts[0];
}
