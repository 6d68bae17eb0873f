#define SAME 3.0f
