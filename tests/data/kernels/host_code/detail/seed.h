#define SEED 1
