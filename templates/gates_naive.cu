// The plain answers of the tasks in templates/gates.cu.j2, one thread an element.
#define AT (blockIdx.x * 64 + threadIdx.x)

extern "C" __global__ void line(REAL* x, REAL* y, REAL* w, int n) {
    int i = AT;
    if (i < n) y[i] = 2 * x[i] + 1;
}

extern "C" __global__ void moved(REAL* x, REAL* y, REAL* w, int n) {
    int i = AT;
    if (i < n) y[i] = x[i];
}

// The last eighth is padding.
extern "C" __global__ void padded(REAL* x, REAL* y, REAL* w, int n) {
    int i = AT;
    if (i < n) y[i] = i >= n - n / 8 ? (REAL)0 : 2 * x[i] + 1;
}

// Nearly constant.
extern "C" __global__ void flat(REAL* x, REAL* y, REAL* w, int n) {
    int i = AT;
    if (i < n) y[i] = 100 + (REAL)0.01 * x[i];
}

// Negative elements are masked.
extern "C" __global__ void masked(REAL* x, REAL* y, REAL* w, int n) {
    int i = AT;
    if (i < n) y[i] = x[i] > 0 ? x[i] : (REAL)__int_as_float((int)0xff800000u);
}

// A reference that is wrong itself.
extern "C" __global__ void undefined(REAL* x, REAL* y, REAL* w, int n) {
    int i = AT;
    if (i < n) y[i] = (REAL)__int_as_float(0x7fc00000);
}

extern "C" __global__ void integers(int* a, int* b, int n) {
    int i = AT;
    if (i < n) b[i] = i >= n - n / 8 ? (int)0xa5a5a5a5u : a[i] ^ 21;
}

extern "C" __global__ void in_place(REAL* y, int n) {
    int i = AT;
    if (i < n) y[i] = (REAL)0.5 * y[i] + 1;
}

// Leaves everything as it is.
extern "C" __global__ void idle(REAL* y, int n) {
}

extern "C" __global__ void rows(REAL* x, REAL* y, int m, int n) {
    int i = AT;
    if (i < m * n) y[i] = 2 * x[i] + 1;
}
