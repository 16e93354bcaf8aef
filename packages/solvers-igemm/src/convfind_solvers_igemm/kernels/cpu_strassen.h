// Strassen's products: seven of sums of quarters stand for eight of quarters.
//
// V. Strassen, "Gaussian elimination is not optimal", Numerische Mathematik 13 (1969). A tensor's quarters
// are 2 * i + j: halves of the places of x and y, and of the channels of w, are i, halves of the channels
// of x, and of the filters of w and y, are j. Sums are formed while operands are gathered and packed, and
// results are summed in tiles, as in J. Huang et al., "Strassen's algorithm reloaded", SC 2016.
#ifndef CPU_STRASSEN_H
#define CPU_STRASSEN_H

#ifndef STRASSEN
#define STRASSEN 0         // 0, 1: the geometry's results, channels and filters are those of a half
#endif

#define HALVES (STRASSEN ? 2 : 1)
#define QUARTERS (HALVES * HALVES)
#define PRODUCTS (STRASSEN ? 7 : 1)

// The sum of x is multiplied by w[w_0] + w_sign * w[w_1], added to y[y_0], and y_sign times to y[y_1].
typedef struct {
  int w_0, w_1, y_0, y_1;
  float w_sign, y_sign;
} Product;

#if STRASSEN
__constant Product products[PRODUCTS] = {{0, 3, 0, 3, 1.0f, 1.0f},  {0, 0, 2, 3, 0.0f, -1.0f},
                                         {1, 3, 1, 3, -1.0f, 1.0f}, {2, 0, 0, 2, -1.0f, 1.0f},
                                         {3, 3, 1, 0, 0.0f, -1.0f}, {0, 1, 3, 3, 1.0f, 0.0f},
                                         {2, 3, 0, 0, 1.0f, 0.0f}};
#else
__constant Product products[PRODUCTS] = {{0, 0, 0, 0, 0.0f, 0.0f}};
#endif

// The sums of x that go into the products, of its quarters.
INLINE void sums_of_quarters(float16 *sums, const float16 *x) {
#if STRASSEN
  sums[0] = x[0] + x[3];
  sums[1] = x[2] + x[3];
  sums[2] = x[0];
  sums[3] = x[3];
  sums[4] = x[0] + x[1];
  sums[5] = x[2] - x[0];
  sums[6] = x[1] - x[3];
#else
  sums[0] = x[0];
#endif
}

#endif  // CPU_STRASSEN_H
