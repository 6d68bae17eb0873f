#define OP(x) (2.0f * (x))
