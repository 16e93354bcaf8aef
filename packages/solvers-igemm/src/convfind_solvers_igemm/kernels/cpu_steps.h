// How many products of a register tile are written out one after the other.
#ifndef CPU_STEPS_H
#define CPU_STEPS_H

// A core that executes for two threads has half of its places for instructions, which 12 multiply-adds with a loop
// around them need all of: four times as many have fewer others between them. Of 16 floats half as many do, and
// have room.
#ifndef STEPS
#define STEPS (MR > 8 ? 1 : 4)
#endif

#endif  // CPU_STEPS_H
