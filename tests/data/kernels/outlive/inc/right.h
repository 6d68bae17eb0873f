#define RIGHT(x) (2.0f * (x))
